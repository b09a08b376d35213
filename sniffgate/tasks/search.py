"""Finding a node for a client: one try after another, or side by side where one hangs. The first to connect wins.

Where the kernel connects at once, as it does on one machine, the flow starts without any task in between.
"""

import logging
from collections.abc import Callable

import attrs
import trio

from ..address import Address
from ..config.schema import ListenerConfig, Transport
from ..errors import ConnectFailed, LocalShortage, NameUnresolved
from ..net.ports import Conn, Connecting
from ..net.relay import EndReason
from ..state.events import FailureKind
from ..state.model import Endpoint, Route, RouteKey, RouteMode, State
from ..state.verdict import is_enabled, is_usable
from .connect import connect_first
from .leases import LeaseBook
from .services import Services
from .tcp_flow import NOBODY, TRIAL_PROOF, Arrival, Flow, run_flow

log = logging.getLogger("sniffgate")

NEVER = float("inf")
SLOWER_THAN_USUAL = 3  # a connect hangs when it takes this many times the endpoint's last one


@attrs.define(eq=False)
class Attempt:
    """A try to connect to one endpoint; cancelled when the endpoint may not be used any more."""

    endpoint: Endpoint
    pool: str
    configured: Address
    entered: RouteKey  # the route whose flows in progress it counts among
    on_trial: bool = False
    begun: Connecting | None = None  # the connect, where it was begun before there was a task for it
    since: float | None = None  # when that was, Trio's clock; None: with the task
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)

    def may_go_on(self, state: State) -> bool:
        """Whether a flow that is not established yet may still be for the endpoint, and there."""
        node = state.config.node(self.endpoint.node)
        if node is None or node.pool != self.pool or node.tcp != self.configured or not is_enabled(state, node):
            return False
        route = state.routes[RouteKey(node.pool, Transport.TCP)]
        return (
            is_usable(state, node, self.endpoint)
            or route.trial == node.name
            or (route.mode is RouteMode.FAIL_OPEN and node.name in route.active)
        )


@attrs.define(eq=False)
class Search:
    """One client's search for a node."""

    first: Attempt | None = None  # begun before there was a task for it
    running: set[Attempt] = attrs.field(factory=set)
    winner: tuple[Attempt, Conn] | None = None
    has_failed: bool = False  # the last try to end did: the next one follows at once
    hedge_at: float = 0.0  # when the last one to start counts as hanging, Trio's clock
    is_over: bool = False  # what connects from now on is closed without a byte
    changed: trio.Event = attrs.field(factory=trio.Event)

    def wake(self) -> None:
        """Something happened to a try."""
        self.changed.set()
        self.changed = trio.Event()


