"""Shortcuts in the relay engine: a listening socket in its epoll set, and the clients that come there.

Only the engine's thread acts here.
"""

from collections.abc import Callable
from select import EPOLLIN, EPOLLOUT
from typing import Protocol

from ..errors import LocalShortage
from .engine_direct import Loop as DirectLoop
from .engine_direct import begin_flow
from .engine_flow import Timed
from .relay import Counters
from .shortcut import ROOM_LEFT, Leaving, Shortcut
from .tcp_connecting import SocketConnecting
from .tcp_sockets import SocketAcceptor, SocketConn


class Loop(DirectLoop, Protocol):
    """What this needs of the engine's loop."""

    clients_waiting: int  # for their nodes, at all doors: they will have slots, and some bounds are shared

    def add(self, fd: int, interest: int, handler: Callable[[int], None]) -> None:
        """Calls `handler` with the events of `fd`. Errors: OSError."""
        ...

    def remove(self, fd: int) -> None:
        """Forgets `fd`."""
        ...

    def forget_timers(self, timed: Timed) -> None:
        """Takes note that it is over."""
        ...


class _Waiting:
    """A client whose node has been asked and has not answered yet."""

    __slots__ = ("begun", "client", "fd", "intake", "over", "since", "timers", "until")

    def __init__(
        self, intake: "Intake", client: SocketConn, begun: SocketConnecting, since: float, until: float
    ) -> None:
        self.intake = intake
        self.client = client
        self.begun = begun
        self.fd = begun.fileno()
        self.since = since
        self.until = until
        self.over = False
        self.timers = 0

    def due(self) -> float:
        """See `Timed.due`."""
        return self.until

    def expire(self) -> None:
        """See `Timed.expire`."""
        self.intake.give_up(self)


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
        self._waiting: dict[_Waiting, None] = {}  # in the order in which they came
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
            for waiting in list(self._waiting):
                self.give_up(waiting)
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
        elif shortcut.room() - len(self._loop.reports) - self._loop.clients_waiting <= ROOM_LEFT:
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
        """Starts the flow of a client, or waits a little for its node."""
        since = self._loop.clock()
        begun = SocketConnecting(self._shortcut.address, self._shortcut.user_timeout)
        if begun.fileno() < 0:
            self._go_on(client, begun, since)
            return
        waiting = _Waiting(self, client, begun, since, self._loop.now + self._shortcut.patience)
        try:
            self._loop.add(waiting.fd, EPOLLOUT, lambda _event: self._settle(waiting))
        except OSError as error:  # no room: fs.epoll.max_user_watches, or memory
            self._loop.reports.add(self._shortcut.owner.returned, client, begun, since)
            self._fail(error)
            return
        self._waiting[waiting] = None
        self._loop.clients_waiting += 1
        self._loop.set_timer(waiting)

    def _settle(self, waiting: _Waiting) -> None:
        """The kernel knows how a connect went, or the event is an old one of another socket with the same number."""
        if not waiting.begun.settle_if_over():
            return
        self._forget(waiting)
        self._go_on(waiting.client, waiting.begun, waiting.since)

    def _go_on(self, client: SocketConn, begun: SocketConnecting, since: float) -> None:
        """Starts the flow if the connect was made, and is still for the right node."""
        shortcut = self._shortcut
        if begun.failure_nowait() is None and shortcut.stands() and not shortcut.group.is_over:
            node = begun.result_nowait()
            assert node is not None
            begin_flow(self._loop, shortcut, client, node, Counters(), since)
        else:
            self._give_back(client, begun, since)

    def give_up(self, waiting: _Waiting) -> None:
        """It has taken too long, or nobody is taken in any more: the tasks go on from here."""
        self._forget(waiting)
        self._give_back(waiting.client, waiting.begun, waiting.since)

    def _forget(self, waiting: _Waiting) -> None:
        del self._waiting[waiting]
        self._loop.clients_waiting -= 1
        self._loop.remove(waiting.fd)
        waiting.over = True
        self._loop.forget_timers(waiting)

    def _give_back(self, client: SocketConn, begun: SocketConnecting, since: float) -> None:
        self._loop.reports.add(self._shortcut.owner.returned, client, begun, since, urgent=True)
        if not self.is_over:  # else it has left for another reason, and no node was slow
            self._leave(Leaving.SLOW)
