"""TCP flows: accept a client, find a node that takes it, hand both to the relay inside the endpoint's lease.

Nothing is read from a client before its node is connected: until then the kernel's buffer holds what it says, so no byte
can go to two nodes and none is lost.
"""

import contextlib
import logging
from collections.abc import Callable

import attrs
import trio

from ..address import Address
from ..config.schema import ListenerConfig, NodeConfig, Transport
from ..errors import ConnectFailed, LocalShortage, NameUnresolved
from ..net.ports import Acceptor, Conn
from ..net.relay import Counters, EndReason, RelayLimits
from ..state.events import FailureKind
from ..state.model import Endpoint, Route, RouteKey, RouteMode, State
from ..state.verdict import is_enabled, is_usable
from .connect import connect_first
from .flow_log import FlowRecord
from .leases import Lease, LeaseBook
from .services import Contained, Services, Slots

log = logging.getLogger("sniffgate")

STARVED_PAUSE = 0.1  # seconds between accepts while descriptors are short, as trio.serve_listeners has it
TRIAL_PROOF = 1.0  # seconds without a reset that prove an endpoint in probation


@attrs.define(eq=False)
class Arrival:
    """A client that has no node yet."""

    client: Conn
    listener: ListenerConfig
    began: float
    tried: set[str] = attrs.field(factory=set)
    short: bool = False  # this machine lacked something for at least one try

    @property
    def route(self) -> RouteKey:
        """Where its traffic goes."""
        return RouteKey(self.listener.pool, Transport.TCP)


@attrs.define(eq=False)
class Attempt:
    """A try to connect to one endpoint; cancelled when the endpoint may not be used any more."""

    endpoint: Endpoint
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)


Settings = Callable[[], ListenerConfig]  # the listener's configuration as it is now: a reload may change it


