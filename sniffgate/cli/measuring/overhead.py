"""`sniffgate measure overhead`: what the gateway costs, in figures."""

import json
import os
import signal
import sys
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import click

if TYPE_CHECKING:
    from ...measure.overhead import Outcome

ROUNDS = 5
QUICK_ROUNDS = 2


def _groups(_ctx: click.Context, _option: click.Parameter, words: str | None) -> tuple[str, ...]:
    from ...measure.trials import GROUPS

    if words is None:
        return GROUPS
    chosen = tuple(word.strip() for word in words.split(","))
    for word in chosen:
        if word not in GROUPS:
            raise click.BadParameter(f"{word!r} is none of {', '.join(GROUPS)}.")
    return chosen


@click.command("overhead")
@click.option("--peers", is_flag=True, help="Compare with HAProxy and nginx, where they are installed.")
@click.option("--rounds", type=click.IntRange(min=1), metavar="N", help="How often each is measured [default: 5].")
@click.option("--quick", is_flag=True, help="Two short rounds, within 30 seconds: enough to see that it works.")
@click.option(
    "--only", "groups", callback=_groups, metavar="WHAT,...", help="rtt, bulk, conn, udp, fairness, start, memory."
)
@click.option("--markdown", "is_markdown", is_flag=True, help="The table as Markdown.")
@click.option("--json", "json_path", metavar="FILE", help="Write every value there as well; - prints them instead.")
def overhead(
    *,
    peers: bool,
    rounds: int | None,
    quick: bool,
    groups: tuple[str, ...],
    is_markdown: bool,
    json_path: str | None,
) -> int:
    """Measure what the gateway adds to talking to a node directly.

    Starts nodes, clients and gateways as processes on 127.0.0.1 and measures them in interleaved rounds: medians,
    ratios, and the aims beside them. Takes less than three minutes with --peers. The machine should have nothing
    else to do. Ends with 1 when a measurement of sniffgate itself failed.
    """
    if sys.platform != "linux":
        raise click.ClickException("measuring the overhead needs Linux: it reads /proc.")
    from ...measure.host import describe_host, load_average
    from ...measure.overhead import kinds, measure_overhead
    from ...measure.overhead_table import artifact
    from ...measure.processes import RoundFailed
    from ...measure.trials import Settings

    settings = Settings(rounds or ROUNDS)
    if quick:
        settings = Settings(rounds or QUICK_ROUNDS, seconds=0.1, idle=500, seconds_per_round=13.0)
    signal.signal(signal.SIGTERM, _interrupt)
    load_before = load_average()
    try:
        outcome = measure_overhead(kinds(with_peers=peers), settings, groups, _tell)
    except RoundFailed as error:
        raise click.ClickException(str(error)) from error
    finally:
        _tell("")
    everything = artifact(outcome, describe_host(), load_before, load_average())
    if json_path == "-":
        click.echo(json.dumps(everything, indent=2))
    else:
        if json_path is not None:
            with open(json_path, "w", encoding="utf-8") as file:
                json.dump(everything, file, indent=2)
                file.write("\n")
        _show(everything, outcome, is_markdown=is_markdown)
    return int(any(each.target == "sniffgate" for each in outcome.troubles))


def _show(everything: dict[str, Any], outcome: "Outcome", *, is_markdown: bool) -> None:
    from ...measure.overhead_table import markdown, plain, remarks, table

    titles, rows = table(outcome)
    if is_markdown:
        text = markdown(titles, rows)
    elif sys.stdout.isatty():
        from ...control.table import draw_table

        text = draw_table(titles, rows, color="NO_COLOR" not in os.environ)
    else:
        text = plain(titles, rows)
    click.echo(text, nl=False)
    click.echo(f"\n{_conditions(everything)}")
    for remark in remarks(outcome):
        click.echo(remark)


def _conditions(everything: dict[str, Any]) -> str:
    host, load, versions = everything["host"], everything["load_average"], everything["versions"]
    gateways = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
    return (
        f"Medians of {everything['rounds_begun']} rounds; {gateways}; {host['python']}, {host['system']} "
        f"{host['kernel']}, {host['processors']} processors; commit {host['commit'] or 'unknown'}; "
        f"load average {load['before']} before and {load['after']} after."
    )


def _tell(words: str) -> None:
    """Shows on a terminal how far it is."""
    if sys.stderr.isatty():
        click.echo(f"\r\x1b[K{words}", nl=False, err=True)


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
