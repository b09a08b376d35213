"""Random histories of clients, faults, operators and reloads: what must be true of UDP sessions in all of them."""

import contextlib
from collections import Counter

import attrs
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from sniffgate.address import Address
from sniffgate.config.schema import NodeConfig, ProbeKind
from sniffgate.errors import CommandRefused
from sniffgate.net.ports import DatagramConn
from sniffgate.testing import Node, VirtualGateway, VirtualNetwork, open_gateway
from tests.tasks.configs import UDP, UDP_DOOR, A, B, C, config_for, with_nodes
from tests.tasks.udp_looking import in_progress, sessions, udp_listener, upstream_sockets

CLIENTS = 4
LONG, IDLE, DRAIN = 1200, 5.0, 3.0
NODES: tuple[NodeConfig, ...] = (
    A,
    attrs.evolve(B, probe=ProbeKind.NONE, tcp=None),
    attrs.evolve(C, udp=Address("c.test", 7000), tcp=None),
)
NAMES = [node.name for node in NODES]

clients, names = st.integers(0, CLIENTS - 1), st.sampled_from(NAMES)
actions = st.one_of(
    st.tuples(st.just("send"), clients, st.sampled_from([8, 8, 519, 520, 3000])),
    st.tuples(st.just("burst"), clients, st.integers(2, 70)),
    st.tuples(st.just("refuse"), names),
    st.tuples(st.just("recover"), names),
    st.tuples(st.sampled_from(["switch", "disable", "enable"]), names),
    st.tuples(st.just("release")),
    st.tuples(st.just("reload"), st.sets(names, min_size=1)),
    st.tuples(st.just("wait"), st.sampled_from([0.0, 0.001, 0.05, 0.3, 0.8, 1.0, 3.0, 5.0])),
)


@attrs.define(eq=False)
class History:
    """One gateway, its clients and all that they have sent."""

    service: VirtualGateway
    network: VirtualNetwork
    nodes: dict[str, Node]
    conns: list[DatagramConn]
    sent: list[bytes] = attrs.field(factory=list)

    async def act(self, action: tuple[object, ...]) -> None:
        """Does one thing, without waiting for what follows from it."""
        gateway = self.service.gateway
        match action:
            case ("send", int(client), int(size)):
                self.send(client, size)
            case ("burst", int(client), int(count)):
                for _ in range(count):
                    self.send(client, 8)
            case ("refuse", str(name)):
                self.nodes[name].refuse(UDP)
            case ("recover", str(name)):
                self.nodes[name].recover()
            case ("wait", float(seconds)):
                await trio.sleep(seconds)
            case ("release",):
                await gateway.release()
            case ("reload", set(kept)):
                await gateway.apply(with_nodes(gateway.state.config, *(each for each in NODES if each.name in kept)))
            case (str(command), str(name)):
                with contextlib.suppress(CommandRefused):  # an unknown node, or one that may not be used
                    await getattr(gateway, command)(name)

    def send(self, client: int, size: int) -> None:
        """One datagram that is like no other."""
        payload = (b"%07d." % len(self.sent)).ljust(size, b"x")
        self.sent.append(payload)
        self.conns[client].send_nowait(payload)

    def check(self) -> None:
        """What holds at every moment."""
        table = sessions(self.service)
        assert len(table) == udp_listener(self.service)._slots.held == self.service.gateway.services.flow_slots.held
        for session in table:
            assert not session.ended
            assert session.opening or session.leg is not None, "nobody looks for a leg"
            assert session.opening or not session.waiting, "stranded datagrams"
            assert session.leg is None or session.leg.session is session

    def received(self) -> Counter[bytes]:
        """How often each datagram of a client was received, by any node."""
        return Counter(each.data for node in self.nodes.values() for each in node.received if each.data != b"\0")


@pytest.mark.virtual
@given(st.lists(actions, max_size=40), st.booleans(), st.booleans())
@settings(max_examples=20)
def test_in_every_history_datagrams_are_accounted_for_and_clients_served_in_the_end(
    history: list[tuple[object, ...]], rebind: bool, fail_open: bool
) -> None:
    """No datagram is doubled or vanishes uncounted, no slot or count leaks, and nobody stays at a dead node."""
    trio.run(play, history, rebind, fail_open, clock=MockClock(autojump_threshold=0))


async def play(history: list[tuple[object, ...]], rebind: bool, fail_open: bool) -> None:
    """Plays one history, then lets everything recover."""
    network = VirtualNetwork()
    network.names["c.test"] = ("10.0.0.13", C.udp.host if C.udp else "")  # nobody at the first one
    network.names.delay = 0.3
    config = config_for(
        *NODES,
        listeners=(UDP_DOOR,),
        udp_rebind_on_switch=rebind,
        fail_open=fail_open,
        udp_session_timeout=IDLE,
        drain_timeout=DRAIN,
        udp_max_sessions=CLIENTS - 1,
        eject_time_max=2.0,
    )
    with trio.fail_after(LONG):
        async with open_gateway(config, network=network) as service:
            named: Node = await service.nursery.start(Node(network, "node-c", "10.0.0.3", tcp=None).serve)
            conns = [service.datagrams() for _ in range(CLIENTS)]
            game = History(service, network, {**service.nodes, "node-c": named}, conns)
            for action in history:
                await game.act(action)
                game.check()
            await recover(game)
            await serve_everyone(game)
            await trio.sleep(IDLE + DRAIN)

            assert 0 == upstream_sockets(service) == in_progress(service) == len(sessions(service))
            game.check()


async def recover(game: History) -> None:
    """Ends every fault and wish, and waits until ejections are over."""
    await trio.sleep(1.0)
    game.check()
    received = game.received()
    assert not [data for data, times in received.items() if times > 1]
    assert len(game.sent) == len(received) + sum(game.service.gateway.ledger.dropped_datagrams.values())
    await game.act(("reload", set(NAMES)))
    for name in NAMES:
        await game.act(("recover", name))
        await game.act(("enable", name))
    await game.act(("release",))
    await trio.sleep(8)


async def serve_everyone(game: History) -> None:
    """Every client has an answer to one datagram, within a look-up."""
    for client, conn in enumerate(game.conns):
        with trio.move_on_after(0.001):
            while True:
                await conn.receive()  # late ones
        game.send(client, 8)
        with trio.fail_after(0.5):
            assert (await conn.receive()).endswith(game.sent[-1])