class TcpIntake:
    """The TCP side of one listener."""

    def __init__(
        self, services: Services, leases: LeaseBook, slots: Slots, arrivals: trio.Nursery, settings: Settings
    ) -> None:
        """`arrivals` holds the clients without a node and the keepers of leases."""
        self._services = services
        self._leases = leases
        self._slots = slots
        self._arrivals = arrivals
        self._settings = settings
        self._attempts: set[Attempt] = set()

    async def serve_forever(self, acceptor: Acceptor) -> None:
        """Accepts clients until cancelled; full slots leave them in the kernel's backlog."""
        while True:
            await self._slots.take()
            client = None
            try:
                client = await self._accept(acceptor)
            finally:
                if client is None:
                    self._slots.give_back()
            # no checkpoint since the accept: until its task has started the client has no other owner
            if client is not None:
                arrival = Arrival(client, self._settings(), self._services.clock.now())
                self._arrivals.start_soon(self._welcome, arrival)

    async def _accept(self, acceptor: Acceptor) -> Conn | None:
        try:
            return await acceptor.accept()
        except LocalShortage as error:
            self._services.ledger.shortages["accept"] += 1
            log.warning("cannot accept: %s", error)
            await trio.sleep(STARVED_PAUSE)
            return None

    def follow(self, state: State) -> None:
        """Cancels the attempts at endpoints that may not be used any more; their clients are routed again."""
        for attempt in list(self._attempts):
            if not _may_use(state, attempt.endpoint):
                attempt.scope.cancel()

    # --- finding a node -------------------------------------------------------------------------------

    async def _welcome(self, arrival: Arrival) -> None:
        """Finds a node for a client and starts the relay; the client is reset when there is none."""
        handed_over = False
        try:
            with self._services.containing("a TCP flow"):
                arrival.client.set_user_timeout(arrival.listener.tcp_user_timeout)
                handed_over = await self._find_node(arrival)
        finally:
            if not handed_over:
                arrival.client.abort()
                self._slots.give_back()

    async def _find_node(self, arrival: Arrival) -> bool:
        """True once the relay owns the client."""
        retries = self._services.board.state.config.globals.connect_retry
        while len(arrival.tried) < retries:
            if arrival.client.is_broken():
                self._record(arrival, EndReason.CLIENT_GONE)
                return False
            route = self._services.board.state.routes.get(arrival.route)
            if route is None:  # a reload took the pool away
                break
            on_trial = self._take_trial(arrival, route)
            name = route.trial if on_trial else self._services.ledger.choose(route, arrival.tried)
            node = self._services.board.state.config.node(name) if name is not None else None
            if node is None:
                break
            arrival.tried.add(node.name)
            self._services.ledger.enter(arrival.route, node.name)
            started = False
            try:
                started = await self._try(arrival, node, on_trial=on_trial)
            finally:
                if not started:
                    self._services.ledger.leave(arrival.route, node.name)
            if started:
                return True
        self._record(arrival, EndReason.LOCAL_SHORTAGE if arrival.short else EndReason.NO_NODE)
        return False

    def _take_trial(self, arrival: Arrival, route: Route) -> bool:
        """Whether this client is the one to prove the endpoint in probation."""
        if route.trial is None or arrival.tried:
            return False
        lasting = self._services.board.state.config.globals.connect_timeout + TRIAL_PROOF
        endpoint = Endpoint(route.trial, Transport.TCP)
        return self._services.ledger.take_trial(endpoint, self._services.clock.now(), lasting)

    async def _try(self, arrival: Arrival, node: NodeConfig, *, on_trial: bool) -> bool:
        """True once the relay of this client at this node has started."""
        endpoint = Endpoint(node.name, Transport.TCP)
        pool = self._services.board.state.config.pool(arrival.listener.pool)
        conn = await self._connect(arrival, node, endpoint)
        if conn is None:
            if on_trial:
                self._services.ledger.end_trial(endpoint)
            return False
        with contextlib.ExitStack() as stack:
            stack.enter_context(conn)
            assert node.tcp is not None
            state = self._services.board.state
            lease = await self._leases.lease_for(state, endpoint, node.tcp, conn.peer, pool, self._arrivals)
            if not _may_use(self._services.board.state, endpoint) or arrival.client.is_broken():
                return False
            flow = Flow(arrival, conn, endpoint, lease, on_trial)
            if not lease.start(self._relay, flow):
                return False
            stack.pop_all()
        return True

    async def _connect(self, arrival: Arrival, node: NodeConfig, endpoint: Endpoint) -> Conn | None:
        """A connection to the node; None when it failed (reported as evidence) or the endpoint fell meanwhile."""
        services = self._services
        timeout = services.board.state.config.globals.connect_timeout
        assert node.tcp is not None
        failures: list[ConnectFailed] = []

        def failed(address: Address, error: ConnectFailed | LocalShortage) -> None:
            if isinstance(error, LocalShortage):
                self._short(arrival, error)
            else:
                failures.append(error)

        attempt = Attempt(endpoint)
        self._attempts.add(attempt)
        attempt.scope.deadline = trio.current_time() + timeout
        started = trio.current_time()
        conn: Conn | None = None
        addresses: tuple[Address, ...] = ()
        try:
            with attempt.scope:
                addresses = await services.names.addresses(node.tcp)
                conn = await connect_first(
                    services.network,
                    addresses,
                    timeout,
                    failed,
                    user_timeout=arrival.listener.tcp_user_timeout,
                )
        except NameUnresolved as error:
            log.info("%s: %s", endpoint, error)
            return None
        except LocalShortage as error:
            self._short(arrival, error)
            return None
        finally:
            self._attempts.discard(attempt)
        if conn is not None:
            return conn
        timed_out = attempt.scope.cancelled_caught and trio.current_time() - started >= timeout
        if timed_out or len(failures) == len(addresses) > 0:
            kind = FailureKind.TIMEOUT if timed_out else FailureKind(failures[-1].kind)
            services.ledger.of(endpoint).failed += 1
            services.reporter.failed(endpoint, kind, str(arrival.client.peer))
        return None

    def _short(self, arrival: Arrival, error: LocalShortage) -> None:
        """Our own trouble: counted and told, never evidence about the node."""
        arrival.short = True
        self._services.ledger.shortages["connect"] += 1
        log.warning("cannot connect: %s", error)

    # --- the flow itself ------------------------------------------------------------------------------

    async def _relay(self, flow: "Flow") -> None:
        """Relays until the flow is over. *Closes:* both connections. *Cancellation:* a cut at the lease's deadline."""
        services, listener = self._services, flow.arrival.listener
        services.ledger.flow_began(flow.endpoint, flow.counters)
        reason: EndReason | None = None
        work = Contained()
        try:
            with services.containing(f"the relay of a flow to {flow.endpoint}") as work:
                if flow.on_trial:
                    self._arrivals.start_soon(self._prove, flow)
                reason = await services.relay.relay(
                    flow.arrival.client,
                    flow.node,
                    flow.counters,
                    RelayLimits(idle=listener.idle_timeout, half_close=listener.half_close_timeout),
                    lambda: services.reporter.succeeded(flow.endpoint),
                )
        finally:
            if reason is None:
                reason = EndReason.CRASHED if work.crashed else flow.lease.cut_reason
            self._finish(flow, reason)

    async def _prove(self, flow: "Flow") -> None:
        """An endpoint in probation has proved itself after a second without a reset."""
        with trio.move_on_after(TRIAL_PROOF):
            await flow.over.wait()
            return
        self._services.reporter.succeeded(flow.endpoint)

    def _finish(self, flow: "Flow", reason: EndReason) -> None:
        services, arrival = self._services, flow.arrival
        services.ledger.flow_ended(flow.endpoint, flow.counters, reason)
        services.ledger.leave(arrival.route, flow.endpoint.node)
        flow.over.set()
        if flow.on_trial:
            services.ledger.end_trial(flow.endpoint)
        if reason is EndReason.NODE_RESET and not flow.counters.down:
            services.reporter.failed(
                flow.endpoint,
                FailureKind.RESET,
                arrival.client.peer.host,
                client_spoke=flow.counters.up > 0,
            )
        elif reason is EndReason.NODE_RESET:
            services.reporter.suspected(flow.endpoint)
        self._slots.give_back()
        self._record(arrival, reason, flow)

    def _record(self, arrival: Arrival, reason: EndReason, flow: "Flow | None" = None) -> None:
        self._services.ledger.endings[reason] += 1
        self._services.write_flow(
            FlowRecord(
                listener=arrival.listener.name,
                protocol=Transport.TCP,
                client=arrival.client.peer,
                node=flow.endpoint.node if flow else None,
                up=flow.counters.up if flow else 0,
                down=flow.counters.down if flow else 0,
                duration=self._services.clock.now() - arrival.began,
                reason=reason,
                at=trio.current_time(),
            )
        )


@attrs.define(eq=False)
class Flow:
    """A client at its node."""

    arrival: Arrival
    node: Conn
    endpoint: Endpoint
    lease: Lease
    on_trial: bool
    counters: Counters = attrs.field(factory=Counters)
    over: trio.Event = attrs.field(factory=trio.Event)


def _may_use(state: State, endpoint: Endpoint) -> bool:
    """Whether a flow that is not established yet may go on towards `endpoint`."""
    node = state.config.node(endpoint.node)
    if node is None or node.address(endpoint.transport) is None or not is_enabled(state, node):
        return False
    route = state.routes[RouteKey(node.pool, endpoint.transport)]
    return (
        is_usable(state, node, endpoint)
        or route.trial == endpoint.node
        or (route.mode is RouteMode.FAIL_OPEN and endpoint.node in route.active)
    )
