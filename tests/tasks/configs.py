"""Configurations that tests share: two listeners on the gateway's machine, nodes on machines of their own."""

import attrs

from sniffgate.address import Address
from sniffgate.config.schema import (
    Config,
    GlobalConfig,
    ListenerConfig,
    NodeConfig,
    PoolConfig,
    ProbeKind,
    Transport,
    pool_from,
)

GATEWAY = "10.0.0.254"
TCP_PORT = 80
UDP_PORT = 53
TCP, UDP = Transport.TCP, Transport.UDP
TCP_DOOR = ListenerConfig(name="tcp", protocol=TCP, listen=Address(GATEWAY, TCP_PORT))
UDP_DOOR = ListenerConfig(name="udp", protocol=UDP, listen=Address(GATEWAY, UDP_PORT))
SECOND_DOOR = ListenerConfig(name="second", protocol=TCP, listen=Address(GATEWAY, TCP_PORT + 1))


def config_for(
    *nodes: NodeConfig,
    pools: tuple[PoolConfig, ...] = (),
    listeners: tuple[ListenerConfig, ...] = (TCP_DOOR, UDP_DOOR),
    **globals_: object,
) -> Config:
    """A configuration with one TCP and one UDP listener and the given nodes.

    `globals_` are attributes of GlobalConfig.
    """
    settings = GlobalConfig(**globals_)  # type: ignore[arg-type]  # names and types are GlobalConfig's own
    return Config(globals=settings, listeners=listeners, pools=pools or (pool_from(settings, "default"),), nodes=nodes)


def node_at(name: str, host: str, priority: int = 0, **settings: object) -> NodeConfig:
    """A node with both addresses, on port 7000 of `host`."""
    addresses: dict[str, object] = {"tcp": Address(host, 7000), "udp": Address(host, 7000)}
    return NodeConfig(name=name, priority=priority, **{**addresses, **settings})  # type: ignore[arg-type]


A, B, C = (node_at(f"node-{letter}", f"10.0.0.{number}", 30 - 10 * number) for number, letter in enumerate("abc", 1))

# --- nodes whose health only traffic and the operator decide -----------------------------------------


def quiet(letter: str, priority: int = 0, **settings: object) -> NodeConfig:
    """A TCP node that is never probed, so that nothing happens to it but what a test does."""
    host = f"10.0.0.{ord(letter) - ord('a') + 1}"
    return node_at(f"node-{letter}", host, priority, **{"udp": None, "probe": ProbeKind.NONE, **settings})


def tcp_config(*nodes: NodeConfig, **globals_: object) -> Config:
    """A configuration for TCP alone, without hedging unless asked for.

    `globals_` are attributes of GlobalConfig, and perhaps `listeners`.
    """
    listeners: tuple[ListenerConfig, ...] = globals_.pop("listeners", (TCP_DOOR,))  # type: ignore[assignment]
    return config_for(*nodes, pools=(), listeners=listeners, **{"hedge_delay": 0.0, **globals_})


QA, QB, QC, QD = quiet("a", 20), quiet("b", 10), quiet("c"), quiet("d", -10)

# --- the same with a change --------------------------------------------------------------------------


def with_nodes(config: Config, *nodes: NodeConfig) -> Config:
    """The configuration with other nodes."""
    return attrs.evolve(config, nodes=nodes)


def with_listeners(config: Config, *listeners: ListenerConfig) -> Config:
    """The configuration with other listeners."""
    return attrs.evolve(config, listeners=listeners)


def with_globals(config: Config, **changes: object) -> Config:
    """The configuration with other global settings (pools keep what they took from them)."""
    return attrs.evolve(config, globals=attrs.evolve(config.globals, **changes))  # type: ignore[arg-type]  # as GlobalConfig has them
