"""A gateway on the virtual network with its nodes, for tests of the tasks."""

import contextlib
import random
from collections.abc import AsyncIterator, Callable, Mapping

import attrs
import trio

from sniffgate.address import Address
from sniffgate.config.schema import Config, GlobalConfig, ListenerConfig, NodeConfig, PoolConfig, Transport, pool_from
from sniffgate.net.ports import Conn, DatagramConn, Network
from sniffgate.net.relay import Relay
from sniffgate.net.relay_tasks import TaskRelay
from sniffgate.net.resolver import Resolver
from sniffgate.tasks.flow_log import FlowLog
from sniffgate.tasks.gateway import Gateway, run_gateway
from sniffgate.tasks.hub import Observer
from sniffgate.testing.backends import Node
from sniffgate.testing.virtual import VirtualHost, VirtualNetwork

GATEWAY = "10.0.0.254"
CLIENT = "10.0.0.9"
TCP_PORT = 80
UDP_PORT = 53


class NoJitter(random.Random):
    """Dice that always show the middle, so that probes come to the exact second."""

    def uniform(self, a: float, b: float) -> float:
        """The middle."""
        return (a + b) / 2


def config_for(
    *nodes: NodeConfig,
    pools: tuple[PoolConfig, ...] = (),
    listeners: tuple[ListenerConfig, ...] | None = None,
    **globals_: object,
) -> Config:
    """A configuration with one TCP and one UDP listener and the given nodes.

    `globals_` are attributes of GlobalConfig.
    """
    settings = GlobalConfig(**globals_)  # type: ignore[arg-type]  # names and types are GlobalConfig's own
    if listeners is None:
        listeners = (
            ListenerConfig(name="tcp", protocol=Transport.TCP, listen=Address(GATEWAY, TCP_PORT)),
            ListenerConfig(name="udp", protocol=Transport.UDP, listen=Address(GATEWAY, UDP_PORT)),
        )
    if not pools:
        pools = (pool_from(settings, "default"),)
    return Config(globals=settings, listeners=listeners, pools=pools, nodes=nodes)


def node_at(name: str, host: str, priority: int = 0, **settings: object) -> NodeConfig:
    """A node with both addresses, on port 7000 of `host`."""
    addresses: dict[str, object] = {"tcp": Address(host, 7000), "udp": Address(host, 7000)}
    return NodeConfig(name=name, priority=priority, **{**addresses, **settings})  # type: ignore[arg-type]


A, B, C = (node_at(f"node-{letter}", f"10.0.0.{number}", 30 - 10 * number) for number, letter in enumerate("abc", 1))


@attrs.define(eq=False)
class World:
    """A running gateway, its nodes, and a client machine."""

    network: VirtualNetwork
    client: VirtualHost
    gateway: Gateway
    nodes: Mapping[str, Node]
    nursery: trio.Nursery
    flows: list[str]
    crashes: int = 0  # how many contained crashes the test has provoked

    async def connect(self) -> Conn:
        """A TCP connection of the client to the gateway."""
        return await self.client.connect_tcp(Address(GATEWAY, TCP_PORT))

    def datagrams(self) -> DatagramConn:
        """A UDP socket of the client, connected to the gateway."""
        return self.client.connect_udp(Address(GATEWAY, UDP_PORT))

    async def ask(self, text: bytes = b"hi") -> bytes:
        """Connects, sends `text` and returns the first answer: `name:text` of the node that got it."""
        with await self.connect() as conn:
            await conn.send_all(text)
            return await conn.receive_some(1000)


@contextlib.asynccontextmanager
async def running(
    config: Config,
    *,
    network: VirtualNetwork | None = None,
    through: Callable[[VirtualHost], Network] = lambda host: host,
    relay: Relay | None = None,
    observers: tuple[Observer, ...] = (),
    max_flows: int | None = None,
    dice: random.Random | None = None,
) -> AsyncIterator[World]:
    """A gateway for `config`, with a backend for every node at a literal address.

    `through` may put something between the gateway and its network. Fails if anything in the gateway crashed, unless
    the test says so in `World.crashes`.
    """
    network = network or VirtualNetwork()
    flows: list[str] = []
    nodes = {}
    async with trio.open_nursery() as nursery:
        for each in config.nodes:
            address = each.tcp or each.udp
            assert address is not None
            if address.is_literal:
                node = Node(
                    network,
                    each.name,
                    address.host,
                    tcp=each.tcp.port if each.tcp else None,
                    udp=each.udp.port if each.udp else None,
                )
                await nursery.start(node.serve)
                nodes[each.name] = node
        host = network.host(GATEWAY)
        names = Resolver(host.look_up)

        async def gateway_task(*, task_status: trio.TaskStatus[Gateway]) -> None:
            await run_gateway(
                config,
                network=through(host),
                names=names,
                relay=relay or TaskRelay(),
                dice=dice or NoJitter(),
                observers=observers,
                max_flows=max_flows,
                flow_log=FlowLog(config.globals.flow_log, flows.append),
                task_status=task_status,
            )

        gateway: Gateway = await nursery.start(gateway_task)
        world = World(network, network.host(CLIENT), gateway, nodes, nursery, flows)
        yield world
        names.close()
        assert world.crashes == gateway.ledger.crashes, gateway.services.crashes
        nursery.cancel_scope.cancel()
