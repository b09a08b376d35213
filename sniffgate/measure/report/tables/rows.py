"""The shape that most tables have: one line for each figure, the original's beside ours."""

from collections.abc import Iterable

import attrs

from ..facts import Facts
from ..original import Original
from ..reading import NOTHING
from ..table import Cell, Column, Table, figure, table, words

ARM = 0.3  # of the line's width
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


@attrs.frozen
class Measure:
    """A column of a table of arms: the key of an observation, and another one to show after `of`."""

    title: str
    key: str
    of: str = ""


def by_arm(name: str, title: str, scenario: str, measures: Iterable[Measure], facts: Facts) -> Table:
    """A line for each arm of a scenario, a column for each figure of it."""
    every = tuple(measures)
    columns = [Column("arm", ARM), *(Column(measure.title) for measure in every)]
    found = facts.study.scenarios.get(scenario)
    arms = {name: arm.title for name, arm in found.arms.items()} if found is not None else {}
    lines = [
        (Cell(shown), *(_of_arm(facts, f"{scenario}/{arm}", measure) for measure in every))
        for arm, shown in arms.items()
    ]
    if not lines:
        why = found.reason if found is not None and found.reason else "not measured"
        lines = [(Cell(f"`{scenario}`"), *(Cell(NOTHING, why) for _ in every))]
    return table(name, title, columns, lines)


def _of_arm(facts: Facts, arm: str, measure: Measure) -> Cell:
    cell = figure(facts.at(f"{arm}/{measure.key}"))
    if not measure.of or cell.text == NOTHING:
        return cell
    return Cell(f"{cell.text} of {facts.at(f'{arm}/{measure.of}').text}", cell.note)
