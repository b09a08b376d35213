"""What must be true in every history: second opinions that share as little as they can with the code they judge."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from types import TracebackType

import attrs
import trio

from sniffgate.address import Address
from sniffgate.config.schema import Config, ProbeKind, RouteKey, Strategy, Transport
from sniffgate.net.ports import Acceptor, Conn, Connecting, DatagramConn, DatagramPort
from sniffgate.state.model import Endpoint, Mark, RouteMode, State, Verdict
from sniffgate.state.verdict import is_enabled, is_usable, override_of
from sniffgate.tasks.leases import Lease
from sniffgate.tasks.listener import Listener
from sniffgate.testing.connecting import VirtualConnecting
from sniffgate.testing.virtual import VirtualHost
from tests.tasks.history import INF, TCP, UDP, Spec

DUST = 1e-6  # of adding floats
_client: ContextVar[Address | None] = ContextVar("client", default=None)


# --- tries: who connects to which node for which client -------------------------------------------


@attrs.define(eq=False)
class Try:
    """One connect of the gateway for a client."""

    node: Address
    began: float
    ended: float = INF
    ok: bool = False
    pool: str = ""
    beside: bool = False  # begun beside another one, and not because one had failed
    conn: Conn | None = None


class Watched:
    """The gateway's network, on which each connect knows the client it is for: the task inherits it from the accept."""

    def __init__(self, host: VirtualHost, pool_of: Callable[[str], str]) -> None:
        self._host = host
        self._pool_of = pool_of
        self.tries: dict[Address, list[Try]] = defaultdict(list)
        self.accepted: list[tuple[float, Address]] = []

    async def look_up(self, host: str) -> tuple[str, ...]:
        return await self._host.look_up(host)

    async def listen_tcp(self, address: Address) -> Acceptor:
        return _WatchedAcceptor(await self._host.listen_tcp(address), self.accepted)

    async def listen_udp(self, address: Address) -> DatagramPort:
        return await self._host.listen_udp(address)

    async def connect_tcp(self, address: Address, *, user_timeout: float = 0.0) -> Conn:
        return await self.begin_connect(address, user_timeout=user_timeout).wait()

    def begin_connect(self, address: Address, *, user_timeout: float = 0.0) -> Connecting:
        client = _client.get()
        if client is None:  # a probe or a tripwire
            return self._host.begin_connect(address, user_timeout=user_timeout)
        return VirtualConnecting(lambda: self._connect_for(client, address, user_timeout))

    async def _connect_for(self, client: Address, address: Address, user_timeout: float) -> Conn:
        others, now = self.tries[client], trio.current_time()
        after_failure = any(each.ended == now and not each.ok for each in others)
        this = Try(
            address,
            now,
            pool=self._pool_of(address.host),
            beside=any(each.ended == INF for each in others) and not after_failure,
        )
        others.append(this)
        try:
            this.conn = await self._host.connect_tcp(address, user_timeout=user_timeout)
            this.ok = True
        finally:
            this.ended = trio.current_time()
        return this.conn

    def connect_udp(self, address: Address) -> DatagramConn:
        return self._host.connect_udp(address)


class _WatchedAcceptor:
    def __init__(self, acceptor: Acceptor, accepted: list[tuple[float, Address]]) -> None:
        self._acceptor = acceptor
        self._accepted = accepted

    @property
    def address(self) -> Address:
        return self._acceptor.address

    async def accept(self) -> Conn:
        return self._known(await self._acceptor.accept())

    def accept_nowait(self) -> Conn | None:
        conn = self._acceptor.accept_nowait()
        return None if conn is None else self._known(conn)

    def _known(self, conn: Conn) -> Conn:
        _client.set(conn.peer)
        self._accepted.append((trio.current_time(), conn.peer))
        return conn

    def close(self) -> None:
        self._acceptor.close()

    def __enter__(self) -> "_WatchedAcceptor":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()


