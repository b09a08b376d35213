"""One listener: its socket and leases in an outer nursery, inside it a nursery of forwarder, probers and drain task.

The outer nursery lives as long as flows do. The inner one is what a crash restarts and what ends first when the
listener goes: then no client comes in any more, and the flows have until their leases' deadlines.
"""

import enum
from typing import cast

import trio

from ..address import Address
from ..config.schema import ListenerConfig, Transport
from ..net.ports import Acceptor, DatagramPort
from ..net.relay import EndReason
from ..state.model import RouteKey, State
from .answers import watch_answers
from .leases import LeaseBook
from .prober import probe_wanted
from .services import Services, Slots
from .tcp import TcpIntake
from .udp import UdpIntake


class _Mode(enum.Enum):
    OPEN = "open"
    SUSPENDED = "suspended"  # its socket was given up for another one that is in the way
    STOPPED = "stopped"


class Listener:
    """A bound public address. What it is called and which pool it serves may change while it is bound."""

    def __init__(self, services: Services, settings: ListenerConfig, socket: Acceptor | DatagramPort) -> None:
        """*Closes:* `socket`, when it has run or is suspended."""
        self._services = services
        self.settings = settings
        self.socket = socket
        has_shortcuts = services.relay.has_shortcuts and settings.protocol is Transport.TCP
        self.leases = LeaseBook(services.clock, services.relay.hold if has_shortcuts else None)
        self._slots = Slots(settings.max_connections, services.flow_slots)
        self._mode = _Mode.OPEN
        self._closed = trio.Event()
        self._has_let_go = False  # stopped, and its forwarder waits on the socket no more
        self._is_reclaimed = False  # stopped, and its address is needed for another one
        self._inner = trio.CancelScope()
        self._outer: trio.CancelScope | None = None
        self._end = float("inf")
        self._over = False
        self._intake: TcpIntake | UdpIntake | None = None
        self._drain_timeout = services.board.state.config.pool(settings.pool).drain_timeout

    @property
    def address(self) -> Address:
        """Where it is bound, with the real port."""
        return self.socket.address

    @property
    def is_over(self) -> bool:
        """Whether it has run and ended."""
        return self._over

    @property
    def drain_timeout(self) -> float:
        """Seconds that its flows have when it is removed: its pool's, as it is or as it was last."""
        pools = self._services.board.state.config.pools
        self._drain_timeout = next(
            (pool.drain_timeout for pool in pools if pool.name == self.settings.pool), self._drain_timeout
        )
        return self._drain_timeout

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serves until stopped and the last flow has ended."""
        try:
            async with trio.open_nursery() as outer:
                self._outer = outer.cancel_scope
                self._outer.deadline = self._services.clock.deadline(self._end)
                intake = self._intake = self._open_intake(outer)
                task_status.started()
                while self._mode is not _Mode.STOPPED:
                    with trio.CancelScope() as self._inner:  # ends when the mode or the pool changes, in a back-off too
                        if self._mode is _Mode.SUSPENDED:
                            await self._take_rest(intake)
                            self._give_up_socket()
                            await trio.sleep_forever()
                        await self._services.run_again_after_crashes(
                            f"listener {self.settings.name}", lambda: self._run_inner(intake)
                        )
                if self._end > self._services.clock.now():
                    await self._take_rest(intake)
                self._has_let_go = True
                if isinstance(intake, TcpIntake) or self._is_reclaimed:
                    self._give_up_socket()
        finally:
            self._give_up_socket()
            self._over = True

    async def _run_inner(self, intake: TcpIntake | UdpIntake) -> None:
        """Takes clients in, probes and drains until cancelled."""
        async with trio.open_nursery() as inner:
            if isinstance(intake, UdpIntake):
                inner.start_soon(intake.serve_forever, cast("DatagramPort", self.socket))
            else:
                inner.start_soon(intake.serve_forever, cast("Acceptor", self.socket))
            inner.start_soon(probe_wanted, self._services, RouteKey(self.settings.pool, self.settings.protocol))
            inner.start_soon(self._drain_forever, intake)
            inner.start_soon(watch_answers, self._services, self.leases, lambda: self._follow(intake))

    async def _take_rest(self, intake: TcpIntake | UdpIntake) -> None:
        """Takes in the clients that wait at the socket, if it is still there: they would be reset with it."""
        if isinstance(intake, TcpIntake) and not self._closed.is_set():
            await intake.take_rest(cast("Acceptor", self.socket))

    def _open_intake(self, outer: trio.Nursery) -> TcpIntake | UdpIntake:
        kind = TcpIntake if self.settings.protocol is Transport.TCP else UdpIntake
        return kind(self._services, self.leases, self._slots, outer, lambda: self.settings)

    async def _drain_forever(self, intake: TcpIntake | UdpIntake) -> None:
        """Moves the deadlines of what left the routing table, for each state of it; runs until cancelled."""
        while True:
            state = self._follow(intake)
            await self._services.board.wait_table(state)

    def _follow(self, intake: TcpIntake | UdpIntake) -> State:
        state = self._services.board.state
        self.leases.follow(state, self.settings.pool)
        intake.follow(state)
        return state

    # --- what a reload or the gateway's end does ------------------------------------------------------

    def change(self, settings: ListenerConfig) -> None:
        """Takes on new settings for new flows; the address is the same. The flows of another pool drain."""
        moved = settings.pool != self.settings.pool
        if moved:  # a drain in the old pool not yet looked at has its deadline, whoever of us was woken first
            self.leases.follow(self._services.board.state, self.settings.pool)
        self.settings = settings
        self._drain_timeout = self.drain_timeout  # remembered: the pool may be gone when the listener goes
        self._slots.resize(settings.max_connections)
        if moved:
            self._inner.cancel()  # the inner nursery starts again on the other route

    def stop(self, at: float, reason: EndReason = EndReason.DRAINED) -> None:
        """Takes no more clients; flows may live until `at` (gateway seconds), which a further call can move closer.

        A TCP port is given back as soon as its forwarder has let go of it. A UDP one is needed for replies: it goes
        when the last client has had its answer, or after the time that a node has to answer a probe.
        """
        if isinstance(self._intake, UdpIntake):
            patience = self._services.board.state.config.globals.probe_timeout
            at = min(at, self._services.clock.now() + patience)
            self._intake.wind_down(reason)
        self._end = min(self._end, at)
        self.leases.follow(self._services.board.state, self.settings.pool)  # a drain not yet looked at has its deadline
        self.leases.retire_all(self._end, reason)
        if self._outer is not None:
            self._outer.deadline = self._services.clock.deadline(self._end)
        self._enter(_Mode.STOPPED)

    @property
    def is_suspended(self) -> bool:
        """Whether it is without a socket until `resume`."""
        return self._mode is _Mode.SUSPENDED

    async def reclaim(self) -> None:
        """Takes the socket of a stopped listener away, replies still to come or not. Returns when it is closed."""
        self._is_reclaimed = True
        if self._has_let_go:
            self._give_up_socket()
        await self._closed.wait()

    async def suspend(self) -> None:
        """Takes no clients until `resume`; flows go on. Returns when the socket is closed."""
        self._enter(_Mode.SUSPENDED)
        await self._closed.wait()

    def resume(self, socket: Acceptor | DatagramPort) -> None:
        """Takes clients again, from `socket`. *Closes:* it, as before."""
        self.socket = socket
        self._closed = trio.Event()
        self._enter(_Mode.OPEN)

    def _give_up_socket(self) -> None:
        """Closes the socket; only once nobody waits on it, or the waiter would take it for a crash."""
        self.socket.close()
        self._closed.set()

    def _enter(self, mode: _Mode) -> None:
        if mode is not self._mode:
            self._mode = mode
            self._inner.cancel()
