"""What a configuration is, once it has been read: plain frozen values, times in seconds, addresses parsed.

A key `x_ms` of the file is the attribute `x` here, in seconds. `config/load.py` builds these; tests and
embedders may build them directly, with the same defaults.
"""

from collections.abc import Mapping
from typing import NamedTuple

import attrs

from ..address import Address
from .terms import Endpoint as Endpoint
from .terms import Failback as Failback
from .terms import FlowLogMode as FlowLogMode
from .terms import ProbeKind as ProbeKind
from .terms import RouteKey as RouteKey
from .terms import Strategy as Strategy
from .terms import Transport as Transport

INFINITE = float("inf")
DEFAULT_POOL = "default"


@attrs.frozen(kw_only=True)
class GlobalConfig:
    """The `[global]` table. Durations in seconds."""

    log_level: str = "info"
    strategy: Strategy = Strategy.PRIORITY
    admin_listen: str = "127.0.0.1:9100"  # "" = off, "unix:/path" allowed
    admin_token_file: str = ""
    config_poll_interval: float = 1.0
    probe_interval: float = 1.0
    probe_fast_interval: float = 0.05
    probe_timeout: float = 0.8
    connect_timeout: float = 3.0
    failure_threshold: int = 3
    success_threshold: int = 2
    connect_retry: int = 3
    hedge_delay: float = 0.2  # 0 = off
    passive_eject_threshold: int = 3
    passive_eject_window: float = 5.0
    eject_time: float = 1.0
    eject_time_max: float = 60.0
    failback: Failback = Failback.AUTO
    failback_delay: float = 0.0
    drain_timeout: float = 10.0
    failback_drain_timeout: float | None = None  # None = as drain_timeout
    move_together: bool = False
    udp_session_timeout: float = 60.0
    udp_rebind_on_switch: bool = True
    udp_max_sessions: int = 10000
    fail_open: bool = True
    shutdown_grace: float = 5.0
    event_log: str = ""
    event_log_max_mb: int = 64
    flow_log: FlowLogMode = FlowLogMode.FAILED


@attrs.frozen(kw_only=True)
class PoolConfig:
    """One `[[pools]]` table, already filled up from `[global]`: a named set of nodes and how it fails over."""

    name: str = DEFAULT_POOL
    strategy: Strategy = Strategy.PRIORITY
    failback: Failback = Failback.AUTO
    failback_delay: float = 0.0
    drain_timeout: float = 10.0
    failback_drain_timeout: float = 10.0
    fail_open: bool = True
    move_together: bool = False
    hedge_delay: float = 0.2


SocketIdentity = tuple[Transport, str, int, str]


@attrs.frozen(kw_only=True)
class ListenerConfig:
    """One `[[listeners]]` table: a public address."""

    name: str
    protocol: Transport
    listen: Address
    pool: str = DEFAULT_POOL
    max_connections: int | None = None  # None = as many as descriptors allow
    idle_timeout: float = 0.0  # 0 = off
    half_close_timeout: float = 300.0
    tcp_user_timeout: float = 120.0

    @property
    def socket_identity(self) -> SocketIdentity:
        """What makes a socket the same across reloads: protocol and address; with port 0 each listener has its own."""
        return self.protocol, self.listen.host, self.listen.port, self.name if self.listen.port == 0 else ""


@attrs.frozen(kw_only=True)
class NodeConfig:
    """One `[[nodes]]` table: a named backend. Payloads and expectations are bytes here (`hex:` already decoded)."""

    name: str
    pool: str = DEFAULT_POOL
    enabled: bool = True
    priority: int = 0  # higher first
    weight: int = 1
    tcp: Address | None = None
    udp: Address | None = None
    probe: ProbeKind = ProbeKind.AUTO
    probe_payload: bytes = b""
    probe_expect: bytes = b""
    udp_probe_payload: bytes = b""
    udp_probe_expect: bytes = b""
    probe_interval: float | None = None  # None = the global one
    tripwire: bool = False
    remark: str = ""

    def address(self, transport: Transport) -> Address | None:
        """Where the node is reached over `transport`; None when it is not."""
        return self.tcp if transport is Transport.TCP else self.udp

    @property
    def transports(self) -> tuple[Transport, ...]:
        """The transports that the node has an address for."""
        return tuple(transport for transport in Transport if self.address(transport) is not None)

    @property
    def spokesman(self) -> Transport | None:
        """The transport whose probes speak for the whole node; None when each endpoint is probed for itself.

        `probe = "tcp"` on a node without a TCP address is as `auto` (and likewise for udp).
        """
        if self.probe is ProbeKind.TCP:
            wanted = Transport.TCP
        elif self.probe is ProbeKind.UDP:
            wanted = Transport.UDP
        else:
            return None
        return wanted if self.address(wanted) is not None else None

    @property
    def is_probed(self) -> bool:
        """False only under `probe = "none"`."""
        return self.probe is not ProbeKind.NONE

    def payload(self, transport: Transport) -> bytes:
        """What a probe over `transport` sends; b"" for the transport's own default."""
        if transport is Transport.UDP and self.udp_probe_payload:
            return self.udp_probe_payload
        return self.probe_payload if transport is self._stands_for_node else b""

    def expectation(self, transport: Transport) -> bytes:
        """What a probe over `transport` must read to succeed; b"" when anything will do."""
        if transport is Transport.UDP and self.udp_probe_expect:
            return self.udp_probe_expect
        return self.probe_expect if transport is self._stands_for_node else b""

    @property
    def udp_is_explicit(self) -> bool:
        """True when silence over UDP is a failure: `probe = "udp"`, or UDP has a payload or an expectation."""
        if self.spokesman is Transport.UDP:
            return True
        return bool(self.payload(Transport.UDP) or self.expectation(Transport.UDP))

    @property
    def udp_follows(self) -> bool:
        """True when the UDP endpoint has its TCP sibling's verdict unless refused: `auto`, both addresses, no words."""
        return (
            self.is_probed
            and self.spokesman is None
            and self.tcp is not None
            and self.udp is not None
            and not self.udp_is_explicit
        )

    @property
    def _stands_for_node(self) -> Transport:
        if self.spokesman is not None:
            return self.spokesman
        return Transport.TCP if self.tcp is not None else Transport.UDP


