"""What tests of UDP sessions say and look at."""

import trio

from sniffgate.config.schema import Transport
from sniffgate.net.ports import DatagramConn
from sniffgate.state.events import Event, ForwardFailed
from sniffgate.state.model import State
from sniffgate.tasks.listener import Listener
from sniffgate.tasks.sessions import Session
from sniffgate.tasks.udp import UdpIntake
from tests.tasks.world import GATEWAY, UDP_PORT, World

UDP = Transport.UDP
PROBE = b"\0"  # what a probe without a payload says


async def ask(conn: DatagramConn, text: bytes = b"hi") -> bytes:
    """Sends a datagram and returns the next one that comes."""
    conn.send_nowait(text)
    with trio.fail_after(300):
        return await conn.receive()


async def silence(conn: DatagramConn, seconds: float = 0.001) -> bool:
    """Whether nothing comes for a while."""
    with trio.move_on_after(seconds) as patience:
        await conn.receive()
    return patience.cancelled_caught


def got(world: World, node: str) -> list[bytes]:
    """The datagrams that a node received from clients."""
    return [each.data for each in world.nodes[node].received if each.transport is UDP and each.data != PROBE]


def ports(world: World, node: str) -> set[int]:
    """The source ports of the datagrams that a node received from clients."""
    received = world.nodes[node].received
    return {each.peer.port for each in received if each.transport is UDP and each.data != PROBE}


def upstream_sockets(world: World) -> int:
    """Open UDP sockets of the gateway, its listener's not counted."""
    opened = world.network.host(GATEWAY).open_sockets()
    return sum(transport is UDP and address.port != UDP_PORT for transport, address in opened)


def udp_listener(world: World) -> Listener:
    """The UDP listener."""
    return next(each for each in world.gateway.listeners.values() if each.settings.protocol is UDP)


def sessions(world: World) -> list[Session]:
    """The sessions of the UDP listener, longest idle first."""
    intake = udp_listener(world)._intake
    assert isinstance(intake, UdpIntake)
    return list(intake._table)


def places(world: World) -> list[str | None]:
    """The node of each session, longest idle first."""
    return [session.leg.endpoint.node if session.leg else None for session in sessions(world)]


def in_progress(world: World) -> int:
    """What `choose` counts as in progress over UDP."""
    counts = world.gateway.ledger._in_progress
    return sum(sum(each.values()) for key, each in counts.items() if key.transport is UDP)


class Failures:
    """An observer of failures of live UDP traffic: the node of each."""

    def __init__(self) -> None:
        self.nodes: list[str] = []

    def __call__(self, before: State, event: Event, after: State) -> None:
        if isinstance(event, ForwardFailed) and event.endpoint.transport is UDP:
            self.nodes.append(event.endpoint.node)
