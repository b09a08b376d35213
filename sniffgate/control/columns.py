"""Columns of text for a terminal, and blocks of text where it is too narrow for them.

Rich is imported only when something is drawn: it takes longer than a whole command.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_COLOURS = {"healthy": "green", "unhealthy": "red", "probation": "yellow", "draining": "yellow", "disabled": "dim"}
_NARROWEST = 24  # for the last column of a table, the one that is folded
_GAP = 2  # between columns


def open_page(width: int | None, *, color: bool) -> tuple[Console, io.StringIO]:
    """A console and the page it draws on; `width` in columns, None = as wide as the terminal."""
    from rich.console import Console

    page = io.StringIO()
    console = Console(
        file=page, width=width, force_terminal=color, color_system="auto" if color else None, markup=False, emoji=False,
        highlight=False, legacy_windows=False,
    )  # fmt: skip
    return console, page


def text_of(page: io.StringIO) -> str:
    """What was drawn on the page, without blanks at the ends of lines."""
    return "".join(f"{line.rstrip()}\n" for line in page.getvalue().splitlines())


def print_table(
    console: Console, titles: Sequence[str], rows: Iterable[Sequence[object]], state_column: int | None = None
) -> None:
    """Prints the rows without the columns that are empty in all of them; as blocks where it is too narrow for columns.

    Only the last column is folded: an address in pieces cannot be read or copied. The words of `state_column` have
    colours.
    """
    from rich.text import Text

    cells = [[Text(plain(value)) for value in row] for row in rows]
    for row in cells if state_column is not None else ():
        state = row[state_column or 0]
        state.stylize(_COLOURS.get(state.plain.partition(",")[0], ""))
    columns = [column for column in zip(titles, *cells, strict=True) if any(column[1:])]
    if not cells or not columns:
        return
    widths = [max(len(titled), *(cell.cell_len for cell in column)) for titled, *column in columns]
    console.print()
    if sum(widths[:-1]) + min(widths[-1], _NARROWEST) + _GAP * (len(widths) - 1) <= console.width:
        console.print(_table(columns))
    else:
        _print_blocks(console, columns)


def _table(columns: Sequence[tuple[Any, ...]]) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for title, *_ in columns[:-1]:
        table.add_column(title, no_wrap=True)
    table.add_column(columns[-1][0], overflow="fold")
    for row in zip(*(column[1:] for column in columns), strict=True):
        table.add_row(*row)
    return table


def _print_blocks(console: Console, columns: Sequence[tuple[Any, ...]]) -> None:
    from rich.padding import Padding
    from rich.text import Text

    titles = [column[0] for column in columns]
    for row in zip(*(column[1:] for column in columns), strict=True):
        named = zip(titles, row, strict=True)
        first, *others = [Text(f"{title} " if title else "").append_text(cell) for title, cell in named if cell]
        first.stylize("bold")
        console.print(first)
        console.print(Padding(Text(", ").join(others), (0, 0, 0, 2)))


def plain(value: object) -> str:
    """A cell's text: a name or an error may hold anything, a terminal would obey some of it."""
    if value is None:
        return ""
    return "".join(char if char.isprintable() else " " if char == "\n" else "?" for char in str(value))
