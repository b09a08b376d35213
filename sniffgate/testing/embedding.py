"""A gateway inside a test, with or without pytest: on the virtual network, or on this machine's loopback.

    async with open_gateway(config) as gateway:            # virtual: run it with a MockClock
        with gateway.nodes["node-a"].kill():
            await expect_active(gateway, "node-b", within=0.2)

What fails in the block leaves it in an exception group, as from any nursery.
"""

import contextlib
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

import attrs
import trio

from ..address import Address
from ..app import serve
from ..config.schema import Config, NodeConfig
from ..net.ports import Network
from ..net.relay import Relay
from ..net.relay_tasks import TaskRelay
from ..net.resolver import Resolver
from ..net.sockets import SocketNetwork
from ..tasks.flow_log import FlowLog
from ..tasks.gateway import Gateway, run_gateway
from ..tasks.hub import Observer
from .backends import Node
from .known import Known
from .real_node import RealNode
from .scripts import SCRIPTS, Script, check_scripts
from .subject import RealGateway, VirtualGateway
from .timeline import Timeline
from .virtual import VirtualHost, VirtualNetwork

LOOPBACK = Address("127.0.0.1", 0)
CLIENT = "192.0.2.9"  # the machine of `GatewayUnderTest.client` on the virtual network


class NoJitter(random.Random):
    """Dice that always show the middle, so that probes come to the exact second."""

    def uniform(self, a: float, b: float) -> float:
        """The middle."""
        return (a + b) / 2


@contextlib.asynccontextmanager
async def open_gateway(
    config: Config,
    network: VirtualNetwork | None = None,
    *,
    scripts: Mapping[str, str | Script] | None = None,
    serve_nodes: bool = True,
    host: str | None = None,
    path: str = "",
    observers: Sequence[Observer] = (),
    max_flows: int | None = None,
    dice: random.Random | None = None,
    relay: Relay | None = None,
    through: Callable[[VirtualHost], Network] = lambda host: host,
) -> AsyncIterator[VirtualGateway]:
    """A gateway for `config` on a virtual network, `network` or a new one; its probes come to the exact second.

    Unless told not to `serve_nodes`, it starts a backend for each node with a literal address; `scripts` says by which
    script each answers (where it is not mentioned, as "echo" and with its `reply`). The gateway's machine is the one
    that has the listeners' addresses, or `host`. `path`, `observers` and `max_flows` are those of `serve`. `dice`
    decide instead of `NoJitter`, `relay` carries instead of the portable one, and what `through` makes of the machine
    is the network that the gateway gets (see `Detour`). Leaving the block ends everything at once.
    Errors: `UnknownName` for a script or node that is not there; `CannotBind`; `GatewayCrashed` at the end of a block
    that otherwise succeeded.
    """
    network = network or VirtualNetwork()
    machine = network.host(host) if host else _machine_for(config, network)
    names = Resolver(machine.look_up)
    timeline, flow_lines = Timeline(), list[str]()
    check_scripts(scripts or {}, [each.name for each in config.nodes])
    nodes = Known("node", _virtual_nodes(config, network, scripts or {}) if serve_nodes else {})
    async with trio.open_nursery() as nursery:
        for node in nodes.values():
            await nursery.start(node.serve)
        ended = trio.Event()

        async def run(*, task_status: trio.TaskStatus[Gateway]) -> None:
            try:
                await run_gateway(
                    config,
                    network=through(machine),
                    names=names,
                    relay=relay or TaskRelay(),
                    dice=dice or NoJitter(),
                    observers=[timeline.observe, *observers],
                    path=path,
                    max_flows=max_flows,
                    flow_log=FlowLog(config.globals.flow_log, flow_lines.append),
                    task_status=task_status,
                )
            finally:
                names.close()
                ended.set()

        gateway: Gateway = await nursery.start(run)
        subject = VirtualGateway(
            gateway=gateway,
            client=network.host(CLIENT),
            timeline=timeline,
            nursery=nursery,
            nodes=nodes,
            ended=ended,
            network=network,
            flow_log=flow_lines,
            host=machine.address,
        )
        yield subject
        nursery.cancel_scope.cancel()
    subject.fail_on_crashes()


@contextlib.asynccontextmanager
async def open_real_gateway(
    config: Config, *, scripts: Mapping[str, str] | None = None, serve_nodes: bool = True
) -> AsyncIterator[RealGateway]:
    """A gateway for `config` on this machine's loopback: each listener is on a free port of 127.0.0.1.

    Unless told not to `serve_nodes`, each node is started as a process of its own, on free ports, whatever its address
    is in `config`. So what runs on the virtual network runs here too, in real time. *Closes:* those processes. Errors:
    as `open_gateway`.
    """
    check_scripts(scripts or {}, [each.name for each in config.nodes])
    timeline = Timeline()
    listeners = tuple(attrs.evolve(listener, listen=LOOPBACK) for listener in config.listeners)
    config = attrs.evolve(config, listeners=listeners)
    with contextlib.ExitStack() as processes:
        nodes = Known[RealNode]("node")
        async with trio.open_nursery() as nursery:
            if serve_nodes:
                for each in config.nodes:
                    script = (scripts or {}).get(each.name, "echo")
                    node = RealNode(each.name, script, tcp=each.tcp is not None, udp=each.udp is not None)
                    nodes[each.name] = processes.enter_context(node)
                for node in nodes.values():
                    await node.wait_ready()
                config = attrs.evolve(config, nodes=tuple(_moved(each, nodes[each.name]) for each in config.nodes))
            ended = trio.Event()

            async def run(*, task_status: trio.TaskStatus[Gateway]) -> None:
                try:
                    await serve(config, observers=[timeline.observe], task_status=task_status)
                finally:
                    ended.set()

            gateway: Gateway = await nursery.start(run)
            subject = RealGateway(
                gateway=gateway,
                client=SocketNetwork(),
                timeline=timeline,
                nursery=nursery,
                nodes=nodes,
                ended=ended,
            )
            yield subject
            nursery.cancel_scope.cancel()
    subject.fail_on_crashes()


def _machine_for(config: Config, network: VirtualNetwork) -> VirtualHost:
    """The gateway's machine: the one that has the listeners' addresses."""
    hosts = [each.listen.host for each in config.listeners if each.listen.is_literal and not each.listen.is_wildcard]
    foreign = dict.fromkeys(host for host in hosts if not host.startswith("127.") and host != "::1")
    return network.host(*foreign) if foreign else network


def _virtual_nodes(config: Config, network: VirtualNetwork, scripts: Mapping[str, str | Script]) -> dict[str, Node]:
    hosts = {
        each.name: {address.host for address in (each.tcp, each.udp) if address is not None and address.is_literal}
        for each in config.nodes
    }
    taken = [host for found in hosts.values() for host in found]
    taken += [listener.listen.host for listener in config.listeners]
    nodes = {}
    for each in config.nodes:
        if len(hosts[each.name]) == 1:
            (host,) = hosts[each.name]
            tcp = each.tcp.port if each.tcp is not None and each.tcp.host == host else None
            udp = each.udp.port if each.udp is not None and each.udp.host == host else None
            shared = taken.count(host) > 1 or host.startswith("127.") or host == "::1"
            script = scripts.get(each.name)
            script = SCRIPTS[script] if isinstance(script, str) else script
            nodes[each.name] = Node(network, each.name, host, tcp=tcp, udp=udp, script=script, shares_host=shared)
    return nodes


def _moved(node: NodeConfig, real: RealNode) -> NodeConfig:
    return attrs.evolve(node, tcp=real.tcp, udp=real.udp)
