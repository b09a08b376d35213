"""A table as a description that three renderers read. Pure.

Texts may hold words in backticks, which are shown as code; everything else in them is plain.
"""

import re
from collections.abc import Iterable, Iterator
from string import ascii_lowercase

import attrs

from .reading import NOTHING, Reading


@attrs.frozen
class Column:
    """A column: numbers stand to the right, words to the left and break within `share` of the width."""

    title: str
    share: float | None = None  # of the line's width; None: as wide as its widest cell

    @property
    def is_number(self) -> bool:
        """Whether its cells stand to the right."""
        return self.share is None


@attrs.frozen
class Cell:
    """What stands in one place; `note` becomes a footnote of the table."""

    text: str
    note: str = ""


@attrs.frozen
class Table:
    """A whole table. `name` is its file's, `title` its caption."""

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def __attrs_post_init__(self) -> None:
        assert all(len(row) == len(self.columns) for row in self.rows), self.name

    @property
    def notes(self) -> tuple[str, ...]:
        """The footnotes, each once, in the order of their first mark."""
        return tuple(dict.fromkeys(cell.note for row in self.rows for cell in row if cell.note))

    def mark(self, cell: Cell) -> str:
        """The letter of the footnote of a cell; empty when it has none."""
        return letter(self.notes.index(cell.note)) if cell.note else ""

    def marked_notes(self) -> list[tuple[str, str]]:
        """Every footnote with its letter."""
        return [(letter(place), note) for place, note in enumerate(self.notes)]


def letter(place: int) -> str:
    """a to z, then aa, ab, …"""
    most, least = divmod(place, len(ascii_lowercase))
    return (letter(most - 1) if most else "") + ascii_lowercase[least]


def words(*texts: str) -> tuple[Cell, ...]:
    """A row of texts alone."""
    return tuple(Cell(text) for text in texts)


def figure(reading: Reading, unit: str = "") -> Cell:
    """The median with its spread; nothing, with the reason as a footnote, where there is none."""
    text = f"{reading.full} {unit}".rstrip() if reading.seen else NOTHING
    return Cell(text, reading.absent or reading.remark)


def table(name: str, title: str, columns: Iterable[Column], rows: Iterable[tuple[Cell, ...]]) -> Table:
    """A table from anything that yields rows."""
    return Table(name, title, tuple(columns), tuple(rows))


def pieces(text: str) -> Iterator[tuple[bool, str]]:
    """The text in pieces: whether each is code, and what it says. A backtick without its second one is plain."""
    end = 0
    for found in re.finditer(r"`([^`]+)`", text):
        if found.start() > end:
            yield False, text[end : found.start()]
        yield True, found[1]
        end = found.end()
    if end < len(text):
        yield False, text[end:]
