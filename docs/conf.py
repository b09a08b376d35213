"""The manual: Markdown through Sphinx, warnings as errors (`nox -s docs`)."""

from sniffgate import __version__

project = "sniffgate"
author = "The sniffgate maintainers"
copyright = author
version = release = __version__

extensions = ["myst_parser"]
exclude_patterns = ["_build"]
myst_enable_extensions = ["deflist", "fieldlist"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = f"sniffgate {__version__}"
html_show_sphinx = False
pygments_style = "friendly"
pygments_dark_style = "monokai"
