"""Small builders: nodes, configurations, and a story that is told event by event."""

from typing import Any, Self

from sniffgate.address import Address
from sniffgate.config.schema import Config, GlobalConfig, ListenerConfig, NodeConfig, PoolConfig, Transport, pool_from
from sniffgate.state.events import (
    ConfigApplied,
    Event,
    FailureKind,
    ForwardFailed,
    ForwardSucceeded,
    OperatorDisabled,
    OperatorDrained,
    OperatorEnabled,
    OperatorMarked,
    OperatorReleased,
    OperatorSwitched,
    ProbeFailed,
    ProbeSilent,
    ProbeSucceeded,
    TimePassed,
    TripwireFired,
)
from sniffgate.state.model import Endpoint, Health, Mark, Route, RouteKey, State, Verdict
from sniffgate.state.reducer import initial_state, next_wakeup, reduce
from sniffgate.state.verdict import verdict_of

TCP, UDP = Transport.TCP, Transport.UDP


def tcp_node(name: str, **fields: Any) -> NodeConfig:
    """A node with a TCP address only."""
    return NodeConfig(name=name, **{"tcp": Address(f"{name}.example", 80), **fields})


def udp_node(name: str, **fields: Any) -> NodeConfig:
    """A node with a UDP address only."""
    return NodeConfig(name=name, **{"udp": Address(f"{name}.example", 53), **fields})


def both_node(name: str, **fields: Any) -> NodeConfig:
    """A node with both addresses."""
    return tcp_node(name, **{"udp": Address(f"{name}.example", 53), **fields})


def tcp(name: str) -> Endpoint:
    """The TCP endpoint of a node."""
    return Endpoint(name, TCP)


def udp(name: str) -> Endpoint:
    """The UDP endpoint of a node."""
    return Endpoint(name, UDP)


def config_of(*nodes: NodeConfig, listeners: tuple[ListenerConfig, ...] = (), **settings: Any) -> Config:
    """A configuration; `settings` are global ones."""
    return Config(globals=GlobalConfig(**settings), nodes=nodes, listeners=listeners)


def pool_named(name: str, **settings: Any) -> PoolConfig:
    """A pool with the given settings and otherwise the defaults."""
    return pool_from(GlobalConfig(), name, **settings)


class Story:
    """A state and what happens to it. Every method folds events at the time `now` and returns the story."""

    def __init__(self, *nodes: NodeConfig, **settings: Any) -> None:
        self.state: State = initial_state(config_of(*nodes, **settings))
        self.now = 0.0

    def at(self, now: float) -> Self:
        """What follows happens at `now`, after all timers before it."""
        while (wakeup := next_wakeup(self.state)) <= now:
            self.fold(TimePassed(at=wakeup))
        self.now = now
        return self

    def fold(self, *events: Event) -> Self:
        for event in events:
            self.state = reduce(self.state, event)
        return self

    def good(self, endpoint: Endpoint, times: int = 1, latency: float = 0.001) -> Self:
        return self.fold(*[ProbeSucceeded(at=self.now, endpoint=endpoint, latency=latency)] * times)

    def bad(self, endpoint: Endpoint, times: int = 1, error: str = "connection refused") -> Self:
        return self.fold(*[ProbeFailed(at=self.now, endpoint=endpoint, error=error)] * times)

    def silent(self, endpoint: Endpoint, times: int = 1) -> Self:
        return self.fold(*[ProbeSilent(at=self.now, endpoint=endpoint)] * times)

    def refused(self, endpoint: Endpoint, times: int = 1, more: int = 0) -> Self:
        event = ForwardFailed(at=self.now, endpoint=endpoint, kind=FailureKind.REFUSED, more=more)
        return self.fold(*[event] * times)

    def timed_out(self, endpoint: Endpoint, times: int = 1) -> Self:
        return self.fold(*[ForwardFailed(at=self.now, endpoint=endpoint, kind=FailureKind.TIMEOUT)] * times)

    def reset(self, endpoint: Endpoint, times: int = 1, client: str = "", spoke: bool = False) -> Self:
        event = ForwardFailed(at=self.now, endpoint=endpoint, kind=FailureKind.RESET, client=client, client_spoke=spoke)
        return self.fold(*[event] * times)

    def served(self, endpoint: Endpoint) -> Self:
        return self.fold(ForwardSucceeded(at=self.now, endpoint=endpoint))

    def tripped(self, endpoint: Endpoint) -> Self:
        return self.fold(TripwireFired(at=self.now, endpoint=endpoint))

    def switch(self, node: str, transport: Transport | None = None) -> Self:
        return self.fold(OperatorSwitched(at=self.now, node=node, transport=transport))

    def auto(self, transport: Transport | None = None) -> Self:
        return self.fold(OperatorReleased(at=self.now, transport=transport))

    def enable(self, node: str) -> Self:
        return self.fold(OperatorEnabled(at=self.now, node=node))

    def disable(self, node: str) -> Self:
        return self.fold(OperatorDisabled(at=self.now, node=node))

    def drain(self, node: str, timeout: float | None = None) -> Self:
        return self.fold(OperatorDrained(at=self.now, node=node, timeout=timeout))

    def mark(self, node: str, mark: Mark | None) -> Self:
        return self.fold(OperatorMarked(at=self.now, node=node, mark=mark))

    def reload(self, *nodes: NodeConfig, **settings: Any) -> Self:
        return self.fold(ConfigApplied(at=self.now, config=config_of(*nodes, **settings)))

    def apply(self, config: Config) -> Self:
        return self.fold(ConfigApplied(at=self.now, config=config))

    def health(self, endpoint: Endpoint) -> Health:
        return self.state.health[endpoint]

    def verdict(self, endpoint: Endpoint) -> Verdict:
        """The verdict in force."""
        node = self.state.config.node(endpoint.node)
        assert node is not None
        return verdict_of(self.state, node, endpoint)

    def route(self, transport: Transport = TCP, pool: str = "default") -> Route:
        return self.state.routes[RouteKey(pool, transport)]

    def active(self, transport: Transport = TCP, pool: str = "default") -> str:
        """The active set, joined: node names are single letters in these tests."""
        return "".join(self.route(transport, pool).active)

    def standbys(self, transport: Transport = TCP, pool: str = "default") -> str:
        return "".join(self.route(transport, pool).standbys)
