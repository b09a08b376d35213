"""The manual: Markdown through Sphinx, warnings as errors (`nox -s docs`)."""

from pathlib import Path

from sniffgate import __version__
from sniffgate.measure.report.manual import substitutions

project = "sniffgate"
author = "The sniffgate maintainers"
copyright = author
version = release = __version__

extensions = ["myst_parser"]
exclude_patterns = ["_build", "measurements"]
myst_enable_extensions = ["deflist", "fieldlist", "substitution"]
myst_heading_anchors = 3
myst_substitutions = substitutions(Path(__file__).parent / "measurements")  # every figure of the study, by name

html_theme = "furo"
html_title = f"sniffgate {__version__}"
html_show_sphinx = False
pygments_style = "friendly"
pygments_dark_style = "monokai"
