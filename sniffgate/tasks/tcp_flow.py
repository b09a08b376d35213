"""A TCP flow: a client at its node, from the connection to the line in the flow log."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

import attrs
import trio

from ..address import Address
from ..config.schema import ListenerConfig, Transport
from ..net.ports import Conn, Connecting
from ..net.relay import Counters, EndReason, RelayLimits
from ..state.events import FailureKind
from ..state.model import Endpoint, RouteKey
from .flow_log import FlowRecord
from .leases import Lease
from .services import Services

if TYPE_CHECKING:
    from .search import Search

NOBODY: frozenset[str] = frozenset()  # shared: a set of its own would be 216 bytes of every flow
TRIAL_PROOF = 1.0  # seconds without a reset that prove an endpoint in probation


@attrs.frozen(eq=False)
class Offer:
    """A connect that was begun for a client before its node was chosen."""

    address: Address
    connecting: Connecting
    since: float  # Trio's clock


@attrs.define(eq=False)
class Arrival:
    """A client that has no node yet."""

    client: Conn
    listener: ListenerConfig
    began: float
    has_slot: bool = False
    search: "Search | None" = None  # until there is a flow
    tried: frozenset[str] = NOBODY
    failed: int = 0  # tries that failed, as against those given up because the endpoint fell meanwhile
    was_hedged: bool = False  # a try was begun beside one that hung
    crashed: bool = False  # a try met a bug
    short: bool = False  # this machine lacked something for at least one try
    offer: Offer | None = None

    @property
    def route(self) -> RouteKey:
        """Where its traffic goes."""
        return RouteKey(self.listener.pool, Transport.TCP)

    def take_offer(self, address: Address | None) -> Offer | None:
        """The connect begun for it, if that is to `address`. *Closes:* one to another address."""
        offer, self.offer = self.offer, None
        if offer is None or offer.address == address:
            return offer
        offer.connecting.close()
        return None


@attrs.define(eq=False)
class Flow:
    """A client at its node."""

    arrival: Arrival
    node: Conn
    endpoint: Endpoint
    lease: Lease
    on_trial: bool
    counters: Counters = attrs.field(factory=Counters)


async def run_flow(
    services: Services, flow: Flow, leave: Callable[[Arrival], None], heard: Callable[[Endpoint], None]
) -> None:
    """Relays until the flow is over, then calls `leave`; `heard` once the node has answered. *Closes:* both sides.

    *Cancellation:* a cut at the lease's deadline. A bug in the relay stops here.
    """
    services.ledger.flow_began(flow.endpoint, flow.counters)
    reason = EndReason.CRASHED
    cut = True
    try:
        with services.containing("the relay of a flow to %s", flow.endpoint):
            reason = await (_relay_on_trial if flow.on_trial else _relay)(services, flow, heard)
        cut = False
    finally:
        if cut:
            reason = flow.lease.cut_reason if flow.lease.is_over else EndReason.SHUTDOWN
        for conn in (flow.arrival.client, flow.node):
            conn.abort()  # nothing is left to do after a relay that ended, and no other way after one that crashed
        leave(flow.arrival)
        finish(services, flow, reason)


def _relay(services: Services, flow: Flow, heard: Callable[[Endpoint], None]) -> Awaitable[EndReason]:
    listener = flow.arrival.listener
    return services.relay.relay(
        flow.arrival.client,
        flow.node,
        flow.counters,
        RelayLimits(idle=listener.idle_timeout, half_close=listener.half_close_timeout),
        partial(_note_first_byte, services, flow, heard),
    )


def _note_first_byte(services: Services, flow: Flow, heard: Callable[[Endpoint], None]) -> None:
    with services.containing("taking note of a node's first byte"):  # called by the relay, whose bug it is not
        services.first_byte(flow.arrival.route, flow.endpoint)
        heard(flow.endpoint)


async def _relay_on_trial(services: Services, flow: Flow, heard: Callable[[Endpoint], None]) -> EndReason:
    """Relays beside a watch: an endpoint in probation has proved itself after a while without a reset."""

    async def prove() -> None:
        await trio.sleep(TRIAL_PROOF)
        services.reporter.succeeded(flow.endpoint)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(prove)
        reason = await _relay(services, flow, heard)
        nursery.cancel_scope.cancel()
    return reason


def finish(services: Services, flow: Flow, reason: EndReason, ended: float | None = None) -> None:
    """Enters the end of a flow in the books, and as evidence where it is some. `ended`: when, if not now."""
    arrival = flow.arrival
    services.ledger.flow_ended(flow.endpoint, flow.counters, reason)
    services.incidents.flow_ended(flow.endpoint)
    services.ledger.leave(arrival.route, flow.endpoint.node)
    if flow.on_trial:
        services.ledger.end_trial(flow.endpoint)
    if reason is EndReason.NODE_RESET and not flow.counters.down:
        client_spoke = flow.counters.up > 0
        services.reporter.failed(flow.endpoint, FailureKind.RESET, arrival.client.peer.host, client_spoke=client_spoke)
    elif reason is EndReason.NODE_RESET:
        services.reporter.suspected(flow.endpoint)
    if reason is EndReason.NODE_RESET:
        services.incidents.lost(arrival.route)
    record(services, arrival, reason, flow, ended)


def record(
    services: Services, arrival: Arrival, reason: EndReason, flow: Flow | None = None, ended: float | None = None
) -> None:
    """Counts an ending and puts it in the flow log. `ended`: when, on Trio's clock, if not now."""
    at = trio.current_time() if ended is None else ended
    services.ledger.endings[reason] += 1
    with services.containing("the flow log"):
        services.write_flow(
            FlowRecord(
                listener=arrival.listener.name,
                protocol=Transport.TCP,
                client=arrival.client.peer,
                node=flow.endpoint.node if flow else None,
                up=flow.counters.up if flow else 0,
                down=flow.counters.down if flow else 0,
                duration=services.clock.at(at) - arrival.began,
                reason=reason,
                at=at,
            )
        )
