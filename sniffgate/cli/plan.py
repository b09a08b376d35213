"""`sniffgate plan FILE`: what a running gateway would do with another configuration, told before it does it."""

import functools
import json
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import click

from ..errors import CommandRefused, ConfigError
from .check import load
from .ctl import DEFAULT_ADDRESS, Asker, token_in

if TYPE_CHECKING:
    from .plan_report import Report

CHANGES = 2


@click.command("plan")
@click.argument("file", type=click.Path(allow_dash=True))
@click.option(
    "-a", "--address", default=DEFAULT_ADDRESS, show_default=True, metavar="ADDR", help="host:port or unix:/path"
)
@click.option("--token-file", type=click.Path(), help="Where the token is, when the gateway has an admin_token_file.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout instead.")
@click.option("--timeout", default=10.0, show_default=True, type=click.FloatRange(0, min_open=True), help="In seconds.")
def plan(file: str, address: str, token_file: str | None, as_json: bool, timeout: float) -> int:
    """Tell what a running gateway would do if FILE ("-": standard input) were put in force now. Nothing is changed.

    Ends with 0 when nothing would change, with 2 when something would, with 1 when FILE cannot be used or the gateway
    cannot be asked.
    """
    refuse = functools.partial(_refuse, as_json=as_json)
    try:
        config = load(file)
    except ConfigError as error:
        return refuse([str(fault) for fault in error.faults], "")
    for warning in () if as_json else config.warnings:
        click.echo(f"warning: {warning}", err=True)
    try:
        reply = Asker(address, token_in(token_file), timeout)("state")
    except (CommandRefused, ConfigError) as error:
        return refuse([str(error)])
    if reply["ok"] is not True:
        return refuse([f"{address}: {reply.get('error')}"])
    from .plan_report import report_of

    try:
        report = report_of(cast("Mapping[str, Any]", reply), config)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return refuse([f"the state that {address} answered cannot be read: {error}"])
    click.echo(
        json.dumps({"ok": True, "file": file, **report, "warnings": config.warnings}) if as_json else _page(report)
    )
    return CHANGES if report["changes"] else 0


def _refuse(sentences: list[str], prefix: str = "Error: ", *, as_json: bool) -> int:
    from .logs import printable

    if as_json:
        click.echo(json.dumps({"ok": False, "errors": sentences}))
    for sentence in () if as_json else sentences:
        click.echo(f"{prefix}{printable(sentence)}", err=True)
    return 1


def _page(report: "Report") -> str:
    from .logs import printable
    from .plan_report import rows

    cells = [[printable(cell) for cell in row] for row in rows(report)]
    if not cells:
        return "no change"
    if sys.stdout.isatty():
        from ..control.table import draw_table

        return draw_table(["", "what", "how"], cells, color="NO_COLOR" not in os.environ).rstrip("\n")
    widths = [max(len(row[column]) for row in cells) for column in (0, 1)]
    return "\n".join(f"{row[0]:{widths[0]}}  {row[1]:{widths[1]}}  {row[2]}".rstrip() for row in cells)
