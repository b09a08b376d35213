"""What tests of probes and reloads look at: when something was published, and what went over the wire."""

from collections.abc import Callable

import attrs
import trio

from sniffgate.address import Address
from sniffgate.config.schema import Config, ListenerConfig, NodeConfig, Transport
from sniffgate.state.model import Endpoint, Health, State, Verdict
from sniffgate.testing.trace import Fate, Kind
from tests.tasks.world import GATEWAY, TCP_PORT, UDP_PORT, World

TCP, UDP = Transport.TCP, Transport.UDP
LONG = 300.0  # virtual seconds: a test that waits for what never comes fails there

TCP_DOOR = ListenerConfig(name="tcp", protocol=TCP, listen=Address(GATEWAY, TCP_PORT))
UDP_DOOR = ListenerConfig(name="udp", protocol=UDP, listen=Address(GATEWAY, UDP_PORT))


def exact(time: float) -> float:
    """A moment without the dust of adding floats."""
    return round(time, 6)


def now() -> float:
    """This moment."""
    return exact(trio.current_time())


async def when(world: World, predicate: Callable[[State], bool]) -> float:
    """The moment at which the published state first fulfils `predicate`."""
    with trio.fail_after(LONG):
        await world.gateway.wait_for(predicate)
    return now()


async def at(moment: float) -> None:
    """Waits for a moment of the test."""
    await trio.sleep(moment - trio.current_time())


def syns(world: World, host: str) -> list[float]:
    """When TCP connections from the gateway to `host` were begun, retries of the kernel not counted."""
    seen: dict[Address, float] = {}
    for record in world.network.trace.select(Kind.SYN, Fate.SENT, source=GATEWAY, destination=host):
        seen.setdefault(record.source, exact(record.time))
    return list(seen.values())


def datagrams(world: World, host: str) -> list[float]:
    """When datagrams were sent from the gateway to `host`."""
    sent = world.network.trace.select(Kind.DATAGRAM, Fate.SENT, source=GATEWAY, destination=host)
    return [exact(record.time) for record in sent]


def health(world: World, node: str, transport: Transport = TCP) -> Health:
    """The published health of an endpoint."""
    return world.gateway.state.health[Endpoint(node, transport)]


def has(node: str, verdict: Verdict, transport: Transport = TCP) -> Callable[[State], bool]:
    """A predicate: the endpoint's own verdict is this one."""
    return lambda state: state.health[Endpoint(node, transport)].verdict is verdict


def with_nodes(config: Config, *nodes: NodeConfig) -> Config:
    """The configuration with other nodes."""
    return attrs.evolve(config, nodes=nodes)


def with_listeners(config: Config, *listeners: ListenerConfig) -> Config:
    """The configuration with other listeners."""
    return attrs.evolve(config, listeners=listeners)


def with_globals(config: Config, **changes: object) -> Config:
    """The configuration with other global settings (pools keep what they took from them)."""
    return attrs.evolve(config, globals=attrs.evolve(config.globals, **changes))  # type: ignore[arg-type]  # as GlobalConfig has them


def held(world: World, host: str | None = None) -> list[tuple[Transport, Address]]:
    """The sockets that the gateway's machine holds, or those to `host`."""
    sockets = world.network.host(GATEWAY)._machine.sockets()
    return [
        (socket.transport, socket.place)
        for socket in sockets
        if socket.is_open and (host is None or getattr(getattr(socket, "peer", None), "host", None) == host)
    ]
