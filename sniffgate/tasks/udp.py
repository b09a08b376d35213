"""UDP sessions: every client's datagrams go through a socket connected to its node, and move when the node fails.

The connected socket is what makes a dead node audible: the kernel reports each refused datagram to the very session that
sent it. The first refusal moves that session to the next usable endpoint, and what was refused is sent once more, there.
"""

import contextlib
import logging

import trio

from ..address import Address
from ..config.schema import NodeConfig, Transport
from ..errors import ConnectFailed, LocalShortage, NameUnresolved
from ..net.ports import Datagram, DatagramConn, DatagramPort
from ..net.relay import EndReason
from ..state.events import FailureKind
from ..state.model import Endpoint, RouteKey, RouteMode, State
from ..state.terms import LeaseKind
from ..state.verdict import is_usable
from .leases import LeaseBook
from .legs import Legs
from .services import Services, Slots
from .sessions import Leg, Session, SessionTable
from .tcp import Settings

log = logging.getLogger("sniffgate")


class UdpIntake:
    """The UDP side of one listener."""

    def __init__(
        self, services: Services, leases: LeaseBook, slots: Slots, openers: trio.Nursery, settings: Settings
    ) -> None:
        """`openers` holds the tasks that open legs, and the keepers of leases."""
        self._services = services
        self._leases = leases
        self._slots = slots
        self._openers = openers
        self._settings = settings
        self._table = SessionTable()
        self._legs = Legs(services, settings, self._table, self.move, self.end)

    async def serve_forever(self, front: DatagramPort) -> None:
        """Takes datagrams until cancelled."""
        self._legs.front = front
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._expire_forever)
            while True:
                self._take(await front.receive())

    # --- from the client ------------------------------------------------------------------------------

    def _take(self, datagram: Datagram) -> None:
        """Forwards a datagram, or keeps it while its session's leg is being opened. Synchronous: none is ever lost here."""
        now = trio.current_time()
        session = self._table.find(datagram.client, datagram.local)
        if session is None:
            session = self._admit(datagram, now)
            if session is None:
                return
        else:
            session.asked = now
            self._table.touch(session, now)
        if session.leg is not None and session.leg.is_lost_trial(now):
            self.move(session)
        if session.leg is not None and not session.leg.lease.is_over:
            self._legs.forward(session.leg, datagram.data, now)
            return
        if not session.put_off(datagram.data):
            self._legs.drop("waiting")
        self._open_leg_soon(session)

    def _admit(self, datagram: Datagram, now: float) -> Session | None:
        """A new session; the longest idle one makes room where there is none."""
        most = self._services.board.state.config.globals.udp_max_sessions
        if len(self._table) >= most or not self._slots.take_nowait():
            oldest = self._table.oldest()
            if oldest is not None:
                self.end(oldest, EndReason.EVICTED)
            if oldest is None or not self._slots.take_nowait():
                self._legs.drop("no_slot")
                return None
        session = Session(datagram.client, datagram.local, began=now, seen=now, asked=now)
        self._table.add(session)
        return session

    # --- opening a leg --------------------------------------------------------------------------------

    def _open_leg_soon(self, session: Session) -> None:
        if not session.opening:
            session.opening = True
            self._openers.start_soon(self._open_leg, session)

    async def _open_leg(self, session: Session) -> None:
        """Finds an endpoint for a session and starts its leg; the session ends when there is none."""
        outcome: EndReason | None = EndReason.CRASHED
        try:
            with self._services.containing("a UDP session"):
                outcome = await self._find_leg(session)
        finally:
            session.opening = False
            if outcome is not None and not session.ended:
                for _ in session.waiting:
                    self._legs.drop(outcome.value)
                session.waiting.clear()
                self.end(session, outcome)

    async def _find_leg(self, session: Session) -> EndReason | None:
        """None when the session has a leg (or is over), else why it cannot have one."""
        services, key = self._services, RouteKey(self._settings().pool, Transport.UDP)
        tried = set(session.refused_by)
        while not session.ended:
            state = services.board.state
            route = state.routes.get(key)
            if route is None:  # a reload took the pool away
                return EndReason.NO_NODE
            until = self._take_trial(route.trial, tried | {session.doubted or ""} - {""})
            doubted, session.doubted = session.doubted, None
            name = doubted or (route.trial if until is not None else services.ledger.choose(route, tried))
            node = state.config.node(name) if name is not None else None
            if node is None and doubted is None:
                return EndReason.NO_NODE
            if node is None:
                continue
            tried.add(node.name)
            try:
                if await self._try(session, node, key, until, doubted=doubted is not None):
                    return None
            except LocalShortage as error:
                services.ledger.shortages["connect"] += 1
                log.warning("cannot open a UDP session: %s", error)
                return EndReason.LOCAL_SHORTAGE
        return None

    def _take_trial(self, name: str | None, tried: set[str]) -> float | None:
        """Until when (Trio's clock) this session may prove the endpoint in probation; None when it may not."""
        if name is None or tried:
            return None
        services = self._services
        lasting = services.board.state.config.globals.probe_timeout
        if services.ledger.take_trial(Endpoint(name, Transport.UDP), services.clock.now(), lasting):
            return trio.current_time() + lasting
        return None

    async def _try(
        self, session: Session, node: NodeConfig, key: RouteKey, trial_until: float | None, *, doubted: bool
    ) -> bool:
        """True once the session has a leg at `node` (or is over). Errors: `LocalShortage`."""
        services, endpoint = self._services, Endpoint(node.name, Transport.UDP)
        pool = services.board.state.config.pool(key.pool)
        assert node.udp is not None
        try:
            addresses = await services.names.addresses(node.udp)
        except NameUnresolved as error:
            log.info("%s: %s", endpoint, error)
            return False
        fresh = tuple(address for address in addresses if address not in session.refused_at)
        if doubted and not fresh:
            self._legs.blame(session, endpoint, FailureKind.REFUSED)
            return False
        conn = self._connect(fresh or addresses)
        if conn is None:
            self._legs.blame(session, endpoint, FailureKind.UNREACHABLE)
            return False
        with contextlib.ExitStack() as stack:
            stack.enter_context(conn)
            lease = self._leases.lease_for(
                services.board.state, endpoint, node.udp, conn.peer, pool, self._openers
            )
            if session.ended:
                return True
            leg = Leg(session, endpoint, key, lease, conn, trio.current_time(), trial_until)
            if not lease.start(self._legs.run, leg):
                return False
            stack.pop_all()
        session.leg = leg
        self._legs.flush(session, leg)
        return True

    def _connect(self, addresses: tuple[Address, ...]) -> DatagramConn | None:
        """A socket to the first address that there is a way to. Errors: `LocalShortage`."""
        for address in addresses:
            with contextlib.suppress(ConnectFailed):
                return self._services.network.connect_udp(address)
        return None

    # --- moving and ending ----------------------------------------------------------------------------

    def follow(self, state: State) -> None:
        """Moves the sessions whose endpoint left the active set, and those that began while nothing was usable."""
        for session in self._table:
            if session.leg is not None and self._should_move(state, session.leg):
                self.move(session)
        self._table.poke()  # the session timeout may be another one

    def _should_move(self, state: State, leg: Leg) -> bool:
        if leg.lease.terms.kind is LeaseKind.RETIRING:
            return state.config.globals.udp_rebind_on_switch
        if leg.trial_until is not None:
            return False
        node, route = state.config.node(leg.endpoint.node), state.routes.get(leg.route)
        return (
            route is not None
            and route.mode is RouteMode.NORMAL
            and node is not None
            and not is_usable(state, node, leg.endpoint)
        )

    def move(self, session: Session, *, refused: bool = False) -> None:
        """Gives a session another leg; the old one stays for replies that are under way."""
        leg, session.leg = session.leg, None
        if leg is not None:
            leg.left_at = trio.current_time()
            leg.refused = refused
            leg.reason = EndReason.MOVED
            self._table.leave(leg)
        self._open_leg_soon(session)

    def end(self, session: Session, reason: EndReason) -> None:
        """Ends a session and its leg."""
        if session.ended:
            return
        self._table.remove(session)
        self._slots.give_back()
        if session.leg is not None:
            session.leg.end(reason)
        else:
            self._legs.record(session, None, reason)

    async def _expire_forever(self) -> None:
        """Ends sessions, and legs left behind, when they have been idle for too long; runs until cancelled."""
        while True:
            timeout = self._services.board.state.config.globals.udp_session_timeout
            now = trio.current_time()
            while (oldest := self._table.oldest()) is not None and oldest.seen + timeout <= now:
                self.end(oldest, EndReason.IDLE)
            for leg in [leg for leg in self._table.left if leg.expires(timeout) <= now]:
                leg.end(EndReason.MOVED)
                self._table.left.discard(leg)
            with trio.move_on_at(self._table.next_expiry(timeout)):
                await self._table.wait_poked()

    def wind_down(self, reason: EndReason) -> None:
        """Ends every session once its client waits for nothing; the listener takes no more datagrams."""
        self._legs.winding_down = reason
        for session in self._table:
            if session.is_answered:
                self.end(session, reason)
