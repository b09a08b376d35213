"""Flows that the engine began by itself: no task waits for them, so they say goodbye here and are told of afterwards.

Only the engine's thread acts here. A connection that is made, used and closed within it never changes threads.
"""

from collections.abc import Callable
from functools import partial
from typing import Protocol

from .endings import say_farewell, wait_delivered
from .engine_flow import EngineFlow
from .engine_flow import Loop as FlowLoop
from .engine_reports import Reports
from .relay import Counters, EndReason
from .shortcut import FlowGroup, Shortcut, TakenFlow
from .tcp_sockets import SocketConn

CUT_AT_ONCE = 256  # flows of a group for each turn: each costs some 10 us, in which no byte of anybody moves


class Loop(FlowLoop, Protocol):
    """What these flows need of the engine's loop."""

    clock: Callable[[], float]  # Trio's
    reports: Reports

    def adopt(self, flow: EngineFlow) -> None:
        """Starts relaying a flow that was begun in the engine's thread."""
        ...

    def call(self, command: Callable[[], None]) -> None:
        """Runs `command` in the engine's thread, with the next batch of events at the latest."""
        ...


class DirectFlow(EngineFlow):
    """A flow that the engine began by itself."""

    closes_at_once = True
    __slots__ = ("clock", "reports", "shortcut", "taken")

    clock: Callable[[], float]
    reports: Reports
    shortcut: Shortcut
    taken: TakenFlow


def begin_flow(
    loop: Loop, shortcut: Shortcut, client: SocketConn, node: SocketConn, counters: Counters, since: float
) -> None:
    """Relays between a client and its node, for the owner of the shortcut. *Closes:* both, in the end."""
    taken = TakenFlow(client, node, counters, since, loop.clock())
    report = loop.reports.add
    flow = DirectFlow(
        loop,
        client.plain,
        node.plain,
        counters,
        shortcut.limits,
        partial(report, shortcut.owner.heard, taken),
        _flow_is_over,
    )
    flow.clock, flow.reports, flow.shortcut, flow.taken = loop.clock, loop.reports, shortcut, taken
    shortcut.group.flows.add(flow)
    report(shortcut.owner.begun, taken)
    loop.adopt(flow)


def _flow_is_over(flow: EngineFlow) -> None:
    """Says goodbye for a flow that the engine has let go of, and reports it."""
    assert isinstance(flow, DirectFlow)
    taken, shortcut = flow.taken, flow.shortcut
    taken.ended = flow.clock()
    shortcut.group.flows.discard(flow)
    report = flow.reports.add
    if flow.crashed:
        taken.client.abort()
        taken.node.abort()
        report(shortcut.owner.ended, taken, EndReason.CRASHED, urgent=True)
        return
    farewell = partial(
        say_farewell, taken.client, taken.node, flow.reason, client_was_ended=flow.node.ended, holding=flow.holding
    )
    if flow.survivor is not None:
        survivor = taken.client if flow.survivor is flow.client else taken.node
        if survivor.unsent():
            wait = partial(wait_delivered, survivor)
            report(shortcut.owner.lost, taken, flow.reason, wait, farewell, urgent=True)
            return
    farewell()
    reason = flow.reason or flow.timed_out
    report(shortcut.owner.ended, taken, reason, urgent=reason is EndReason.NODE_RESET)


def cut_group(loop: Loop, group: FlowGroup, on_over: Callable[[], None]) -> None:
    """Cuts every flow of a group, a part of them each turn; nothing may join it any more.

    `on_over` is called in Trio's thread, when all of them have been reported.
    """
    group.is_over = True
    flows = group.flows
    for _ in range(min(CUT_AT_ONCE, len(flows))):
        flow = next(iter(flows))
        assert isinstance(flow, DirectFlow)
        loop.finish(flow)
    if flows:
        loop.call(partial(cut_group, loop, group, on_over))
    else:
        loop.reports.add(on_over, urgent=True)
