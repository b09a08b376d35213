"""What tests of UDP sessions look at: datagrams at the nodes, and the sessions themselves."""

from sniffgate.state.events import Event, ForwardFailed
from sniffgate.state.model import State
from sniffgate.tasks.listener import Listener
from sniffgate.tasks.sessions import Session
from sniffgate.tasks.udp import UdpIntake
from sniffgate.testing import VirtualGateway
from tests.tasks.configs import UDP, UDP_PORT
from tests.tasks.looking import held

PROBE = b"\0"  # what a probe without a payload says


def got(service: VirtualGateway, node: str) -> list[bytes]:
    """The datagrams that a node received from clients."""
    return [each.data for each in service.nodes[node].received if each.transport is UDP and each.data != PROBE]


def ports(service: VirtualGateway, node: str) -> set[int]:
    """The source ports of the datagrams that a node received from clients."""
    received = service.nodes[node].received
    return {each.peer.port for each in received if each.transport is UDP and each.data != PROBE}


def upstream_sockets(service: VirtualGateway) -> int:
    """Open UDP sockets of the gateway, its listener's not counted."""
    return sum(transport is UDP and address.port != UDP_PORT for transport, address in held(service))


def udp_listener(service: VirtualGateway) -> Listener:
    """The UDP listener."""
    return next(each for each in service.gateway.listeners.values() if each.settings.protocol is UDP)


def sessions(service: VirtualGateway) -> list[Session]:
    """The sessions of the UDP listener, longest idle first."""
    intake = udp_listener(service)._intake
    assert isinstance(intake, UdpIntake)
    return list(intake._table)


def places(service: VirtualGateway) -> list[str | None]:
    """The node of each session, longest idle first."""
    return [session.leg.endpoint.node if session.leg else None for session in sessions(service)]


def in_progress(service: VirtualGateway) -> int:
    """What `choose` counts as in progress over UDP."""
    counts = service.gateway.ledger._in_progress
    return sum(sum(each.values()) for key, each in counts.items() if key.transport is UDP)


class Failures:
    """An observer of failures of live UDP traffic: the node of each."""

    def __init__(self) -> None:
        self.nodes: list[str] = []

    def __call__(self, before: State, event: Event, after: State) -> None:
        if isinstance(event, ForwardFailed) and event.endpoint.transport is UDP:
            self.nodes.append(event.endpoint.node)
