"""How long things take on the virtual network, to the instant."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock

from sniffgate.address import Address
from sniffgate.errors import ConnectRefused, DatagramRefused, LocalShortage, NameUnresolved, Unreachable
from sniffgate.net.ports import Conn, Network
from sniffgate.testing import VirtualNetwork
from sniffgate.testing.fabric import Buffers
from sniffgate.testing.trace import Fate, Kind

SERVER = Address("10.0.0.1", 80)


@asynccontextmanager
async def connected(network: VirtualNetwork, client: Network) -> AsyncIterator[tuple[Conn, Conn]]:
    """A connection from a client's machine to `SERVER`: both ends."""
    with (
        await network.host(SERVER.host).listen_tcp(SERVER) as acceptor,
        await client.connect_tcp(SERVER) as near,
        await acceptor.accept() as far,
    ):
        yield near, far


async def test_a_connect_takes_one_round_trip(autojump_clock: MockClock) -> None:
    """Timings of hedges and probes are stated against it."""
    network = VirtualNetwork()
    network.set_latency(0.1, SERVER.host)
    with await network.host(SERVER.host).listen_tcp(SERVER), await network.connect_tcp(SERVER):
        assert 0.2 == trio.current_time()


async def test_data_takes_one_way_and_its_acknowledgement_the_other(autojump_clock: MockClock) -> None:
    """`unsent` is what the peer's machine has not acknowledged, read or not."""
    network = VirtualNetwork()
    network.set_latency(0.5, SERVER.host)
    with await network.host(SERVER.host).listen_tcp(SERVER) as acceptor, await network.connect_tcp(SERVER) as client:
        await client.send_all(b"hello")
        assert 1.0 == trio.current_time()
        with await acceptor.accept() as server:
            assert 1.5 == trio.current_time()
            assert 5 == client.unsent()
            await trio.sleep(0.5)
            assert 0 == client.unsent()
            assert b"hello" == await server.receive_some(10)


async def test_the_refusals_of_both_transports_take_a_round_trip(autojump_clock: MockClock) -> None:
    """A dead process is found as fast as the network allows, not faster."""
    network = VirtualNetwork()
    network.set_latency(0.25, SERVER.host)
    with pytest.raises(ConnectRefused):
        await network.connect_tcp(SERVER)
    assert 0.5 == trio.current_time()
    with network.connect_udp(SERVER) as conn:
        conn.send_nowait(b"x")
        with pytest.raises(DatagramRefused):
            await conn.receive()
    assert 1.0 == trio.current_time()


async def test_a_link_has_its_own_latency(autojump_clock: MockClock) -> None:
    """One node may be near to one client and far from another."""
    network = VirtualNetwork()
    network.set_latency(0.25, SERVER.host)
    network.set_latency(2.0, SERVER.host, "10.0.0.9")
    with await network.host(SERVER.host).listen_tcp(SERVER):
        with await network.host("10.0.0.8").connect_tcp(SERVER):
            assert 0.5 == trio.current_time()
        with await network.host("10.0.0.9").connect_tcp(SERVER):
            assert 4.5 == trio.current_time()


async def test_a_host_sends_from_its_own_address(autojump_clock: MockClock) -> None:
    """Clients are told apart by it."""
    network = VirtualNetwork()
    async with connected(network, network.host("10.0.0.9")) as (client, server):
        assert Address("10.0.0.9", 40000) == client.local == server.peer


async def test_a_host_without_an_address_of_the_family_reaches_nobody_there(autojump_clock: MockClock) -> None:
    """A machine with IPv4 alone is the usual case."""
    network = VirtualNetwork()
    with pytest.raises(Unreachable):
        await network.host("10.0.0.9").connect_tcp(Address("fd00::1", 80))
    both = network.host("10.0.0.9", "fd00::9")
    with (
        await network.host(SERVER.host, "fd00::1").listen_tcp(Address("", 80)),
        await both.connect_tcp(Address("fd00::1", 80)) as client,
    ):
        assert "fd00::9" == client.local.host