class Searches:
    """The searches of one listener."""

    def __init__(
        self,
        services: Services,
        leases: LeaseBook,
        tries: trio.Nursery,
        settings: Callable[[], ListenerConfig],
        leave: Callable[[Arrival], None],
        heard: Callable[[Endpoint], None],
    ) -> None:
        """`tries` holds the tries to connect and the keepers of leases.

        `leave` is called when a flow has ended, `heard` when its client has had the first byte from an endpoint.
        """
        self._services = services
        self._leases = leases
        self._tries = tries
        self._settings = settings
        self._leave = leave
        self._heard = heard
        self._attempts: set[Attempt] = set()

    def follow(self, state: State) -> None:
        """Cancels the tries at endpoints that may not be used any more; their clients are routed again."""
        for attempt in list(self._attempts):
            if not self._may_go_on(attempt, state):
                attempt.scope.cancel()

    def _may_go_on(self, attempt: Attempt, state: State) -> bool:
        return attempt.pool == self._settings().pool and attempt.may_go_on(state)

    def start_at_once(self, arrival: Arrival) -> bool:
        """True when a flow owns the client already; else `find_node` goes on from what was begun here."""
        arrival.client.set_user_timeout(arrival.listener.tcp_user_timeout)
        self._services.ledger.hedges(arrival.route).count_flow(trio.current_time())
        search = arrival.search = Search()
        while (attempt := self._next_attempt(arrival, search, beside=False)) is not None:
            search.first = attempt
            if not attempt.configured.is_literal:
                return False
            begun = attempt.begun = self._begin(arrival, attempt)
            if (conn := begun.result_nowait()) is not None:
                search.first = None
                search.winner = (attempt, conn)
                return self._start_flow(arrival, search)
            if (failure := begun.failure_nowait()) is None:
                return False
            search.first = None
            self._count_failure(arrival, attempt.endpoint, (attempt.configured,), [failure], timed_out=False)
            self._let_go(arrival, attempt, None)
        return False

    def _begin(self, arrival: Arrival, attempt: Attempt) -> Connecting:
        """The connect of a first try: perhaps it was begun elsewhere."""
        offer = arrival.take_offer(attempt.configured)
        if offer is not None:
            attempt.since = offer.since
            return offer.connecting
        return self._services.network.begin_connect(attempt.configured, user_timeout=arrival.listener.tcp_user_timeout)

    async def find_node(self, arrival: Arrival) -> EndReason | None:
        """None once a flow owns the client, else why it has none."""
        search = arrival.search
        if search is None:
            if self.start_at_once(arrival):
                return None
            search = arrival.search
            assert search is not None
        if search.first is not None:
            attempt, search.first = search.first, None
            self._start_try(arrival, search, attempt)
        while not arrival.client.is_broken():
            if search.winner is not None:
                if self._start_flow(arrival, search):
                    return None
                continue
            changed, look_again = search.changed, self._try_if_due(arrival, search)
            if not search.running:
                return reason_without_node(arrival)
            with trio.move_on_at(look_again):
                await changed.wait()
        return EndReason.CLIENT_GONE

    def end(self, arrival: Arrival) -> None:
        """Lets go of what a search that is over still holds; tries under way go on, as evidence only."""
        search, arrival.search = arrival.search, None
        arrival.take_offer(None)
        if search is None:
            return
        search.is_over = True
        if search.winner is not None:
            self._let_go(arrival, *search.winner)
            search.winner = None
        if search.first is not None:
            self._let_go(arrival, search.first, None)

    def _try_if_due(self, arrival: Arrival, search: Search) -> float:
        """Starts a try if there is none, one has failed, or the last one hangs; when to look again (Trio's clock)."""
        beside = bool(search.running) and not search.has_failed
        if beside and trio.current_time() < search.hedge_at:
            return search.hedge_at
        arrival.listener = self._settings()
        attempt = self._next_attempt(arrival, search, beside=beside)
        if attempt is None:
            return NEVER
        self._start_try(arrival, search, attempt)
        return search.hedge_at

    def _next_attempt(self, arrival: Arrival, search: Search, *, beside: bool) -> Attempt | None:
        """The next node for a client, counted as tried from now on; `beside` one that hangs only within the budget."""
        services, state = self._services, self._services.board.state
        route = state.routes.get(arrival.route)
        if route is None or arrival.failed + len(search.running) >= state.config.globals.connect_retry:
            return None  # None: a reload took the pool away
        on_trial = self._take_trial(arrival, route)
        name = route.trial if on_trial else services.ledger.choose(route, arrival.tried)
        node = state.config.node(name) if name is not None else None
        if node is None or node.tcp is None:
            return None
        if beside and not services.ledger.hedges(arrival.route).take(trio.current_time()):
            return None
        services.ledger.hedged += beside
        arrival.was_hedged |= beside
        arrival.tried |= {node.name}
        services.ledger.enter(arrival.route, node.name)
        endpoint = Endpoint(node.name, Transport.TCP)
        return Attempt(endpoint, node.pool, node.tcp, on_trial=on_trial, entered=arrival.route)

    def _hedge_delay(self, state: State, attempt: Attempt) -> float:
        """Seconds after which a try without an answer is one that hangs."""
        delay = state.config.pool(attempt.pool).hedge_delay
        usual = self._services.ledger.of(attempt.endpoint).last_connect
        return max(delay, SLOWER_THAN_USUAL * usual) if delay else NEVER

    def _take_trial(self, arrival: Arrival, route: Route) -> bool:
        """Whether this client is the one to prove the endpoint in probation."""
        if route.trial is None or arrival.tried:
            return False
        lasting = self._services.board.state.config.globals.connect_timeout + TRIAL_PROOF
        endpoint = Endpoint(route.trial, Transport.TCP)
        return self._services.ledger.take_trial(endpoint, self._services.clock.now(), lasting)

    def _start_try(self, arrival: Arrival, search: Search, attempt: Attempt) -> None:
        search.has_failed = False
        search.running.add(attempt)
        if attempt.since is None:
            attempt.since = trio.current_time()
        search.hedge_at = attempt.since + self._hedge_delay(self._services.board.state, attempt)
        self._tries.start_soon(self._try, arrival, search, attempt)

    async def _try(self, arrival: Arrival, search: Search, attempt: Attempt) -> None:
        """Tries one node to the end, also when another has won the client: then as evidence only."""
        conn: Conn | None = None
        try:
            with self._services.containing("a connect") as work:
                conn = await self._connect(arrival, attempt)
            if work.crashed:
                arrival.failed += 1
                arrival.crashed = True
        finally:
            search.running.discard(attempt)
            if conn is not None and not search.is_over and search.winner is None:
                search.winner = (attempt, conn)
            else:
                self._let_go(arrival, attempt, conn)
            search.has_failed = conn is None
            search.wake()

    def _let_go(self, arrival: Arrival, attempt: Attempt, conn: Conn | None) -> None:
        """Ends a try that no flow came of. *Closes:* `conn`, without a byte of the client sent."""
        if conn is not None:
            conn.close()
        if attempt.begun is not None:
            attempt.begun.close()
        self._services.ledger.leave(attempt.entered, attempt.endpoint.node)
        if attempt.on_trial:
            self._services.ledger.end_trial(attempt.endpoint)

    def _start_flow(self, arrival: Arrival, search: Search) -> bool:
        """Hands client and node over to a flow; False when it is too late for that, and the node let go."""
        assert search.winner is not None
        (attempt, conn), search.winner = search.winner, None
        state = self._services.board.state
        if self._may_go_on(attempt, state) and not arrival.client.is_broken():
            pool = state.config.pool(attempt.pool)
            lease = self._leases.lease_for(state, attempt.endpoint, attempt.configured, conn.peer, pool, self._tries)
            flow = Flow(arrival, conn, attempt.endpoint, lease, attempt.on_trial)
            if lease.start(run_flow, self._services, flow, self._leave, self._heard):
                arrival.tried = NOBODY
                if arrival.failed or arrival.was_hedged:
                    self._services.incidents.slow(arrival.route)
                search.is_over = True
                arrival.search = None
                return True
        self._let_go(arrival, attempt, conn)
        search.has_failed = True
        return False

    async def _connect(self, arrival: Arrival, attempt: Attempt) -> Conn | None:
        """A connection to the node; None when it failed (reported as evidence) or the endpoint fell meanwhile."""
        timeout = self._services.board.state.config.globals.connect_timeout
        started = trio.current_time() if attempt.since is None else attempt.since
        errors: list[ConnectFailed | LocalShortage] = []
        addresses: tuple[Address, ...] = ()
        attempt.scope.deadline = started + timeout
        self._attempts.add(attempt)
        try:
            with attempt.scope:
                addresses = await self._services.names.addresses(attempt.configured)
                conn = await connect_first(
                    self._services.network,
                    addresses,
                    timeout,
                    lambda _, error: errors.append(error),
                    user_timeout=arrival.listener.tcp_user_timeout,
                    begun=attempt.begun,
                )
                if conn is not None:
                    self._services.ledger.of(attempt.endpoint).last_connect = trio.current_time() - started
                    return conn
        except NameUnresolved as error:
            log.info("%s: %s", attempt.endpoint, error)
        except LocalShortage as error:
            errors.append(error)
        finally:
            self._attempts.discard(attempt)
        timed_out = attempt.scope.cancelled_caught and trio.current_time() - started >= timeout
        if timed_out or not attempt.scope.cancelled_caught:
            self._count_failure(arrival, attempt.endpoint, addresses, errors, timed_out=timed_out)
        return None

    def _count_failure(
        self,
        arrival: Arrival,
        endpoint: Endpoint,
        addresses: tuple[Address, ...],
        errors: list[ConnectFailed | LocalShortage],
        *,
        timed_out: bool,
    ) -> None:
        """Reports a failed try as evidence, unless it was our own trouble, or a name's, and not the node's."""
        arrival.failed += 1
        failures = [error for error in errors if isinstance(error, ConnectFailed)]
        for error in errors:
            if isinstance(error, LocalShortage):
                arrival.short = True
                self._services.ledger.shortages["connect"] += 1
                log.warning("cannot connect: %s", error)
        if not addresses or len(failures) < len(errors):
            return
        kind = FailureKind.TIMEOUT if timed_out else FailureKind(failures[-1].kind)
        self._services.ledger.of(endpoint).failed += 1
        self._services.reporter.failed(endpoint, kind, arrival.client.peer.host)


def reason_without_node(arrival: Arrival) -> EndReason:
    if arrival.crashed:
        return EndReason.CRASHED
    return EndReason.LOCAL_SHORTAGE if arrival.short else EndReason.NO_NODE
