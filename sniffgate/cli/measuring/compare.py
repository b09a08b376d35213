"""`sniffgate measure compare`: two artifacts beside each other."""

import json
import os
import sys
from pathlib import Path

import click

from ...errors import SniffgateError


def _names(_ctx: click.Context, _option: click.Parameter, words: str | None) -> tuple[str, ...]:
    return tuple(word.strip() for word in (words or "").split(",") if word.strip())


@click.command("compare")
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@click.option("--only", callback=_names, metavar="NAME,...", help="These scenarios instead of all.")
@click.option("--markdown", "is_markdown", is_flag=True, help="The table as Markdown.")
@click.option("--json", "is_json", is_flag=True, help="Everything as JSON.")
def compare(a: str, b: str, *, only: tuple[str, ...], is_markdown: bool, is_json: bool) -> None:
    """Put the figures of two studies beside each other: medians, spread, B's median over A's.

    A and B are artifacts, or the directories that hold them. What one of them has not is named with the reason.
    """
    from ...measure.study import comparing
    from ...measure.study.artifact import load_study

    try:
        old, new = load_study(Path(a)), load_study(Path(b))
    except SniffgateError as error:
        raise click.ClickException(str(error)) from error
    for name in only:
        if name not in old.scenarios and name not in new.scenarios:
            raise click.UsageError(f"--only: neither study has a scenario {name!r}.")
    rows, remarks = comparing.compare(old, new, only), comparing.differences(old, new)
    if is_json:
        everything = {"a": a, "b": b, "differences": remarks, "rows": [comparing.plain_row(row) for row in rows]}
        click.echo(json.dumps(everything, indent=1, ensure_ascii=False))
        return
    click.echo(_table([comparing.cells(row) for row in rows], is_markdown=is_markdown), nl=False)
    for remark in remarks:
        click.echo(f"{'* ' if is_markdown else ''}{remark}")


def _table(rows: list[tuple[str, ...]], *, is_markdown: bool) -> str:
    from ...measure.study.comparing import TITLES

    if is_markdown:
        lines = (TITLES, ("---", "---", "---", "---:", "---:", "---:"), *rows)
        return "".join(f"| {' | '.join(cell.replace('|', '&#124;') for cell in line)} |\n" for line in lines) + "\n"
    if sys.stdout.isatty():
        from ...control.table import draw_table

        return draw_table(list(TITLES), [list(row) for row in rows], color="NO_COLOR" not in os.environ)
    widths = [max(map(len, column)) for column in zip(TITLES, *rows, strict=True)]
    return "".join(
        "  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip() + "\n"
        for line in (TITLES, *rows)
    )
