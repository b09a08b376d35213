"""A TCP client on its way to a node: tries, retries, evidence, and what its node and it learn of each other's end."""

import math

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from sniffgate.address import Address
from sniffgate.config.schema import FlowLogMode, ProbeKind
from sniffgate.errors import PeerReset
from sniffgate.net.relay import EndReason
from sniffgate.state.model import Endpoint, Mark, Verdict
from sniffgate.testing import Node, VirtualNetwork, ending, exchange, open_gateway
from sniffgate.testing.fabric import Buffers
from sniffgate.testing.trace import Fate, Kind
from tests.tasks.configs import GATEWAY, QA, QB, QC, QD, TCP, TCP_PORT, quiet, tcp_config
from tests.tasks.looking import endings, opened, served, tries

# --- tries ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("retry", [1, 2, 4])
async def test_no_more_than_connect_retry_nodes_are_tried(retry: int, autojump_clock: MockClock) -> None:
    """A client must not wait for every node of a dead site, and is told at once when there is none."""
    async with open_gateway(tcp_config(QA, QB, QC, QD, connect_retry=retry)) as service:
        for node in service.nodes.values():
            node.kill()
        conn = await service.connect()

        assert ("reset", 0.0) == await ending(conn)
        assert retry == tries(service)
        assert {EndReason.NO_NODE: 1} == endings(service)


async def test_all_different_nodes_failed_resets_the_client(autojump_clock: MockClock) -> None:
    """With fewer nodes than tries no node is tried twice."""
    async with open_gateway(tcp_config(QA, QB, connect_retry=9)) as service:
        for node in service.nodes.values():
            node.kill()

        assert ("reset", 0.0) == await ending(await service.connect())
        assert (1, 1) == (tries(service, "node-a"), tries(service, "node-b"))


async def test_a_refusal_moves_on_at_once(autojump_clock: MockClock) -> None:
    """The client must not notice."""
    async with open_gateway(tcp_config(QA, QB)) as service:
        service.nodes["node-a"].kill()

        assert b"node-b:hi" == await service.ask()
        assert 0.0 == trio.current_time()
        assert 1 == service.gateway.ledger.of(Endpoint("node-a", TCP)).failed


async def test_a_silent_node_is_given_up_after_the_connect_timeout(autojump_clock: MockClock) -> None:
    """Exactly so long, and then the next one has the client, with all that it said."""
    config = tcp_config(QA, QB, connect_timeout=1.5)
    async with open_gateway(config) as service:
        service.nodes["node-a"].black_hole()

        assert b"node-b:hi" == await service.ask()
        assert 1.5 == trio.current_time()
        assert 1 == len(service.health("node-a").window)


@pytest.mark.parametrize(("fault", "delay"), [("kill", 0.0), ("black_hole", 0.25)])
async def test_the_addresses_of_a_name_are_one_node(fault: str, delay: float, autojump_clock: MockClock) -> None:
    """A dead first address costs a moment, no try, and is no evidence against the node."""
    network = VirtualNetwork()
    network.names["two.example"] = ["10.0.0.51", "10.0.0.52"]
    named = quiet("a", 20, tcp=Address("two.example", 7000))
    config = tcp_config(named, QB, connect_retry=1)
    async with open_gateway(config, network=network) as service:
        first, second = Node(network, "first", "10.0.0.51"), Node(network, "second", "10.0.0.52")
        await service.nursery.start(first.serve)
        await service.nursery.start(second.serve)
        getattr(first, fault)()

        assert b"second:hi" == await service.ask()
        assert delay == trio.current_time()
        assert 0 == len(service.health("node-a").window)
        assert 0 == served(service)["node-b"]


async def test_a_name_without_an_address_is_passed_over_without_evidence(autojump_clock: MockClock) -> None:
    """DNS being down says nothing about the node."""
    named = quiet("a", 20, tcp=Address("nowhere.example", 7000))
    async with open_gateway(tcp_config(named, QB)) as service:
        before = service.health("node-a")

        assert b"node-b:hi" == await service.ask()
        assert 0.0 == trio.current_time()
        assert before == service.health("node-a")