def too_many_tries(network: Watched, most: int, connect_timeout: float) -> Iterator[str]:
    """No client costs more than `connect_retry` nodes a connect.

    A try that was given up because its endpoint fell is not counted: before its time, or just when it had connected,
    which is why of those that connected only the last one counts.
    """
    for client, tries in network.tries.items():
        connected = [each.node for each in tries if each.ok]
        counted = {
            each.node
            for each in tries
            if not each.ok and (each.ended - each.began >= connect_timeout or each.ended == each.began)
        }
        counted.update(connected[-1:])
        if len(counted) > most:
            yield f"client {client.port} was tried at {len(counted)} nodes, more than {most}"
        nodes = [each.node for each in tries]
        if len(nodes) != len(set(nodes)):
            yield f"client {client.port} was tried at one node twice"


def too_many_hedges(network: Watched) -> Iterator[str]:
    """At most a tenth of a route's new flows, and at least three, are hedged within ten seconds."""
    hedges = [each for tries in network.tries.values() for each in tries if each.beside]
    for first in hedges:
        count = sum(first.began <= each.began < first.began + 10 - DUST and each.pool == first.pool for each in hedges)
        flows = sum(first.began - 12 <= when < first.began + 10 for when, _ in network.accepted)
        if count > max(3, 0.1 * flows):
            yield f"{count} hedges within ten seconds of {first.began:.3f}, with {flows} flows"


# --- drains ---------------------------------------------------------------------------------------


@attrs.define(eq=False)
class _Drain:
    """What is known of one lease."""

    deadlines: set[float] = attrs.field(factory=lambda: {INF})  # several, where much happened in one moment
    was_usable: bool = False
    was_active: bool = False
    fallen: bool = False
    ordered: tuple[float, float] | None = None
    changed: float = 0.0


class DrainBook:
    """When each lease has to be over, told from the published states alone."""

    def __init__(self) -> None:
        self._drains: dict[Lease, _Drain] = {}

    def follow(self, listener: Listener, before: State, after: State, now: float) -> None:
        """Takes note of a new state."""
        if listener.leases.closing is not None:
            return
        for lease in listener.leases:
            drain = self._drains.get(lease)
            if drain is None:
                drain = self._drains[lease] = _Drain()
                self._step(drain, lease, listener, before, now)
            self._step(drain, lease, listener, after, now)

    def _step(self, drain: _Drain, lease: Lease, listener: Listener, state: State, now: float) -> None:
        endpoint, pool = lease.endpoint, lease.subject.pool
        node = state.config.node(endpoint.node)
        pool = next((each for each in state.config.pools if each.name == pool.name), pool)
        there = (
            node is not None
            and node.pool == pool.name == listener.settings.pool
            and node.address(endpoint.transport) == lease.subject.configured
            and is_enabled(state, node)
        )
        usable = there and node is not None and is_usable(state, node, endpoint)
        route = state.routes.get(RouteKey(pool.name, endpoint.transport))
        if usable and route is not None and endpoint.node in route.active:
            self._note(drain, now, {INF})
            drain.was_active, drain.fallen, drain.ordered = True, False, None
        elif not there or (drain.was_usable and not usable):
            wish = override_of(state, endpoint.node)
            ordered = None if wish.drain is None else (wish.drain_at, wish.drain)
            if not drain.fallen or ordered != drain.ordered:
                fresh = {min(each, now + pool.drain_timeout) for each in drain.deadlines | {INF}}
                self._note(drain, now, fresh if ordered is None else {sum(ordered)})
            drain.fallen, drain.ordered, drain.was_active = True, ordered, False
        elif drain.was_active:
            self._note(drain, now, {now + pool.failback_drain_timeout})
            drain.was_active = False
        drain.was_usable |= usable

    def _note(self, drain: _Drain, now: float, deadlines: set[float]) -> None:
        """A new deadline; within one moment the gateway may look at any of the states, so all of them may stand."""
        drain.deadlines = deadlines | (drain.deadlines if drain.changed == now else set())
        drain.changed = now

    def overdue(self, listener: Listener, now: float, started: float) -> Iterator[str]:
        """Leases that live too long, or have a deadline that they should not have."""
        if listener.leases.closing is not None:
            return
        for lease in listener.leases:
            drain = self._drains.get(lease)
            if drain is None or not lease.flows or drain.changed >= now:
                continue
            latest = max(drain.deadlines)
            if latest < now - DUST:
                yield f"{lease.flows} flows at {lease.endpoint} live past {latest:.3f}"
            actual = lease.scope.deadline - started
            if not any(actual == each or abs(actual - each) < DUST for each in drain.deadlines):
                yield f"flows at {lease.endpoint} end at {actual}, not at {sorted(drain.deadlines)}"

    def stranded(self, lease: Lease, now: float) -> bool:
        """Whether a session that moves with its route should not be at `lease` any more."""
        drain = self._drains.get(lease)
        return drain is not None and drain.changed < now and (drain.fallen or max(drain.deadlines) < INF)