async def test_ports_run_out_and_come_back(autojump_clock: MockClock) -> None:
    """A gateway opens more connections than any other program."""
    network = VirtualNetwork(ports=range(40000, 40002))
    with await network.host(SERVER.host).listen_tcp(SERVER):
        first, second = await network.connect_tcp(SERVER), await network.connect_tcp(SERVER)
        with pytest.raises(LocalShortage):
            await network.connect_tcp(SERVER)
        first.close()
        with await network.connect_tcp(SERVER) as third, second:
            assert {40000, 40001} == {second.local.port, third.local.port}

    with network.connect_udp(SERVER), network.connect_udp(SERVER), pytest.raises(LocalShortage):
        network.connect_udp(SERVER)


async def test_a_cancelled_connect_leaves_nothing(autojump_clock: MockClock) -> None:
    """Losers of a hedge are cancelled while their SYN is under way."""
    network = VirtualNetwork(ports=range(40000, 40001))
    network.set_latency(1.0, SERVER.host)
    with await network.host(SERVER.host).listen_tcp(SERVER) as acceptor:
        with trio.move_on_after(1.5):
            await network.connect_tcp(SERVER)
        await trio.sleep(5)
        with await network.connect_tcp(SERVER) as client, await acceptor.accept() as server:
            assert client.local == server.peer
            assert 2 == len(network.trace.select(Kind.SYN, Fate.ARRIVED, destination=SERVER))


async def test_names_change_fail_and_are_slow(autojump_clock: MockClock) -> None:
    """What a resolver does to a gateway is a fault like any other."""
    network = VirtualNetwork()
    network.names["app.test"] = ("10.0.0.1", "10.0.0.2", "10.0.0.1")
    assert ("10.0.0.1", "10.0.0.2") == await network.look_up("app.test")
    network.names["app.test"] = ("10.0.0.3",)
    network.names.delay = 2.0
    assert ("10.0.0.3",) == await network.host("10.0.0.9").look_up("app.test")
    assert 2.0 == trio.current_time()
    network.names.failing = True
    with pytest.raises(NameUnresolved):
        await network.look_up("app.test")
    assert 3 == len(network.trace.select(Kind.LOOK_UP, Fate.SENT, destination="app.test"))


async def test_buffers_bound_what_a_silent_reader_is_sent(autojump_clock: MockClock) -> None:
    """One buffer at each end, and nothing between that grows."""
    network = VirtualNetwork(buffers=Buffers(send=1000, receive=500))
    async with connected(network, network) as (client, server):
        with trio.move_on_after(1) as patience:
            await client.send_all(bytes(1501))
        assert patience.cancelled_caught
        assert 1000 == client.unsent()
        assert 500 == len(await server.receive_some(10000))
        assert 500 == client.unsent()


async def test_a_datagram_queue_is_bounded_and_drops(autojump_clock: MockClock) -> None:
    """UDP has no back-pressure."""
    network = VirtualNetwork(buffers=Buffers(datagrams=3000))
    with await network.host(SERVER.host).listen_udp(SERVER) as port, network.connect_udp(SERVER) as conn:
        for n in range(10):
            conn.send_nowait(bytes([n]))
        got = []
        with trio.move_on_after(1):
            while True:
                got.append((await port.receive()).data)
        assert [bytes([n]) for n in range(4)] == got


async def test_refusals_can_be_rationed(autojump_clock: MockClock) -> None:
    """Linux limits them, so a gateway must not count on each."""
    network = VirtualNetwork()
    network.limit_refusals(rate=1.0, burst=2)
    with network.connect_udp(SERVER) as conn:
        for _ in range(5):
            conn.send_nowait(b"x")
        await trio.sleep(1)
        conn.send_nowait(b"y")
    assert 3 == len(network.trace.select(Kind.REFUSAL, Fate.ARRIVED))


@pytest.mark.virtual
def test_a_network_may_be_built_outside_a_run_and_outlive_it() -> None:
    """Property tests run one scenario after another."""
    network = VirtualNetwork()
    network.set_latency(0.5, SERVER.host)

    async def leave_something_under_way() -> None:
        with network.connect_udp(SERVER) as conn:
            conn.send_nowait(b"x")

    for _ in range(2):
        trio.run(leave_something_under_way, clock=MockClock(autojump_threshold=0))
    assert 2 == len(network.trace.select(Kind.DATAGRAM, Fate.SENT))