async def test_a_name_that_takes_too_long_is_passed_over_without_evidence(autojump_clock: MockClock) -> None:
    """A slow resolver must not eject the nodes behind it."""
    network = VirtualNetwork()
    network.names["slow.example"] = ["10.0.0.51"]
    network.names.delay = 100.0
    named = quiet("a", 20, tcp=Address("slow.example", 7000))
    config = tcp_config(named, QB, connect_timeout=3.0)
    async with open_gateway(config, network=network) as service:
        before = service.health("node-a")

        assert b"node-b:hi" == await service.ask()
        assert 3.0 == trio.current_time()
        assert before == service.health("node-a")


async def test_our_own_shortage_is_no_evidence(autojump_clock: MockClock) -> None:
    """A gateway without a free port must not blame its nodes."""
    network = VirtualNetwork(ports=range(40000, 40001))
    async with open_gateway(tcp_config(QA, QB), network=network) as service:
        before = dict(service.state.health)
        (holder,) = await opened(service)
        other = await network.host("10.0.0.8").connect_tcp(Address(GATEWAY, TCP_PORT))

        assert ("reset", 0.0) == await ending(other)
        assert {EndReason.LOCAL_SHORTAGE: 1} == endings(service)
        assert {"connect": 2} == dict(service.gateway.ledger.shortages)
        assert before == service.state.health
        assert b"node-a:hi" == await exchange(holder)


async def test_a_node_of_which_not_every_address_could_be_tried_is_not_blamed(autojump_clock: MockClock) -> None:
    """The address that we had no port for might have worked."""
    network = VirtualNetwork(ports=range(40000, 40001))
    network.names["two.example"] = ["10.0.0.51", "10.0.0.52"]
    network.black_hole("10.0.0.51")
    named = quiet("a", 20, tcp=Address("two.example", 7000))
    async with open_gateway(tcp_config(named, QB, connect_timeout=2.0), network=network) as service:
        before = service.health("node-a")

        assert b"node-b:hi" == await service.ask()
        assert 2.0 == trio.current_time()
        assert before == service.health("node-a")


# --- before there is a node -----------------------------------------------------------------------


async def test_nothing_is_read_from_a_client_before_its_node_is_connected(autojump_clock: MockClock) -> None:
    """The kernel's buffer is the bound, and what was sent early arrives once, at one node."""
    network = VirtualNetwork(buffers=Buffers(receive=100))
    config = tcp_config(QA, QB, connect_timeout=2.0)
    async with open_gateway(config, network=network) as service:
        service.nodes["node-a"].black_hole()
        service.nodes["node-b"].reply = lambda _: None
        conn = await service.connect()
        await conn.send_all(bytes(range(250)))
        await trio.sleep(1.0)
        assert 150 == conn.unsent()

        await trio.sleep(2.0)
        assert bytes(range(250)) == service.nodes["node-b"].data()
        assert b"" == service.nodes["node-a"].data()


async def test_a_client_that_resets_while_a_node_hangs_is_given_up(autojump_clock: MockClock) -> None:
    """No other node is troubled for a client that is gone."""
    config = tcp_config(QA, QB, connect_timeout=2.0)
    async with open_gateway(config) as service:
        service.nodes["node-a"].black_hole()
        (conn,) = await opened(service)
        await conn.send_all(b"hello")
        conn.abort()
        await trio.sleep(3.0)

        assert {EndReason.CLIENT_GONE: 1} == endings(service)
        assert 0 == tries(service, "node-b")


@pytest.mark.parametrize("retry", [1, 3])
async def test_a_client_that_reset_meanwhile_costs_the_node_no_byte(retry: int, autojump_clock: MockClock) -> None:
    """The node finds out that nobody is there; the last try counts as any other."""
    async with open_gateway(tcp_config(QA, connect_retry=retry)) as service:
        service.network.set_latency(0.5, "10.0.0.1")
        (conn,) = await opened(service)
        await conn.send_all(b"hello")
        conn.abort()
        await trio.sleep(3.0)

        assert {EndReason.CLIENT_GONE: 1} == endings(service)
        assert (1, b"") == (served(service)["node-a"], service.nodes["node-a"].data())
        assert [] == service.nodes["node-a"].conns


