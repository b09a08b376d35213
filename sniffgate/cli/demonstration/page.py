"""How it looks: plain text for pipes and files, colours for a terminal. Rich is imported for a terminal only."""

import os
import sys
from collections.abc import Sequence
from typing import IO, Protocol

import click

from .promises import in_ms
from .tally import Row
from .timeline import Page, Voice

_STYLES = {
    Voice.DEMO: "dim",
    Voice.ACT: "bold yellow",
    Voice.GATEWAY: "cyan",
    Voice.CLIENT: "",
    Voice.KEPT: "green",
    Voice.BROKEN: "bold red",
}


class Paper(Page, Protocol):
    """A page that takes a table too."""

    def table(self, head: Sequence[str], body: Sequence[Sequence[str]]) -> None:
        """Prints a table: the first column is words, the others are numbers."""
        ...


class PlainPage:
    """Text without any control character."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def line(self, at_ms: float, voice: Voice, words: str) -> None:
        """Prints one line of the timeline, at once."""
        click.echo(f"{at_ms:6.0f} ms  {voice.value:<7}  {words}", file=self._file)

    def table(self, head: Sequence[str], body: Sequence[Sequence[str]]) -> None:
        """Prints a table with aligned columns."""
        widths = [max(map(len, column)) for column in zip(head, *body, strict=True)]
        click.echo(file=self._file)
        for words in (head, *body):
            first, *others = (
                f"{word:>{width}}" if column else f"{word:<{width}}"
                for column, (word, width) in enumerate(zip(words, widths, strict=True))
            )
            click.echo("  ".join((first, *others)).rstrip(), file=self._file)


class RichPage:
    """Colours."""

    def __init__(self, file: IO[str], *, force_terminal: bool | None = None) -> None:
        from rich.console import Console

        self._console = Console(file=file, highlight=False, force_terminal=force_terminal)

    def line(self, at_ms: float, voice: Voice, words: str) -> None:
        """Prints one line of the timeline, at once."""
        from rich.text import Text

        style = _STYLES[voice]
        parts = Text.assemble((f"{at_ms:6.0f} ms", "dim"), "  ", (f"{voice.value:<7}", style), "  ", (words, style))
        self._console.print(parts, soft_wrap=True)

    def table(self, head: Sequence[str], body: Sequence[Sequence[str]]) -> None:
        """Prints a table."""
        from rich.box import SIMPLE_HEAD
        from rich.table import Table
        from rich.text import Text

        table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))  # fits into 80 columns
        for column, word in enumerate(head):
            table.add_column(Text(word), justify="right" if column else "left")
        for words in body:
            table.add_row(*map(Text, words))
        self._console.print(table)


def page_for(file: IO[str] | None = None) -> Paper:
    """The page that suits `file` (None: standard output): plain unless it is a terminal that may be coloured."""
    file = file or sys.stdout
    plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb" or not file.isatty()
    return PlainPage(file) if plain else RichPage(file)


def table_of(rows: Sequence[Row], nodes: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """Head and body of the closing table: a line per transport, a column per node."""
    head = ["transport", "requests", "answered", "lost", "doubled", "slowest", *nodes]
    body = [
        [
            row.transport.value,
            *map(str, (row.requests, row.answered, row.lost, row.twice)),
            "-" if row.slowest is None else in_ms(row.slowest),
            *(str(row.nodes.get(name, 0)) for name in nodes),
        ]
        for row in rows
    ]
    return head, body
