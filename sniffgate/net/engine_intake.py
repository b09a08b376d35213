"""Shortcuts in the relay engine: a listening socket in its epoll set, and the flows that it begins by itself.

Only the engine's thread acts here. A connection that is made, used and closed within it never changes threads.
"""

from collections.abc import Callable
from functools import partial
from select import EPOLLIN
from typing import Protocol

from ..errors import LocalShortage
from .endings import say_farewell, wait_delivered
from .engine_flow import EngineFlow
from .engine_flow import Loop as FlowLoop
from .engine_reports import Reports
from .relay import Counters, EndReason
from .shortcut import ROOM_LEFT, FlowGroup, Leaving, Shortcut, TakenFlow
from .tcp_sockets import SocketAcceptor, SocketConn, SocketConnecting

CUT_AT_ONCE = 256  # flows of a group for each turn: each costs some 10 us, in which no byte of anybody moves


class Loop(FlowLoop, Protocol):
    """What this needs of the engine's loop."""

    clock: Callable[[], float]  # Trio's
    reports: Reports

    def add(self, fd: int, interest: int, handler: Callable[[int], None]) -> None:
        """Calls `handler` with the events of `fd`."""
        ...

    def remove(self, fd: int) -> None:
        """Forgets `fd`."""
        ...

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


class Intake:
    """A listening socket whose clients go by a shortcut."""

    def __init__(
        self, loop: Loop, acceptor: SocketAcceptor, shortcut: Shortcut, on_over: Callable[["Intake"], None]
    ) -> None:
        """`on_over` is called once, in Trio's thread, when no more is taken in and all that was has been told."""
        self._loop = loop
        self._acceptor = acceptor
        self._fd = acceptor.fileno()
        self._shortcut = shortcut
        self._on_over = on_over
        self.is_over = False
        self.leaving: Leaving | None = None  # None: it was asked to
        self.trouble: Exception | None = None

    def open(self) -> None:
        """Begins to take clients in."""
        if self.is_over:
            return
        if self._shortcut.group.is_over:
            self._leave(Leaving.STALE)
            return
        try:
            self._acceptor.set_user_timeout(self._shortcut.user_timeout)
            self._loop.add(self._fd, EPOLLIN, self._on_event)
        except (OSError, ValueError) as error:
            self._fail(error)

    def close(self) -> None:
        """Takes no more clients in."""
        if not self.is_over:
            self.is_over = True
            self._loop.remove(self._fd)
            self._loop.reports.add(self._on_over, self, urgent=True)

    def _leave(self, why: Leaving) -> None:
        self.leaving = why
        self.close()

    def _fail(self, error: Exception) -> None:
        self.trouble = error
        self.close()

    def _on_event(self, _event: int) -> None:
        """Takes in one client: asking for a second one costs as much as to be told of it."""
        shortcut = self._shortcut
        if not shortcut.stands() or shortcut.group.is_over:
            self._leave(Leaving.STALE)
        elif shortcut.room() - len(self._loop.reports) <= ROOM_LEFT:
            self._leave(Leaving.FULL)
        else:
            try:
                client = self._acceptor.accept_nowait()
            except (LocalShortage, OSError) as error:
                self._fail(error)
                return
            if client is not None:
                self._take(client)

    def _take(self, client: SocketConn) -> None:
        """Starts the flow of a client."""
        shortcut = self._shortcut
        begun = SocketConnecting(shortcut.address, shortcut.user_timeout)
        node = begun.result_nowait()
        if node is None:
            self._loop.reports.add(shortcut.owner.returned, client, begun, urgent=True)
            self._leave(Leaving.SLOW)
            return
        begin_flow(self._loop, shortcut, client, node, Counters())


def begin_flow(loop: Loop, shortcut: Shortcut, client: SocketConn, node: SocketConn, counters: Counters) -> None:
    """Relays between a client and its node, for the owner of the shortcut. *Closes:* both, in the end."""
    taken = TakenFlow(client, node, counters, loop.clock())
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
