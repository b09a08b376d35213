"""The stage of the demonstration: nodes, a gateway and clients, all running, and the order in which they go."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import attrs
import trio

from ...address import Address
from ...app import serve
from ...config.schema import Config, FlowLogMode, GlobalConfig, ListenerConfig, Transport
from ...state.events import Event
from ...state.model import State
from ...tasks.gateway import Gateway
from .clients import SteadyClient
from .nodes import Node
from .promises import Limits, Promises
from .timeline import Timeline, Voice

# Outside 127.0.0.1, where every connection's own port comes from: else one of those could sit on a dead node's port.
HOSTS = ("127.77.0.1", "127.77.0.2", "127.77.0.3")
TUNING = GlobalConfig(
    admin_listen="",
    flow_log=FlowLogMode.OFF,
    probe_interval=0.1,
    probe_timeout=0.3,
    connect_timeout=0.5,
    drain_timeout=1.0,
)


@attrs.frozen(kw_only=True)
class Stage:
    """Everything that runs, for the script to act on."""

    nodes: tuple[Node, Node, Node]
    gateway: Gateway
    tcp: SteadyClient
    udp: SteadyClient
    timeline: Timeline
    promises: Promises
    limits: Limits
    machines: trio.Nursery  # the nodes
    visitors: trio.Nursery  # the clients

    @property
    def tcp_address(self) -> Address:
        """Where the gateway takes TCP clients."""
        return self.gateway.addresses["tcp"]

    @property
    def clients(self) -> tuple[SteadyClient, SteadyClient]:
        """The two steady clients."""
        return self.tcp, self.udp


@asynccontextmanager
async def open_stage(timeline: Timeline, promises: Promises, limits: Limits) -> AsyncIterator[Stage]:
    """Starts nodes, gateway and clients; ends them in the opposite order. Errors: `NodeDidNotStart`, `CannotBind`."""
    a, b, c = nodes = tuple(
        Node(f"node-{letter}", host, priority)
        for letter, host, priority in zip("abc", HOSTS, (30, 20, 10), strict=True)
    )
    async with trio.open_nursery() as machines:
        async with trio.open_nursery() as starting:
            for node in nodes:
                starting.start_soon(machines.start, node.run)
        for node in nodes:
            timeline.say(Voice.DEMO, f"{node.name} is process {node.pid}, tcp {node.tcp}, udp {node.udp}")
        async with trio.open_nursery() as house:
            observer = partial(_tell_switches, timeline)
            gateway: Gateway = await house.start(partial(serve, observers=(observer,)), config_for(nodes))
            tcp = SteadyClient(gateway.addresses["tcp"], Transport.TCP)
            udp = SteadyClient(gateway.addresses["udp"], Transport.UDP)
            async with trio.open_nursery() as visitors:
                visitors.start_soon(tcp.run)
                visitors.start_soon(udp.run)
                yield Stage(
                    nodes=(a, b, c),
                    gateway=gateway,
                    tcp=tcp,
                    udp=udp,
                    timeline=timeline,
                    promises=promises,
                    limits=limits,
                    machines=machines,
                    visitors=visitors,
                )
                visitors.cancel_scope.cancel()
            gateway.stop(0)
        machines.cancel_scope.cancel()


def config_for(nodes: tuple[Node, ...]) -> Config:
    """What the gateway is told: two listeners on ports that the kernel picks, and the nodes."""
    listen = Address("127.0.0.1", 0)
    return Config(
        globals=TUNING,
        listeners=tuple(
            ListenerConfig(name=transport.value, protocol=transport, listen=listen) for transport in Transport
        ),
        nodes=tuple(node.settings for node in nodes),
    )


def _tell_switches(timeline: Timeline, before: State, event: Event, after: State) -> None:
    for switch in after.switches[len(before.switches) :]:
        words = f"{switch.route.transport.value}: {', '.join(switch.before)} -> {', '.join(switch.after)}"
        why = f"{switch.reason.value}: {switch.detail}" if switch.detail else switch.reason.value
        timeline.say(Voice.GATEWAY, f"{words} ({why})")
