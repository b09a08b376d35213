"""The manual's page about a study as plain Markdown, for a checkout and a forge: numbers and tables in their places.

The page is the one beside the report's directory, `measurements.md` beside `measurements/`. The manual's builder fills
it in; who reads the files would see `{{ names }}`, so the report holds a copy that needs no builder.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from ...errors import SniffgateError
from .gathered import Gathered
from .markdown import markdown, text_markdown
from .reading import NOTHING

NAME = "README.md"
MADE = "<!-- Made by `sniffgate measure report` from the page of the manual, ../{page}. Change that one. -->"
_COMMENT = re.compile(r"\A<!--.*?-->", re.DOTALL)
_NUMBER = re.compile(r"\{\{ (\w+) \}\}")
_PICTURE = re.compile(r"^!\[[^]]*\]\([^)]*\)\n\n?", re.MULTILINE)
_LINK = re.compile(r"\]\((?!\w+:|#|/)([^)\s]+)\)")  # to a file, not to a site or a place on the page


class NoSuchTable(SniffgateError):
    """The page shows a table that the report does not have."""


def page_beside(folder: Path) -> Path | None:
    """The page that shows the report in `folder`; None when there is none. Errors: `OSError`."""
    folder = folder.resolve()
    page = folder.parent / f"{folder.name}.md"
    if not page.is_file():
        return None
    text = page.read_text(encoding="utf-8", errors="replace")  # whatever it is, it may be somebody else's
    return page if f"{{include}} {folder.name}/tables/" in text else None


def readme(page: Path, gathered: Gathered, *, with_figures: bool = True) -> str:
    """The text of `page` with the study's numbers and tables; figures as PNG, or left out.

    Links lead where they led, from one directory further down. Errors: `NoSuchTable`; `OSError`.
    """
    text = _COMMENT.sub(MADE.format(page=page.name), page.read_text(encoding="utf-8"))
    text = text if with_figures else _PICTURE.sub("", text)
    text = _LINK.sub(lambda found: f"]({_from_below(found[1], page.stem)})", text)
    numbers = gathered.numbers
    text = _NUMBER.sub(lambda found: text_markdown(numbers.get(found[1], NOTHING)), text)
    return _with_tables(text, page, {table.name: markdown(table) for table in gathered.tables})


def _with_tables(text: str, page: Path, tables: Mapping[str, str]) -> str:
    def table(found: re.Match[str]) -> str:
        if found[1] not in tables:
            raise NoSuchTable(f"{page}: the report has no table {found[1]!r}.")
        return tables[found[1]]

    return re.sub(rf"^```\{{include\}} {re.escape(page.stem)}/tables/(.+)\.md\n```\n", table, text, flags=re.MULTILINE)


def _from_below(target: str, folder: str) -> str:
    if not target.startswith(f"{folder}/"):
        return f"../{target}"
    inside = target.removeprefix(f"{folder}/")
    return re.sub(r"\.svg$", ".png", inside)  # forges show a PNG everywhere
