"""`sniffgate replay FILE`: what an event log proves."""

import datetime
import enum
import json
import sys
from collections.abc import Iterable, Iterator

import attrs
import click

from ..config.schema import Config
from ..errors import ConfigError
from ..state.model import Route, State
from ..state.replay import (
    Finding,
    GapFound,
    LinesMissing,
    LogDamaged,
    PartBegan,
    PartEnded,
    Switched,
    TornLine,
    Witness,
    replay_lines,
)
from ..state.serial import type_name
from .check import load
from .logs import printable


@click.command("replay")
@click.argument("file", type=click.Path(allow_dash=True))
@click.option("--config", "other", type=click.Path(), metavar="NEW", help="Try the same evidence under these settings.")
@click.option("--flows", type=click.Path(), metavar="LOG", help="With --config: the program's log, to count cut flows.")
@click.option("--json", "as_json", is_flag=True, help="With --config: one JSON object on stdout instead.")
def replay(file: str, other: str | None, flows: str | None, as_json: bool) -> None:
    """Fold the event log FILE ("-": standard input) and print every switch with the evidence behind it.

    With --config, print what would have switched when under the settings of NEW, beside what happened.

    Ends with 0 when all of it is proven (a torn last line is allowed), with 1 when the file is damaged or cannot be
    read, or when lines are missing so that part of it is not provable.
    """
    if other is None and (flows is not None or as_json):
        raise click.UsageError("--flows and --json go with --config")
    try:
        if other is None:
            is_proven = print_findings(_lines(file), click.format_filename(file))
        else:
            is_proven = _try(file, other, flows, as_json=as_json)
    except LogDamaged as error:
        raise _cannot(file, str(error)) from error
    if not is_proven:
        sys.exit(1)


def _try(file: str, other: str, flows: str | None, *, as_json: bool) -> bool:
    """Prints a backtest; False when part of the log is not provable."""
    from ..state.backtest import Run, backtest
    from . import backtest as report
    from .flow_spans import NoFlowLog, read_flows

    try:
        config = load(other)
    except ConfigError as error:
        raise click.ClickException("\n".join(printable(str(fault)) for fault in error.faults)) from error
    try:
        read = None if flows is None else read_flows(_lines(flows))
    except NoFlowLog as error:
        raise _cannot(str(flows), str(error)) from error
    found = list(backtest(_lines(file), config))
    gaps = [line for each in found if not isinstance(each, Run) for line in _words(each, click.format_filename(file))]
    runs = [report.report_of(each, config, read) for each in found if isinstance(each, Run)]
    is_proven = not any(isinstance(each, GapFound | LinesMissing) for each in found)
    if as_json:
        whole = {"ok": True, "file": file, "config": other, "proven": is_proven, "notes": gaps, "runs": runs}
        click.echo(json.dumps(whole))
        return is_proven
    for run in runs:
        for line in report.page(run):
            click.echo(printable(line))
    for line in gaps:
        click.echo(printable(line))
    return is_proven


def _lines(file: str) -> Iterator[str]:
    """Its lines. What cannot be read is the file's fault; what cannot be printed is left to `run_program`."""
    try:
        with click.open_file(file, encoding="utf-8", errors="replace") as lines:
            yield from lines
    except OSError as error:
        raise _cannot(file, error.strerror or str(error)) from error


def _cannot(file: str, reason: str) -> click.ClickException:
    return click.ClickException(printable(f"cannot replay {click.format_filename(file)}: {reason}"))


def print_findings(lines: Iterable[str], file: str) -> bool:
    """Prints what the lines of `file` prove; False when there is a gap in them."""
    is_proven = True
    for finding in replay_lines(lines):
        for line in _words(finding, file):
            click.echo(printable(line))
        is_proven = is_proven and not isinstance(finding, GapFound | LinesMissing)
    return is_proven


def _words(finding: Finding, file: str) -> list[str]:
    match finding:
        case PartBegan(line, header, follows):
            how = "the run goes on" if follows else "a run begins"
            return [f"line {line}: {how}, {_wall(header.wall_ms)}, {_counts(header.state)}"]
        case Switched(switch, evidence):
            change = f"{_names(switch.before)} -> {_names(switch.after)}"
            why = f"{switch.reason.value}: {switch.detail}" if switch.detail else switch.reason.value
            head = f"line {finding.line}: {_seconds(switch.at)} epoch {switch.epoch} {switch.route}: {change} ({why})"
            return [head, *(f"    {_testimony(each)}" for each in evidence)]
        case GapFound(line, lost):
            return [f"not provable past line {line} ({lost} lost after it)"]
        case LinesMissing(line, next_line, lost):
            counted = "1 event is" if lost == 1 else f"{lost} events are"
            return [f"{file}, line {next_line}: {counted} missing before it; not provable past line {line}"]
        case TornLine(line):
            return [f"line {line}: torn, as by a crash; not counted"]
        case PartEnded(line, state, events, switches):
            head = f"line {line}: end, {_wall(state.wall_ms)}, {_counts(state)}, {events} events, {switches} switches"
            return [head, *(f"    {_route(state.routes[key])}" for key in sorted(state.routes, key=str))]


def _counts(state: State) -> str:
    return f"{_seconds(state.now)} epoch {state.epoch} revision {state.revision}"


def _route(route: Route) -> str:
    words = f"{route.key}: {_names(route.active)}"
    if route.standbys:
        words += f", then {_names(route.standbys)}"
    if route.trial is not None:
        words += f", on trial {route.trial}"
    if route.pin is not None:
        words += f", pinned to {route.pin}"
    return f"{words} [{route.mode.value}]"


def _testimony(witness: Witness) -> str:
    event = witness.event
    fields = attrs.asdict(event, recurse=False)
    at = fields.pop("at")
    del fields["wall_ms"]
    words = " ".join(f"{name}={_value(value)}" for name, value in fields.items() if value not in (None, ""))
    return f"line {witness.line}: {_seconds(at)} {type_name(event)} {words}".rstrip()


def _value(value: object) -> str:
    match value:
        case enum.Enum():
            return str(value.value)
        case Config():
            return f"({len(value.listeners)} listeners, {len(value.nodes)} nodes)"
        case float():
            return f"{value:.6g}"
        case str() if " " in value:
            return f'"{value}"'
        case _:
            return str(value)


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(names) or "nothing"


def _seconds(at: float) -> str:
    return f"{at:.3f} s"


def _wall(wall_ms: int) -> str:
    try:
        moment = datetime.datetime.fromtimestamp(wall_ms / 1000, datetime.UTC)
    except (ValueError, OverflowError, OSError):
        return f"wall time {wall_ms} ms"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
