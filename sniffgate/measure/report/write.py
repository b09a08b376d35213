"""Writes a report: tables, numbers, a LaTeX document, figures and the pages that have it all."""

from collections.abc import Iterator
from pathlib import Path

from ..study.artifact import Study
from .conditions import conditions
from .figures import CAPTIONS, draw_figures
from .gathered import TITLE, Gathered, gather
from .latex import macros_latex, table_latex
from .markdown import markdown
from .markup import table_html
from .page import Chapter, page
from .readme import NAME, page_beside, readme
from .tex import document

FIGURES = "figures"
TABLES = "tables"


def write_report(study: Study, folder: Path, *, with_figures: bool = True) -> Iterator[Path]:
    """Writes everything and yields each file.

    Where the manual's page of the report is beside `folder`, its text is among them (`readme`). Errors: `NoFigures`
    and `NoSuchTable` before anything is written; `OSError`.
    """
    gathered = gather(study)
    source = page_beside(folder)
    copy = None if source is None else readme(source, gathered, with_figures=with_figures)
    drawn = list(draw_figures(gathered.facts, gathered.paper, folder / FIGURES)) if with_figures else []
    yield from drawn
    for path, text in texts(gathered).items():
        yield _write(folder / path, text)
    pictures = {path.stem: path.read_text(encoding="utf-8") for path in drawn if path.suffix == ".svg"}
    yield _write(folder / "index.html", whole_page(gathered, pictures))
    if copy is not None:
        yield _write(folder / NAME, copy)


def texts(gathered: Gathered) -> dict[str, str]:
    """Every file but the figures and the page that holds them: path within the report → text. Pure."""
    found = {}
    for table in gathered.tables:
        found[f"{TABLES}/{table.name}.md"] = markdown(table)
        found[f"{TABLES}/{table.name}.html"] = table_html(table)
        found[f"{TABLES}/{table.name}.tex"] = table_latex(table)
    found["numbers.tex"] = macros_latex(gathered.numbers)
    names = [table.name for table in gathered.tables]
    found["main.tex"] = document(TITLE, _note(gathered), names, list(CAPTIONS.items()), gathered.numbers)
    return found


def _note(gathered: Gathered) -> str:
    return (
        f"The original's figures are those of {gathered.paper.source.citation}, on {gathered.paper.source.host}. "
        "All others are medians, with the least and the most in brackets, of the artifact beside this file."
    )


def whole_page(gathered: Gathered, pictures: dict[str, str]) -> str:
    """`index.html`. `pictures`: the SVG text of each figure by its name."""
    chapters = []
    for section, tables in gathered.sections:
        opening = [(pictures[section.figure], CAPTIONS[section.figure])] if section.figure in pictures else []
        chapters.append(Chapter(section.title, tables, opening))
    return page(TITLE, conditions(gathered), chapters)


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path
