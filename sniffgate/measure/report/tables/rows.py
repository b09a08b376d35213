"""The shape that most tables have: one line for each figure, the original's beside ours."""

from collections.abc import Iterable

import attrs

from ..facts import Facts
from ..original import Original
from ..table import Cell, Column, Table, figure, table, words

COLUMNS = (
    Column("scenario", 0.3),
    Column("figure", 0.3),
    Column("unit"),
    Column("original"),
    Column("here"),
)


@attrs.frozen
class Row:
    """A line: the place of our figure in the artifact, and the name of the original's among the paper's."""

    group: str  # what was done; shown where it differs from the line above
    what: str
    place: str
    unit: str = "ms"
    original: str = ""  # a name in original.toml, or words with such names in braces


def compared(name: str, title: str, rows: Iterable[Row], facts: Facts, paper: Original) -> Table:
    """A table of such lines."""
    lines, above = [], ""
    for row in rows:
        group = row.group if row.group != above else ""
        lines.append((*words(group, row.what, row.unit, of_the_paper(paper, row.original)), _ours(facts, row)))
        above = row.group
    return table(name, title, COLUMNS, lines)


def of_the_paper(paper: Original, wanted: str) -> str:
    """A figure of the paper by its name, or a sentence with such names in braces."""
    return paper.figures[wanted] if wanted in paper.figures else wanted.format_map(paper.figures)


def _ours(facts: Facts, row: Row) -> Cell:
    return figure(facts.at(row.place))