class Member(NamedTuple):
    """A node's place in a route. `grounds`: the endpoints whose own evidence must all be good for it to be usable.

    They are the endpoint itself, the TCP sibling that it follows, and all of the node under `move_together`.
    """

    node: NodeConfig
    endpoint: Endpoint
    grounds: tuple[Endpoint, ...]


@attrs.frozen(kw_only=True)
class Config:
    """A whole configuration. `pools` holds every pool in use, the default one included."""

    globals: GlobalConfig = attrs.field(factory=GlobalConfig)
    listeners: tuple[ListenerConfig, ...] = ()
    pools: tuple[PoolConfig, ...] = ()
    nodes: tuple[NodeConfig, ...] = ()
    warnings: tuple[str, ...] = attrs.field(default=(), eq=False)
    # derived once, here, so that no decision under traffic has to sort or search
    _nodes_by_name: Mapping[str, NodeConfig] = attrs.field(init=False, eq=False, repr=False, factory=dict)
    _pools_by_name: Mapping[str, PoolConfig] = attrs.field(init=False, eq=False, repr=False, factory=dict)
    _routes: Mapping[RouteKey, tuple[Member, ...]] = attrs.field(init=False, eq=False, repr=False, factory=dict)
    _members: Mapping[Endpoint, Member] = attrs.field(init=False, eq=False, repr=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        named = {pool.name for pool in self.pools}
        used = {DEFAULT_POOL} | {node.pool for node in self.nodes} | {listener.pool for listener in self.listeners}
        implied = tuple(pool_from(self.globals, name) for name in sorted(used - named))
        object.__setattr__(self, "pools", self.pools + implied)
        object.__setattr__(self, "_nodes_by_name", {node.name: node for node in self.nodes})
        object.__setattr__(self, "_pools_by_name", {pool.name: pool for pool in self.pools})
        object.__setattr__(self, "_routes", self._ranked())
        members = {member.endpoint: member for route in self._routes.values() for member in route}
        object.__setattr__(self, "_members", members)

    def pool(self, name: str) -> PoolConfig:
        """The pool of that name; KeyError when there is none."""
        return self._pools_by_name[name]

    def node(self, name: str) -> NodeConfig | None:
        """The node of that name; None when there is none."""
        return self._nodes_by_name.get(name)

    @property
    def route_keys(self) -> tuple[RouteKey, ...]:
        """Every route, by name: a pool and a transport that a node or a listener gives it."""
        return tuple(self._routes)

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """Every endpoint: each transport of each node, disabled ones included."""
        return tuple(self._members)

    def members(self, key: RouteKey) -> tuple[Member, ...]:
        """The nodes of a route with an address on its transport, best first: by priority, then by name."""
        return self._routes.get(key, ())

    def member(self, endpoint: Endpoint) -> Member:
        """The endpoint's place in its route; KeyError when the configuration has no such endpoint."""
        return self._members[endpoint]

    def _ranked(self) -> Mapping[RouteKey, tuple[Member, ...]]:
        routes: dict[RouteKey, list[Member]] = {RouteKey(each.pool, each.protocol): [] for each in self.listeners}
        for node in sorted(self._nodes_by_name.values(), key=lambda node: (-node.priority, node.name)):
            endpoints = tuple(Endpoint(node.name, transport) for transport in node.transports)
            together, follows = self.pool(node.pool).move_together, node.udp_follows
            for endpoint in endpoints:
                shared = together or (follows and endpoint.transport is Transport.UDP)
                member = Member(node, endpoint, endpoints if shared else (endpoint,))
                routes.setdefault(RouteKey(node.pool, endpoint.transport), []).append(member)
        return {key: tuple(routes[key]) for key in sorted(routes, key=str)}


def pool_from(globals_: GlobalConfig, name: str, **overrides: object) -> PoolConfig:
    """A pool that takes from `[global]` whatever `overrides` (attribute → value) does not say.

    A pool that sets `drain_timeout` and not `failback_drain_timeout` uses its own drain timeout for both.
    """
    inherited: Mapping[str, object] = {
        field.name: getattr(globals_, field.name) for field in attrs.fields(PoolConfig) if field.name != "name"
    }
    values = {**inherited, **overrides}
    if "failback_drain_timeout" not in overrides and (
        globals_.failback_drain_timeout is None or "drain_timeout" in overrides
    ):
        values["failback_drain_timeout"] = values["drain_timeout"]
    return PoolConfig(name=name, **values)  # type: ignore[arg-type]  # names and types are PoolConfig's own
