"""The shortcuts of one TCP listener: when the relay may take clients in by itself, and the books kept of those flows.

There is one while every new client goes to the same place: the route is normal and has one active endpoint, at a
literal address, nobody waits to be tried, and a client has had an answer from there since the table last moved. The
relay asks before each client whether that still holds, so a client that comes after a switch never goes to the old
node.
"""

from collections.abc import Awaitable, Callable

import attrs
import trio

from ..address import Address
from ..config.schema import ListenerConfig, Transport
from ..net.ports import Acceptor, Conn, Connecting
from ..net.relay import EndReason, RelayLimits
from ..net.shortcut import ROOM_LEFT, Leaving, Shortcut, TakenFlow
from ..state.model import Endpoint, RouteKey, RouteMode, State
from .leases import Lease, LeaseBook
from .services import Contained, Services, Slots
from .tcp_flow import Arrival, Flow, Offer, finish

SLOW_PAUSE = 0.1  # seconds without a shortcut to an endpoint that did not take a client soon, twice as many each time:
SLOW_PAUSE_MOST = 10.0  # one that is far away never does, and one that is near may be late now and then
LASTED = 10  # pauses that a shortcut must have lasted for the first pause to hold again


@attrs.frozen
class _Proof:
    """A client had a byte of `endpoint` while the table was that of `state`."""

    state: State
    endpoint: Endpoint


@attrs.frozen
class _Slow:
    """Which endpoint was the last that did not take a client soon, and until when there is no shortcut to it."""

    endpoint: Endpoint | None
    pause: float
    until: float

    def again(self, endpoint: Endpoint, began: float) -> "_Slow":
        """It has happened to `endpoint`, whose shortcut began at `began`."""
        now = trio.current_time()
        is_first = endpoint != self.endpoint or now - began > LASTED * self.pause
        pause = SLOW_PAUSE if is_first else min(2 * self.pause, SLOW_PAUSE_MOST)
        return _Slow(endpoint, pause, now + pause)


class Shortcuts:
    """When there is a shortcut for a listener."""

    def __init__(
        self,
        services: Services,
        leases: LeaseBook,
        slots: Slots,
        settings: Callable[[], ListenerConfig],
        take_back: Callable[[Conn, Offer], None],
        leave: Callable[[Arrival], None],
    ) -> None:
        """`take_back` is given clients whose node did not take them soon; `leave` is called at each flow's end."""
        self._services = services
        self._leases = leases
        self._slots = slots
        self._settings = settings
        self._take_back = take_back
        self._leave = leave
        self._proof: _Proof | None = None
        self._slow = _Slow(None, 0.0, 0.0)
        self._open: tuple[Shortcut, trio.CancelScope] | None = None

    def heard(self, endpoint: Endpoint) -> None:
        """A client has had its first byte from `endpoint`."""
        self._proof = _Proof(self._services.board.state, endpoint)

    def follow(self) -> None:
        """Ends the shortcut if it stands no more."""
        if self._open is not None:
            shortcut, scope = self._open
            if not shortcut.stands():
                scope.cancel()

    async def serve(self, acceptor: Acceptor) -> bool:
        """Takes clients in by the shortcut that there is, as long as it will do; False if there is none.

        Errors: as `Relay.admit`.
        """
        found = self._find()
        if found is None:
            return False
        shortcut, lease = found
        lease.admitting += 1
        leaving, began = Leaving.STALE, trio.current_time()
        try:
            with trio.CancelScope() as scope:
                self._open = shortcut, scope
                leaving = await self._services.relay.admit(acceptor, shortcut)
        finally:
            self._open = None
            lease.admitting -= 1
            lease.close_if_idle()
        await trio.lowlevel.checkpoint()  # what the last clients met is folded before the next one is routed
        if leaving is Leaving.SLOW:
            self._slow = self._slow.again(lease.endpoint, began)
        return True

    def _find(self) -> tuple[Shortcut, Lease] | None:
        """The shortcut, and the lease that its flows belong to."""
        services, settings, proof = self._services, self._settings(), self._proof
        state = services.board.state
        if proof is None or not services.relay.has_shortcuts or not services.board.is_table_of(proof.state):
            return None
        key = RouteKey(settings.pool, Transport.TCP)
        route = state.routes.get(key)
        if (
            route is None
            or route.mode is not RouteMode.NORMAL
            or route.trial is not None
            or route.active != (proof.endpoint.node,)
            or self._slots.free <= 2 * ROOM_LEFT
            or (self._slow.endpoint == proof.endpoint and self._slow.until > trio.current_time())
        ):
            return None
        node = state.config.node(proof.endpoint.node)
        if node is None or node.tcp is None or not node.tcp.is_literal:
            return None
        lease = self._leases.active_at(key.pool, proof.endpoint, node.tcp)
        if lease is None or lease.group is None:
            return None
        shortcut = Shortcut(
            address=node.tcp,
            user_timeout=settings.tcp_user_timeout,
            limits=RelayLimits(idle=settings.idle_timeout, half_close=settings.half_close_timeout),
            group=lease.group,
            owner=_Books(services, self._slots, settings, lease, self._take_back, node.tcp, self._leave, key),
            stands=lambda: services.board.is_table_of(state) and self._settings() is settings,
            room=lambda: self._slots.free,
        )
        return shortcut, lease