async def test_a_client_whose_node_falls_by_probes_while_connecting_is_routed_again(
    autojump_clock: MockClock,
) -> None:
    """It moves in the moment the others do, not when its own patience ends."""
    nodes = (attrs.evolve(QA, probe=ProbeKind.TCP), attrs.evolve(QB, probe=ProbeKind.TCP))
    config = tcp_config(*nodes, connect_timeout=60.0, connect_retry=1)
    async with open_gateway(config) as service:
        await trio.sleep(5.5)
        service.nodes["node-a"].black_hole()

        assert b"node-b:hi" == await service.ask()
        assert Verdict.UNHEALTHY is service.health("node-a").verdict
        assert service.health("node-a").since == trio.current_time() < 10.0
        assert 0 == service.gateway.ledger.of(Endpoint("node-a", TCP)).failed


@pytest.mark.parametrize("what", ["mark", "disable", "drain", "remove", "readdress"])
async def test_a_client_whose_node_is_taken_away_while_connecting_is_routed_again(
    what: str, autojump_clock: MockClock
) -> None:
    """The operator's word reaches clients that wait, and costs them no try."""
    config = tcp_config(QA, QB, connect_timeout=60.0, connect_retry=1)
    async with open_gateway(config) as service, trio.open_nursery() as nursery:
        service.nodes["node-a"].black_hole()

        async def act() -> None:
            await trio.sleep(1.25)
            if what == "mark":
                await service.mark("node-a", Mark.DOWN)
            elif what == "disable":
                await service.disable("node-a")
            elif what == "drain":
                await service.drain("node-a", math.inf)
            elif what == "remove":
                await service.apply(attrs.evolve(config, nodes=(QB,)))
            else:
                elsewhere = attrs.evolve(QA, tcp=Address("10.0.0.77", 7000), priority=0)
                await service.apply(attrs.evolve(config, nodes=(elsewhere, QB)))

        nursery.start_soon(act)
        assert b"node-b:hi" == await service.ask()
        assert 1.25 == trio.current_time()


async def test_fail_open_tries_nodes_that_should_not_work(autojump_clock: MockClock) -> None:
    """Evidence may be wrong, and a refused client is lost for sure."""
    async with open_gateway(tcp_config(QA, QB, fail_open=True)) as service:
        await service.mark("node-a", Mark.DOWN)
        await service.mark("node-b", Mark.DOWN)

        assert b"node-a:hi" == await service.ask()


async def test_without_fail_open_a_client_is_reset_and_counted(autojump_clock: MockClock) -> None:
    """Who forbids it does not want the client served by a node that is down."""
    async with open_gateway(tcp_config(QA, fail_open=False)) as service:
        await service.mark("node-a", Mark.DOWN)

        assert ("reset", 0.0) == await ending(await service.connect())
        assert {EndReason.NO_NODE: 1} == endings(service)
        assert 0 == tries(service)


# --- the ends of a flow ---------------------------------------------------------------------------


async def test_a_half_closed_client_gets_its_answer_and_its_end_of_stream(autojump_clock: MockClock) -> None:
    """Clients that say all first, as `nc -N` does, are ordinary clients."""
    config = tcp_config(QA, flow_log=FlowLogMode.ALL)
    async with open_gateway(config) as service:
        conn = await service.connect()
        await conn.send_all(b"all I have to say")
        await conn.send_eof()

        assert b"node-a:all I have to say" == await conn.receive_some(1000)
        assert b"" == await conn.receive_some(1000)
        await wait_all_tasks_blocked()
        assert {EndReason.COMPLETE: 1} == endings(service)
        assert ["up=17 down=24"] == [" ".join(line.split()[4:6]) for line in service.flow_log]