# --- routes ---------------------------------------------------------------------------------------


def wrong_routes(state: State) -> Iterator[str]:
    """One tier per route, and nobody unusable in use except under fail-open or an operator's mark."""
    for key, route in state.routes.items():
        members = {member.node.name: member for member in state.config.members(key)}
        if set(route.active) - members.keys():
            yield f"{key}: {route.active} are not all members"
        if route.mode is not RouteMode.NORMAL:
            continue
        if (pin := state.pins.get(key)) is not None and route.active != (pin,):
            yield f"{key}: {pin} is pinned, and {route.active} in use"
        tiers = {members[name].node.priority for name in route.active if name in members}
        if route.strategy is Strategy.PRIORITY and len(tiers) > 1:
            yield f"{key}: {route.active} are of several tiers"
        for name in route.active:
            wish = override_of(state, name)
            bad = state.health[members[name].endpoint].verdict in (Verdict.UNHEALTHY, Verdict.PROBATION)
            if wish.mark is Mark.DOWN or (bad and wish.mark is not Mark.UP):
                yield f"{key}: {name} is in use and not usable"


# --- service: when a client may count on an answer ------------------------------------------------


def settling_time(config: Config) -> float:
    """Seconds after which the gateway knows what there is to know about a node that stays as it is.

    A connect that began before the change may fail until `connect_timeout` later, and eject the node once more, for
    `eject_time_max` at most. Then its probes decide: as many as the larger threshold, each within its interval and its
    timeout, and one more that had begun before. The rest is for the tenth that intervals may be longer.
    """
    rules = config.globals
    interval = max([rules.probe_interval, *(node.probe_interval or 0.0 for node in config.nodes)])
    probes = (max(rules.failure_threshold, rules.success_threshold) + 1) * (1.1 * interval + rules.probe_timeout)
    return rules.connect_timeout + max(rules.eject_time, rules.eject_time_max) + probes


@attrs.define(eq=False)
class Weather:
    """What the test itself did to the machines, and when: `faults` per (host, transport)."""

    faults: dict[tuple[str, Transport], str] = attrs.field(factory=dict)
    changed: dict[str, float] = attrs.field(factory=dict)  # host or node name: when something last happened to it
    spoiled: set[str] = attrs.field(factory=set)  # hosts that anything bad ever happened to
    everything: float = 0.0  # when something happened that concerns all nodes

    def since(self, spec: Spec) -> float:
        """Since when nothing has happened to a node."""
        return max(self.everything, self.changed.get(spec.host, 0.0), self.changed.get(spec.name, 0.0))

    def fault(self, spec: Spec, transport: Transport) -> str | None:
        """What it suffers from."""
        return self.faults.get((spec.host, transport))


def decisive(spec: Spec, transport: Transport, *, together: bool) -> set[Transport]:
    """The transports whose faults the verdict over `transport` may come from."""
    has = {each for each, there in ((TCP, spec.tcp), (UDP, spec.udp)) if there}
    if spec.probe is ProbeKind.TCP and spec.tcp:
        return {TCP, transport}
    if spec.probe is ProbeKind.UDP and spec.udp:
        return {UDP, transport}
    follows = transport is UDP and spec.probe is not ProbeKind.NONE and spec.tcp
    return has if together or follows else {transport}


