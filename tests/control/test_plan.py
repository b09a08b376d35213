"""What a plan says is what the gateway then does: on the virtual network, for any configuration and history."""

import json
from collections import Counter

import attrs
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from sniffgate.address import Address
from sniffgate.cli.plan_report import plan_of
from sniffgate.config.schema import Config, Failback, ListenerConfig, NodeConfig, ProbeKind, Strategy, Transport
from sniffgate.control.snapshot import snapshot_line
from sniffgate.errors import CommandRefused
from sniffgate.net.ports import Conn, DatagramConn
from sniffgate.state.model import Endpoint, Mark, State
from sniffgate.state.plan import Deed, Plan
from sniffgate.state.serial import state_from_json
from sniffgate.state.terms import LeaseKind
from sniffgate.tasks.gateway import Gateway
from sniffgate.tasks.leases import Lease
from sniffgate.testing import VirtualGateway, open_gateway
from tests.tasks.configs import GATEWAY, config_for

TCP, UDP = Transport.TCP, Transport.UDP
LETTERS = "abc"
POOLS = st.sampled_from(("default", "default", "default", "other"))


@st.composite
def nodes(draw: st.DrawFn, letter: str) -> NodeConfig:
    """A node that can be served on the virtual network; sometimes at its other port."""
    address = Address(f"10.0.0.{LETTERS.index(letter) + 1}", draw(st.sampled_from((7000, 7000, 7000, 7001))))
    kind = draw(st.sampled_from(("both", "both", "tcp", "udp")))
    return NodeConfig(
        name=f"node-{letter}",
        pool=draw(POOLS),
        enabled=draw(st.sampled_from((True, True, True, False))),
        priority=draw(st.integers(0, 2)),
        weight=draw(st.integers(0, 2)),
        tcp=None if kind == "udp" else address,
        udp=None if kind == "tcp" else address,
        probe=draw(st.sampled_from((ProbeKind.AUTO, ProbeKind.AUTO, ProbeKind.NONE))),
    )


@st.composite
def listeners(draw: st.DrawFn) -> tuple[ListenerConfig, ...]:
    """Some of four addresses, under one name or another, for one pool or the other."""
    found = []
    for number, protocol in enumerate((TCP, TCP, UDP, UDP)):
        if draw(st.sampled_from((True, True, False))):
            name = f"{protocol.value}-{number}{draw(st.sampled_from(('', '', '-renamed')))}"
            place = Address(GATEWAY, 80 + number)
            found.append(ListenerConfig(name=name, protocol=protocol, listen=place, pool=draw(POOLS)))
    return tuple(found)


@st.composite
def configs(draw: st.DrawFn) -> Config:
    """A configuration of up to three nodes and four listeners."""
    return config_for(
        *[draw(nodes(letter)) for letter in LETTERS if draw(st.sampled_from((True, True, True, False)))],
        listeners=draw(listeners()),
        strategy=draw(st.sampled_from((Strategy.PRIORITY, Strategy.PRIORITY, *Strategy))),
        drain_timeout=draw(st.sampled_from((0.0, 2.0, 10.0, float("inf")))),
        failback_drain_timeout=draw(st.sampled_from((None, 3.0))),
        failback=draw(st.sampled_from(Failback)),
        move_together=draw(st.booleans()),
        fail_open=draw(st.booleans()),
        udp_rebind_on_switch=draw(st.booleans()),
    )


@st.composite
def reloads(draw: st.DrawFn, config: Config) -> Config:
    """A whole new file, or the old one with a change."""
    if draw(st.booleans()):
        return draw(configs())
    kept = [node if draw(st.booleans()) else draw(nodes(node.name[-1])) for node in config.nodes]
    moved = tuple(attrs.evolve(each, pool=draw(POOLS)) for each in config.listeners)
    doors = draw(st.sampled_from((config.listeners, moved, moved[1:])))
    return attrs.evolve(config, nodes=tuple(kept), listeners=doors, pools=())


Steps = list[tuple[str, str, float]]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(("open", "open", "open", "kill", "recover", "switch", "disable", "enable", "down", "auto")),
        st.sampled_from(LETTERS),
        st.sampled_from((0.0, 0.0, 0.3, 2.0)),
    ),
    max_size=8,
)


@attrs.define(eq=False)
class Played:
    """A gateway's service with the clients that its history has left."""

    service: VirtualGateway
    clients: list[Conn | DatagramConn] = attrs.field(factory=list)

    async def step(self, what: str, letter: str, pause: float) -> None:
        """One thing that happens, and a pause."""
        gateway, name = self.service.gateway, f"node-{letter}"
        node = self.service.nodes.get(name)
        try:
            match what:
                case "open":
                    await self.open_everywhere()
                case "kill" if node is not None:
                    node.kill()
                case "recover" if node is not None:
                    node.recover()
                case "switch":
                    await gateway.switch(name)
                case "disable":
                    await gateway.disable(name)
                case "enable":
                    await gateway.enable(name)
                case "down" | "auto":
                    await gateway.mark(name, Mark.DOWN if what == "down" else None)
        except CommandRefused:
            pass  # an operator may ask for anything
        await trio.sleep(pause)

    async def open_everywhere(self) -> None:
        """One more client at each listener."""
        for listener in self.service.state.config.listeners:
            if listener.protocol is TCP:
                self.clients.append(await self.service.client.connect_tcp(listener.listen))
            else:
                port = self.service.client.connect_udp(listener.listen)
                port.send_nowait(b"hi")
                self.clients.append(port)
            await wait_all_tasks_blocked()


