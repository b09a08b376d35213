"""`sniffgate demo`: failover to be seen, on this machine, without a file."""

import errno
import functools
import json
import logging
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import click
import trio

from ..errors import CommandRefused, SniffgateError
from .demonstration.page import page_for, table_of
from .demonstration.promises import Limits, Promises
from .demonstration.script import play
from .demonstration.stage import open_stage
from .demonstration.tally import Row
from .demonstration.timeline import Page, Timeline, Voice

LONGEST = 60.0  # seconds; it takes about six
INTERRUPTED = 130  # 128 + SIGINT, as shells have it


@click.command("demo")
@click.option(
    "--within",
    "failover_ms",
    type=click.IntRange(min=0),
    metavar="MS",
    help="The longest failover that keeps the promise [default: 1000].",
)
@click.option("--json", "as_json", is_flag=True, help="End with JSON on standard output; the timeline goes to stderr.")
def demo(failover_ms: int | None, as_json: bool) -> None:
    """Show a failover: kill a node under traffic, bring it back, switch by hand, drain.

    Starts three nodes as processes, a gateway and two clients, takes about six seconds, and measures what it shows.
    Ends with 0 when everything promised was seen, with 1 when something was not (it is named), with 130 on Ctrl-C.
    """
    limits = Limits() if failover_ms is None else Limits(failover=failover_ms / 1000)
    promises = Promises()
    page = page_for(sys.stderr if as_json else sys.stdout)
    rows: list[Row] | None = None
    trouble: BaseExceptionGroup[Exception] | None = None
    try:
        with only_errors_logged():
            rows = trio.run(functools.partial(show, page, promises, limits))
    except* (SniffgateError, OSError) as group:
        trouble = group
    if trouble is not None:
        error = _first(trouble)
        if isinstance(error, OSError) and error.errno == errno.EPIPE:  # `sniffgate demo | head`: click ends it quietly
            raise error from None
        raise click.ClickException(str(error)) from trouble
    if rows is None:
        click.echo("interrupted; nodes, gateway and clients have ended", err=True)
        click.get_current_context().exit(INTERRUPTED)
    head, body = table_of(rows, ("node-a", "node-b", "node-c"))
    page.table(head, body)
    if as_json:
        click.echo(json.dumps(_as_json(rows, promises), indent=2))
    for promise in promises.broken:
        click.echo(f"broken promise: {promise}", err=True)
    click.get_current_context().exit(0 if promises.all_kept else 1)


async def show(page: Page, promises: Promises, limits: Limits) -> list[Row] | None:
    """The whole demonstration. The closing rows; None when it was interrupted.

    Errors: `NodeDidNotStart` and `CannotBind`, in a group.
    """
    rows: list[Row] | None = None
    timeline = Timeline(page)
    with trio.open_signal_receiver(signal.SIGINT) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_cancel_when_told, signals, nursery.cancel_scope)
            with trio.move_on_after(LONGEST) as limit:
                async with open_stage(timeline, promises, limits) as stage:
                    try:
                        await play(stage)
                    except CommandRefused as refusal:
                        timeline.tell(promises.fact("an operator's command", str(refusal), "obeyed", kept=False))
                    rows = [client.tally.row() for client in stage.clients]
            if limit.cancelled_caught:
                timeline.tell(promises.within("the end of the demonstration", LONGEST, None))
                rows = rows or []
            timeline.say(Voice.DEMO, "nodes, gateway and clients have ended")
            nursery.cancel_scope.cancel()
    return rows


async def _cancel_when_told(signals: AsyncIterator[int], scope: trio.CancelScope) -> None:
    async for _ in signals:
        scope.cancel()


@contextmanager
def only_errors_logged() -> Iterator[None]:
    """The timeline tells what the gateway's log would; a traceback must not get lost."""
    logger = logging.getLogger("sniffgate")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _as_json(rows: list[Row], promises: Promises) -> dict[str, object]:
    return {
        "ok": promises.all_kept,
        "promises": [
            {"promise": each.words, "measured": each.measured, "promised": each.promised, "kept": each.kept}
            for each in promises
        ],
        "table": [
            {
                "transport": row.transport.value,
                "requests": row.requests,
                "answered": row.answered,
                "lost": row.lost,
                "answered_twice": row.twice,
                "slowest_ms": None if row.slowest is None else round(row.slowest * 1000, 3),
                "nodes": row.nodes,
            }
            for row in rows
        ],
    }


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Some error of a group."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
