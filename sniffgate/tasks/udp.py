"""UDP sessions: every client's datagrams go through a socket connected to its node, and move when the node fails.

The connected socket is what makes a dead node audible: the kernel reports each refused datagram to the very session
that sent it. The first refusal moves that session to the next usable endpoint, and what was refused is sent once more,
there.
"""

import trio

from ..net.ports import Datagram, DatagramPort
from ..net.relay import EndReason
from ..state.model import RouteMode, State
from ..state.terms import LeaseKind
from ..state.verdict import is_usable
from .leases import LeaseBook
from .legs import Legs
from .openings import Openings
from .services import Services, Slots
from .sessions import Leg, Session, SessionTable
from .tcp import Settings


class UdpIntake:
    """The UDP side of one listener."""

    def __init__(
        self, services: Services, leases: LeaseBook, slots: Slots, openers: trio.Nursery, settings: Settings
    ) -> None:
        """`openers` holds the tasks that open legs, and the keepers of leases."""
        self._services = services
        self._slots = slots
        self._table = SessionTable()
        self._legs = Legs(services, settings, self._table, self.move, self.end)
        self._openings = Openings(services, leases, openers, settings, self._legs, self.end)

    async def serve_forever(self, front: DatagramPort) -> None:
        """Takes datagrams until cancelled."""
        self._legs.front = front
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._expire_forever)
            await self._services.relay.receive_forever(front, self._take_safely)

    # --- from the client ------------------------------------------------------------------------------

    def _take_safely(self, datagram: Datagram) -> None:
        """Called by the relay, whose bug it would not be."""
        with self._services.containing("a datagram"):
            self._take(datagram)

    def _take(self, datagram: Datagram) -> None:
        """Forwards a datagram, or keeps it while its session's leg is being opened. Synchronous: none is lost here."""
        now = trio.current_time()
        session = self._table.find(datagram.client, datagram.local)
        if session is None:
            session = self._admit(datagram, now)
            if session is None:
                return
        else:
            session.awaits_reply = True
            self._table.touch(session, now)
        if session.leg is not None and (session.leg.lease.is_over or session.leg.is_lost_trial(now)):
            self.move(session)
        if session.leg is not None:
            self._legs.forward(session.leg, datagram.data, now)
            return
        if not session.put_off(datagram.data):
            self._legs.drop("waiting")
        self._openings.open_soon(session)

    def _admit(self, datagram: Datagram, now: float) -> Session | None:
        """A new session; the longest idle one makes room where there is none."""
        most = self._services.board.state.config.globals.udp_max_sessions
        while len(self._table) >= most:
            self._evict()
        if not self._slots.take_nowait():
            self._evict()
            if not self._slots.take_nowait():
                self._legs.drop("no_slot")
                return None
        session = Session(datagram.client, datagram.local, began=now, seen=now)
        self._table.add(session)
        return session

    def _evict(self) -> None:
        oldest = self._table.oldest()
        if oldest is not None:
            self.end(oldest, EndReason.EVICTED)

    # --- moving and ending ----------------------------------------------------------------------------

    def follow(self, state: State) -> None:
        """Moves the sessions whose endpoint left the active set, and those that began while nothing was usable."""
        for session in self._table:
            if session.leg is not None and self._should_move(state, session.leg):
                self.move(session)
            self._legs.look_at_replies(session)
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
            self._legs.divert(leg)
            self._legs.end_trial(leg)
            self._table.leave(leg)
        self._openings.open_soon(session)

    def end(self, session: Session, reason: EndReason) -> None:
        """Ends a session and its leg; legs that it has left wait on for late replies, unless room is short."""
        if session.ended:
            return
        self._table.remove(session)
        self._slots.give_back()
        while session.waiting:
            session.waiting.popleft()
            self._legs.drop(reason.value)
        if session.leg is not None:
            session.leg.end(reason)
        elif not session.had_leg:
            self._legs.record(session, None, reason)
        if reason is EndReason.EVICTED or self._legs.winding_down is not None:
            for leg in session.left:
                leg.end(reason)

    async def _expire_forever(self) -> None:
        """Ends sessions, and legs left behind, when they have been idle for too long; runs until cancelled."""
        while True:
            timeout = self._services.board.state.config.globals.udp_session_timeout
            now = trio.current_time()
            while (oldest := self._table.oldest()) is not None and oldest.last_seen + timeout <= now:
                if oldest.waiting:  # for its node's name: that is not the client's idleness
                    self._table.touch(oldest, now)
                else:
                    self.end(oldest, EndReason.IDLE)
            for leg in [leg for leg in self._table.left if leg.expires(timeout) <= now]:
                leg.end(EndReason.MOVED)
                self._table.forget(leg)
            with trio.move_on_at(self._table.next_expiry(timeout)):
                await self._table.wait_poked()

    def wind_down(self, reason: EndReason) -> None:
        """Ends every session once its client waits for nothing; the listener takes no more datagrams."""
        self._legs.winding_down = reason
        for session in self._table:
            if not session.is_asking:
                self.end(session, reason)
        for leg in [leg for leg in self._table.left if leg.session.ended]:
            leg.end(reason)