def is_seen_by_probes(spec: Spec, transport: Transport, weather: Weather) -> bool:
    """Whether the probes that decide over `transport` fail by what the node suffers from now."""
    if spec.probe is ProbeKind.NONE:
        return False
    speaks = {ProbeKind.TCP: TCP, ProbeKind.UDP: UDP}.get(spec.probe)
    speaks = speaks if speaks is not None and (spec.tcp if speaks is TCP else spec.udp) else None
    looks = TCP if spec.tcp and (transport is TCP or speaks is None) else UDP
    looks = speaks or looks
    fault = weather.fault(spec, looks)
    if looks is TCP:
        return fault is not None and (fault != "freeze" or spec.expects)
    return fault is not None and (speaks is UDP or spec.expects)


def wrong_verdicts(state: State, specs: tuple[Spec, ...], weather: Weather, now: float) -> Iterator[str]:
    """Nodes that the gateway misjudges, though nothing has happened to them for long enough."""
    settled = now - settling_time(state.config)
    for spec in specs:
        for transport in Transport:
            key = RouteKey(spec.pool, transport)
            is_read = any((each.pool, each.protocol) == key for each in state.config.listeners)
            if weather.since(spec) > settled or not is_read or not (spec.tcp if transport is TCP else spec.udp):
                continue
            node, endpoint = spec.node(), Endpoint(spec.name, transport)
            health, together = state.health[endpoint], state.config.pool(spec.pool).move_together
            if health.ejected_until is not None and not node.is_probed and health.ejected_until < now - DUST:
                yield f"{endpoint} is still ejected"
            if override_of(state, spec.name).mark is not None or not node.is_probed:
                continue
            if is_seen_by_probes(spec, transport, weather) and is_usable(state, node, endpoint):
                yield f"{endpoint} counts as usable, and is not there"
            if not any(weather.fault(spec, each) for each in decisive(spec, transport, together=together)):
                if not is_usable(state, node, endpoint):
                    yield f"{endpoint} counts as {health.verdict.value}, and all is well with it"
                elif health.verdict is Verdict.UNKNOWN and not (transport is UDP and node.udp_follows):
                    yield f"{endpoint} was never probed"


@attrs.define(eq=False)
class Promise:
    """Who may be counted on, by what is known of the machines."""

    weather: Weather
    specs: Callable[[], tuple[Spec, ...]]

    def holds(self, state: State, pool: str, transport: Transport, now: float) -> str | None:
        """The name of a node that guarantees service on a route now; None when nothing can be promised."""
        rules, settled = state.config.pool(pool), now - settling_time(state.config)
        wanted = [spec for spec in self.specs() if spec.pool == pool and (spec.tcp if transport is TCP else spec.udp)]
        members = [spec for spec in wanted if is_enabled(state, spec.node())]
        good = [each for each in members if self._is_sure(state, each, transport, rules.move_together, settled)]
        if not good:
            return None
        retries = state.config.globals.connect_retry >= len(members)
        for spec in members:
            if not self._is_harmless(state, spec, transport, settled, retries=retries):
                return None
        return good[0].name

    def _is_sure(self, state: State, spec: Spec, transport: Transport, together: bool, settled: float) -> bool:
        if any(self.weather.fault(spec, each) for each in decisive(spec, transport, together=together)):
            return False
        if override_of(state, spec.name).mark is Mark.DOWN or self.weather.since(spec) > settled:
            return False
        return spec.probe is not ProbeKind.NONE or spec.host not in self.weather.spoiled

    def _is_harmless(self, state: State, spec: Spec, transport: Transport, settled: float, *, retries: bool) -> bool:
        """Whether a client is served even if this one is chosen, or this one is known to be dead."""
        fault = self.weather.fault(spec, transport)
        if fault is None:
            return True
        if transport is TCP and retries and fault != "freeze":
            return True
        if transport is UDP and fault in ("kill", "refuse"):
            return True
        if override_of(state, spec.name).mark is Mark.UP or self.weather.since(spec) > settled:
            return False
        if not is_seen_by_probes(spec, transport, self.weather):
            return False
        if transport is TCP or state.config.globals.udp_rebind_on_switch:
            return True
        return self.weather.since(spec) <= settled - state.config.pool(spec.pool).drain_timeout