def doors(service: VirtualGateway) -> set[tuple[Transport, str]]:
    """The sockets that the gateway's machine listens at."""
    return {(kind, str(place)) for kind, place in service.network.host(GATEWAY).listening()}


def leases_of(gateway: Gateway) -> list[tuple[Transport, bool, Lease]]:
    """Every lease with its listener's protocol, and whether that listener leaves."""
    found = [(each.settings.protocol, False, lease) for each in gateway.listeners.values() for lease in each.leases]
    return found + [(each.settings.protocol, True, lease) for each in gateway.leaving for lease in each.leases]


def retiring(gateway: Gateway) -> set[Lease]:
    """The leases that drain."""
    return {lease for *_, lease in leases_of(gateway) if lease.terms.kind is LeaseKind.RETIRING}


def check_nodes_and_routes(plan: Plan, before: State, after: State) -> None:
    """Who came, went and is active."""
    was, will = ({node.name for node in state.config.nodes} for state in (before, after))
    assert will - was == {each.name for each in plan.nodes if each.deed is Deed.ADD}
    assert was - will == {each.name for each in plan.nodes if each.deed is Deed.REMOVE}
    told = {each.route: (each.before, each.after) for each in plan.routes}
    for key in before.routes.keys() | after.routes.keys():
        sets = tuple(state.routes[key].active if key in state.routes else () for state in (before, after))
        assert (sets if sets[0] != sets[1] else None) == told.get(key)
    for each in plan.nodes:
        if each.deed is Deed.CHANGE:
            assert all(
                before.health[endpoint].verdict is after.health[endpoint].verdict
                for endpoint in after.config.endpoints
                if endpoint.node == each.name and endpoint in before.health
            )


def check_flows(plan: Plan, gateway: Gateway, drained_before: set[Lease], closed: set[str]) -> None:
    """Whose flows retire, how many, and by when.

    UDP sessions that move, and those of a closed door, are let go as soon as they wait for no answer: at most as told.
    """
    moves = gateway.state.config.globals.udp_rebind_on_switch
    said: Counter[tuple[Endpoint, float]] = Counter()
    most: Counter[Endpoint] = Counter()
    for each in plan.draining:
        if each.endpoint.transport is UDP and (moves or each.listener in closed):
            most[each.endpoint] += each.flows
        elif each.timeout:  # what is cut at once leaves nothing to see
            said[each.endpoint, each.timeout] += each.flows
    done: Counter[tuple[Endpoint, float]] = Counter()
    now = gateway.services.clock.now()
    for protocol, leaves, lease in leases_of(gateway):
        if lease in drained_before or not lease.flows or lease.terms.kind is not LeaseKind.RETIRING:
            continue
        if protocol is UDP and (moves or leaves):
            most[lease.endpoint] -= lease.flows
            assert most[lease.endpoint] >= 0
        else:
            done[lease.endpoint, round(lease.terms.deadline - now, 6)] += lease.flows
    assert said == done


async def play(config: Config, steps: Steps, new: Config) -> None:
    """Lives through the history, plans, applies, and compares."""
    async with open_gateway(config) as service:
        played = Played(service)
        await trio.sleep(0.5)
        for step in [*steps, ("open", "a", 0.0)]:
            await played.step(*step)
        await wait_all_tasks_blocked()
        gateway, before, held, drained = (
            service.gateway,
            service.state,
            doors(service),
            retiring(service.gateway),
        )
        reply = json.loads(await snapshot_line(gateway))
        plan = plan_of(reply, state_from_json(json.dumps(reply["state"])), new)

        after = await gateway.apply(new)
        check_nodes_and_routes(plan, before, after)
        await wait_all_tasks_blocked()
        check_flows(plan, gateway, drained, {each.name for each in plan.listeners if each.deed is Deed.CLOSE})
        await trio.sleep(1.0)  # a closed UDP port is kept for answers that are under way
        bound, closed = (
            {(each.protocol, each.address) for each in plan.listeners if each.deed is deed}
            for deed in (Deed.BIND, Deed.CLOSE)
        )
        assert (held | bound) - closed == doors(service)
        assert (set(), closed) == (held & bound, held & closed)
        for client in played.clients:
            client.close()


@pytest.mark.virtual
@given(data=st.data())
def test_what_the_plan_says_is_what_apply_does(data: st.DataObject) -> None:
    """An operator who trusts it puts a file in force at noon: sockets, nodes, active sets and drained flows."""
    config = data.draw(configs())
    steps, new = data.draw(STEPS), data.draw(reloads(config))
    trio.run(play, config, steps, new, clock=MockClock(autojump_threshold=0))