@attrs.frozen(eq=False)
class _Books:
    """Keeps the books of the flows that the relay began: the same entries as of any other flow."""

    services: Services
    slots: Slots
    listener: ListenerConfig
    lease: Lease
    take_back: Callable[[Conn, Offer], None]
    address: Address
    leave: Callable[[Arrival], None]
    route: RouteKey

    def begun(self, flow: TakenFlow) -> None:
        """See `FlowOwner.begun`."""
        with self._containing():
            ledger, endpoint = self.services.ledger, self.lease.endpoint
            self.slots.take_granted()
            self.lease.flows += 1
            ledger.hedges(self.route).count_flow(trio.current_time())
            ledger.enter(self.route, endpoint.node)
            ledger.flow_began(endpoint, flow.counters)
            ledger.of(endpoint).last_connect = flow.connected - flow.began

    def heard(self, _flow: TakenFlow) -> None:
        """See `FlowOwner.heard`."""
        with self._containing():
            self.services.first_byte(self.route, self.lease.endpoint)

    def ended(self, flow: TakenFlow, reason: EndReason | None) -> None:
        """See `FlowOwner.ended`."""
        with self._containing():
            services = self.services
            if reason is None:
                reason = self.lease.cut_reason if self.lease.is_over else EndReason.SHUTDOWN
            elif reason is EndReason.CRASHED:
                bug = RuntimeError("the relay engine met a bug in this flow")
                services.note_crash(f"the relay of a flow to {self.lease.endpoint}", BaseExceptionGroup("", [bug]))
            arrival = Arrival(flow.client, self.listener, services.clock.at(flow.began), has_slot=True)
            self.leave(arrival)
            whole = Flow(arrival, flow.node, self.lease.endpoint, self.lease, on_trial=False, counters=flow.counters)
            finish(services, whole, reason, flow.ended)
            self.lease.leave()

    def lost(
        self,
        flow: TakenFlow,
        reason: EndReason,
        wait_delivered: Callable[[], Awaitable[None]],
        say_farewell: Callable[[], None],
    ) -> None:
        """See `FlowOwner.lost`."""
        with self._containing():
            if not self.lease.start(self._see_off, flow, reason, wait_delivered, say_farewell):
                say_farewell()
                self.ended(flow, reason)

    async def _see_off(
        self,
        flow: TakenFlow,
        reason: EndReason,
        wait_delivered: Callable[[], Awaitable[None]],
        say_farewell: Callable[[], None],
    ) -> None:
        try:
            await wait_delivered()
        finally:
            say_farewell()
            self.ended(flow, reason)

    def returned(self, client: Conn, begun: Connecting, since: float) -> None:
        """See `FlowOwner.returned`."""
        self.take_back(client, Offer(self.address, begun, since))

    def _containing(self) -> Contained:
        return self.services.containing("the books of a flow")