async def test_a_nodes_reset_reaches_the_client_as_a_reset(autojump_clock: MockClock) -> None:
    """After all that the node had sent."""
    async with open_gateway(tcp_config(QA)) as service:
        (conn,) = await opened(service)
        await conn.send_all(b"hi")
        await wait_all_tasks_blocked()
        service.nodes["node-a"].reset_clients()
        await wait_all_tasks_blocked()

        assert b"node-a:hi" == await conn.receive_some(1000)
        with pytest.raises(PeerReset):
            await conn.receive_some(1000)
        assert {EndReason.NODE_RESET: 1} == endings(service)


async def test_a_clients_reset_reaches_the_node_as_a_reset(autojump_clock: MockClock) -> None:
    """An end of stream would say that the client had finished."""
    async with open_gateway(tcp_config(QA)) as service:
        (conn,) = await opened(service)
        assert b"node-a:hi" == await exchange(conn)
        conn.abort()
        await wait_all_tasks_blocked()

        assert {EndReason.CLIENT_RESET: 1} == endings(service)
        assert 1 == len(service.network.trace.select(Kind.RST, Fate.ARRIVED, destination=service.nodes["node-a"].tcp))


async def test_every_byte_arrives_once_and_in_order(autojump_clock: MockClock) -> None:
    """Through small buffers and both ways at once."""
    network = VirtualNetwork(buffers=Buffers(send=3000, receive=2000))
    sent = bytes(number * 7 % 256 for number in range(200_000))
    async with open_gateway(tcp_config(QA), network=network) as service:
        service.nodes["node-a"].reply = lambda data: data
        received = bytearray()
        async with trio.open_nursery() as nursery:
            conn = await service.connect()

            async def say_all() -> None:
                await conn.send_all(sent)
                await conn.send_eof()

            nursery.start_soon(say_all)
            while data := await conn.receive_some(5000):
                received += data

        assert sent == received == service.nodes["node-a"].data()


async def test_a_node_that_resets_a_silent_clients_flow_has_failed(autojump_clock: MockClock) -> None:
    """Nobody but the node can be to blame."""
    async with open_gateway(tcp_config(QA, QB)) as service:
        await opened(service)
        service.nodes["node-a"].reset_clients()
        await wait_all_tasks_blocked()

        assert 1 == len(service.health("node-a").window)


async def test_a_client_cannot_eject_a_probed_node_with_garbage(autojump_clock: MockClock) -> None:
    """Honest servers reset who talks nonsense: that is suspicion, and the probe clears it."""
    nodes = (attrs.evolve(QA, probe=ProbeKind.TCP), QB)
    async with open_gateway(tcp_config(*nodes)) as service:
        service.nodes["node-a"].reply = lambda _: None
        await trio.sleep(2.5)
        for _ in range(20):
            (conn,) = await opened(service)
            await conn.send_all(b"garbage")
            await wait_all_tasks_blocked()
            service.nodes["node-a"].reset_clients()
            await wait_all_tasks_blocked()

        assert 20 == endings(service)[EndReason.NODE_RESET]
        assert 0 == len(service.health("node-a").window)
        assert Verdict.HEALTHY is service.health("node-a").verdict


async def test_resets_never_eject_the_last_usable_node(autojump_clock: MockClock) -> None:
    """Half a service is better than none."""
    async with open_gateway(tcp_config(QA)) as service:
        for _ in range(20):
            await opened(service)
            service.nodes["node-a"].reset_clients()
            await wait_all_tasks_blocked()

        assert service.health("node-a").verdict in (Verdict.UNKNOWN, Verdict.HEALTHY)


async def test_the_flow_log_tells_of_a_client_without_a_node(autojump_clock: MockClock) -> None:
    """Whoever asks what became of a connection finds a line."""
    async with open_gateway(tcp_config(QA, fail_open=False)) as service:
        await service.disable("node-a")
        conn = await service.connect()
        await ending(conn)

        assert [
            f"listener=tcp protocol=tcp client={conn.local} node=- up=0 down=0 ms=0.0 reason=no_node"
        ] == service.flow_log
