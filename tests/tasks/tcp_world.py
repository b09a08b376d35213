"""TCP clients, and nodes whose health only traffic and the operator decide, for tests of flows."""

from collections.abc import Mapping

import attrs
import trio
from trio.testing import wait_all_tasks_blocked

from sniffgate.address import Address
from sniffgate.config.schema import Config, GlobalConfig, ListenerConfig, NodeConfig, ProbeKind, Transport, pool_from
from sniffgate.errors import PeerReset
from sniffgate.net.ports import Conn
from sniffgate.net.relay import EndReason
from sniffgate.state.model import Endpoint, Health
from sniffgate.testing.trace import Fate, Kind
from tests.tasks.world import GATEWAY, TCP_PORT, World, node_at

TCP = Transport.TCP
TCP_LISTENER = ListenerConfig(name="tcp", protocol=TCP, listen=Address(GATEWAY, TCP_PORT))
SECOND_LISTENER = ListenerConfig(name="second", protocol=TCP, listen=Address(GATEWAY, TCP_PORT + 1))


def quiet(letter: str, priority: int = 0, **settings: object) -> NodeConfig:
    """A TCP node that is never probed, so that nothing happens to it but what a test does."""
    host = f"10.0.0.{ord(letter) - ord('a') + 1}"
    return node_at(f"node-{letter}", host, priority, **{"udp": None, "probe": ProbeKind.NONE, **settings})


def tcp_config(*nodes: NodeConfig, **globals_: object) -> Config:
    """A configuration for TCP alone, without hedging unless asked for.

    `globals_` are attributes of GlobalConfig, and perhaps `listeners`.
    """
    listeners: tuple[ListenerConfig, ...] = globals_.pop("listeners", (TCP_LISTENER,))  # type: ignore[assignment]
    settings = GlobalConfig(**{"hedge_delay": 0.0, **globals_})  # type: ignore[arg-type]  # GlobalConfig's own
    return Config(globals=settings, listeners=listeners, pools=(pool_from(settings, "default"),), nodes=nodes)


QA, QB, QC, QD = quiet("a", 20), quiet("b", 10), quiet("c"), quiet("d", -10)


async def settled() -> None:
    """Returns when everything that can happen at this moment has happened."""
    await wait_all_tasks_blocked()


async def opened(world: World, count: int = 1, port: int = TCP_PORT) -> list[Conn]:
    """Clients that are connected, each at its node."""
    conns: list[Conn] = []
    for _ in range(count):
        conns.append(await world.client.connect_tcp(Address(GATEWAY, port)))
        await settled()
    return conns


async def echo(conn: Conn, text: bytes = b"hi") -> bytes:
    """Sends and returns the answer."""
    await conn.send_all(text)
    return await conn.receive_some(65536)


async def ending(conn: Conn) -> tuple[str, float]:
    """How and when a connection ended, whatever came before; one that does not within an hour is a failure."""
    try:
        with trio.fail_after(3600):
            while await conn.receive_some(65536):
                pass
    except PeerReset:
        return "reset", trio.current_time()
    return "end of stream", trio.current_time()


@attrs.define
class Endings:
    """Watches connections to their ends."""

    seen: dict[str, tuple[str, float]] = attrs.field(factory=dict)

    async def watch(self, name: str, conn: Conn) -> None:
        """Notes the ending of `conn` under `name`."""
        self.seen[name] = await ending(conn)


def tries(world: World, node: str | None = None) -> int:
    """How many connections the gateway asked for, of one node or of all."""
    destination = None if node is None else world.nodes[node].tcp
    return len(world.network.trace.select(Kind.SYN, Fate.SENT, source=GATEWAY, destination=destination))


def served(world: World) -> Mapping[str, int]:
    """How many clients each node has accepted."""
    return {name: len(node.accepted) for name, node in world.nodes.items()}


def health(world: World, node: str = "node-a") -> Health:
    """The health of a node over TCP."""
    return world.gateway.state.health[Endpoint(node, TCP)]


def endings(world: World) -> Mapping[EndReason, int]:
    """How flows have ended so far."""
    return dict(world.gateway.ledger.endings)


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
