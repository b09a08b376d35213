"""What tests of the tasks look at: the wire, the nodes, the books of the gateway and its tasks."""

from collections.abc import Mapping

import attrs
import trio
from trio.testing import wait_all_tasks_blocked

from sniffgate.address import Address
from sniffgate.config.schema import Transport
from sniffgate.net.ports import Conn
from sniffgate.net.relay import EndReason
from sniffgate.testing import VirtualGateway, ending, exact
from sniffgate.testing.trace import Fate, Kind
from tests.tasks.configs import GATEWAY, TCP_PORT


async def opened(service: VirtualGateway, count: int = 1, port: int = TCP_PORT) -> list[Conn]:
    """Clients that are connected, each at its node."""
    conns: list[Conn] = []
    for _ in range(count):
        conns.append(await service.client.connect_tcp(Address(GATEWAY, port)))
        await wait_all_tasks_blocked()
    return conns


@attrs.define
class Endings:
    """Watches connections to their ends."""

    seen: dict[str, tuple[str, float]] = attrs.field(factory=dict)

    async def watch(self, name: str, conn: Conn) -> None:
        """Notes the ending of `conn` under `name`."""
        self.seen[name] = await ending(conn)


# --- the wire ----------------------------------------------------------------------------------------


def tries(service: VirtualGateway, node: str | None = None) -> int:
    """How many connections the gateway asked for, of one node or of all."""
    destination = None if node is None else service.nodes[node].tcp
    return len(service.network.trace.select(Kind.SYN, Fate.SENT, source=GATEWAY, destination=destination))


def syns(service: VirtualGateway, host: str) -> list[float]:
    """When TCP connections from the gateway to `host` were begun, retries of the kernel not counted."""
    seen: dict[Address, float] = {}
    for record in service.network.trace.select(Kind.SYN, Fate.SENT, source=GATEWAY, destination=host):
        seen.setdefault(record.source, exact(record.time))
    return list(seen.values())


def datagrams(service: VirtualGateway, host: str) -> list[float]:
    """When datagrams were sent from the gateway to `host`."""
    sent = service.network.trace.select(Kind.DATAGRAM, Fate.SENT, source=GATEWAY, destination=host)
    return [exact(record.time) for record in sent]


def held(service: VirtualGateway, to: str | None = None) -> list[tuple[Transport, Address]]:
    """The sockets that the gateway's machine holds, or those to one host."""
    return service.network.host(GATEWAY).open_sockets(to)


# --- the books ---------------------------------------------------------------------------------------


def served(service: VirtualGateway) -> Mapping[str, int]:
    """How many clients each node has accepted."""
    return {name: len(node.accepted) for name, node in service.nodes.items()}


def endings(service: VirtualGateway) -> Mapping[EndReason, int]:
    """How flows have ended so far."""
    return dict(service.gateway.ledger.endings)


def gateway_tasks() -> set[trio.lowlevel.Task]:
    """Every task of this run that is a gateway's."""
    found, todo = set(), [trio.lowlevel.current_root_task()]
    while todo:
        task = todo.pop()
        assert task is not None
        if task.name.startswith(("sniffgate.tasks", "sniffgate.net")):
            found.add(task)
        todo += [child for nursery in task.child_nurseries for child in nursery.child_tasks]
    return found
