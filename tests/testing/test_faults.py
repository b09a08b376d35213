"""What each fault of the virtual network does to those who are connected, and to those who come."""

import pytest
import trio
from trio.testing import MockClock

from sniffgate.address import Address
from sniffgate.config.schema import Transport
from sniffgate.errors import ConnectRefused, ConnectTimedOut, DatagramRefused, PeerReset, Side, Unreachable
from sniffgate.testing import Node, VirtualNetwork
from sniffgate.testing.fabric import Buffers
from sniffgate.testing.trace import Fate, Kind

HOST = "10.0.0.1"
TCP = UDP = Address(HOST, 7000)


@pytest.fixture
def network() -> VirtualNetwork:
    """A network with a backlog small enough to fill."""
    return VirtualNetwork(buffers=Buffers(backlog=2))


@pytest.fixture
async def node(network: VirtualNetwork, nursery: trio.Nursery) -> Node:
    """A node named a, serving."""
    node = Node(network, "a", HOST)
    await nursery.start(node.serve)
    return node


async def test_a_node_answers_with_its_name_and_remembers(
    autojump_clock: MockClock, network: VirtualNetwork, node: Node
) -> None:
    """Tests ask it who got what."""
    network.set_latency(0.5, HOST)
    with await network.connect_tcp(TCP) as client, network.connect_udp(UDP) as conn:
        await client.send_all(b"hello")
        assert b"a:hello" == await client.receive_some(100)
        conn.send_nowait(b"hi")
        assert b"a:hi" == await conn.receive()
        assert [1.5, 2.5] == [item.time for item in node.received]
        assert (b"hello", b"hi") == (node.data(Transport.TCP), node.data(Transport.UDP))
        assert [client.local] == node.accepted
        await client.send_eof()
        assert b"" == await client.receive_some(100)


async def test_a_killed_node_resets_and_refuses_until_it_recovers(
    autojump_clock: MockClock, network: VirtualNetwork, node: Node
) -> None:
    """A crash of the process, and its restart."""
    network.set_latency(0.5, HOST)
    with await network.connect_tcp(TCP) as client, network.connect_udp(UDP) as conn:
        await client.send_all(b"hello")
        assert b"a:hello" == await client.receive_some(100)
        node.kill()
        died = trio.current_time()
        with pytest.raises(PeerReset) as reset:
            await client.receive_some(100)
        assert (died + 0.5, Side.UPSTREAM) == (trio.current_time(), reset.value.side)
        with pytest.raises(ConnectRefused):
            await network.connect_tcp(TCP)
        conn.send_nowait(b"x")
        with pytest.raises(DatagramRefused):
            await conn.receive()

        node.recover()
        conn.send_nowait(b"y")
        assert b"a:y" == await conn.receive()
        with await network.connect_tcp(TCP) as again:
            await again.send_all(b"z")
            assert b"a:z" == await again.receive_some(100)


async def test_a_fault_may_take_one_transport_alone(
    autojump_clock: MockClock, network: VirtualNetwork, node: Node
) -> None:
    """Health belongs to endpoints."""
    node.kill(Transport.TCP)
    with pytest.raises(ConnectRefused):
        await network.connect_tcp(TCP)
    with network.connect_udp(UDP) as conn:
        conn.send_nowait(b"x")
        assert b"a:x" == await conn.receive()


async def test_a_fault_may_take_one_port_alone(autojump_clock: MockClock, network: VirtualNetwork, node: Node) -> None:
    """Two services of one machine fail apart."""
    network.kill(Address(HOST, 9999))
    with await network.connect_tcp(TCP):
        pass
    network.kill(TCP)
    with pytest.raises(ConnectRefused):
        await network.connect_tcp(TCP)
    network.recover(HOST)
    with await network.connect_tcp(TCP):
        pass


async def test_refusing_leaves_connections_alone(
    autojump_clock: MockClock, network: VirtualNetwork, node: Node
) -> None:
    """A node that takes nobody new still serves whom it has."""
    with await network.connect_tcp(TCP) as client:
        node.refuse()
        with pytest.raises(ConnectRefused):
            await network.connect_tcp(TCP)
        await client.send_all(b"x")
        assert b"a:x" == await client.receive_some(100)


async def test_a_black_hole_swallows_and_a_connection_outlives_it(
    autojump_clock: MockClock, network: VirtualNetwork, node: Node
) -> None:
    """Nothing is lost of a connection: kernels send again, at 0.2, 0.6, 1.4 and 3.0 seconds."""
    with await network.connect_tcp(TCP) as client, network.connect_udp(UDP) as conn:
        node.black_hole()
        await client.send_all(b"one")
        await client.send_all(b"two")
        conn.send_nowait(b"gone for ever")
        await trio.sleep(2)
        assert 6 == client.unsent()
        assert b"" == node.data()
        node.recover()
        assert b"a:one" == (await client.receive_some(100))[:5]
        assert 3.0 == trio.current_time()
        await trio.sleep(1)
        assert (b"onetwo", 0) == (node.data(), client.unsent())


async def test_a_connect_into_a_black_hole_times_out_after_seven_tries(
    autojump_clock: MockClock, network: VirtualNetwork, node: Node
) -> None:
    """The system's own limit: callers bring a closer one."""
    node.black_hole()
    with pytest.raises(ConnectTimedOut):
        await network.connect_tcp(TCP)
    assert 127.0 == trio.current_time()
    syns = network.trace.select(Kind.SYN, Fate.SENT, destination=HOST)
    assert [0.0, 1.0, 3.0, 7.0, 15.0, 31.0, 63.0] == [record.time for record in syns]
    assert [] == network.trace.select(Kind.SYN, Fate.ARRIVED)


async def test_a_user_timeout_ends_a_connection_that_is_not_acknowledged(
    autojump_clock: MockClock, network: VirtualNetwork, node: Node
) -> None:
    """A machine that lost power says nothing."""
    with await network.connect_tcp(TCP, user_timeout=5.0) as client:
        await trio.sleep(1)
        node.power_off()
        await client.send_all(b"x")
        with pytest.raises(PeerReset):
            await client.receive_some(100)
        assert 6.0 == trio.current_time()


async def test_a_user_timeout_counts_a_full_window_too(
    autojump_clock: MockClock, network: VirtualNetwork, node: Node
) -> None:
    """Linux does not tell a paused reader from a dead one."""
    with await network.connect_tcp(TCP, user_timeout=5.0) as client:
        node.freeze()
        with pytest.raises(PeerReset):
            await client.send_all(bytes(1_000_000))
        assert 5.0 == trio.current_time()


async def test_a_machine_that_lost_power_resets_old_connections_once_it_is_back(
    autojump_clock: MockClock, network: VirtualNetwork, node: Node
) -> None:
    """It knows nothing of them any more."""
    with await network.connect_tcp(TCP) as client:
        node.power_off()
        with trio.move_on_after(50) as patience:
            await client.receive_some(100)
        assert patience.cancelled_caught
        node.recover()
        await client.send_all(b"x")
        with pytest.raises(PeerReset):
            await client.receive_some(100)
        with await network.connect_tcp(TCP) as again:
            await again.send_all(b"y")
            assert b"a:y" == await again.receive_some(100)


async def test_a_frozen_node_takes_what_its_kernel_can_and_goes_on_later(
    autojump_clock: MockClock, network: VirtualNetwork, node: Node
) -> None:
    """The failure that a connect probe cannot see."""
    with await network.connect_tcp(TCP) as client, network.connect_udp(UDP) as conn:
        await trio.sleep(1)
        node.freeze()
        conn.send_nowait(b"queued")
        with await network.connect_tcp(TCP) as second, await network.connect_tcp(TCP):
            await second.send_all(b"early")
            with trio.move_on_after(0.5) as patience:  # the backlog of two is full
                await network.connect_tcp(TCP)
            assert patience.cancelled_caught
            with trio.move_on_after(1) as patience:
                await client.send_all(bytes(200_000))
            assert patience.cancelled_caught
            assert (b"", 65536) == (node.data(), client.unsent())

            node.recover()
            assert b"a:early" == await second.receive_some(100)
            assert b"a:queued" == await conn.receive()


async def test_an_unreachable_host_is_told_of(autojump_clock: MockClock, network: VirtualNetwork, node: Node) -> None:
    """Routers answer after a round trip; connections merely stand still."""
    network.set_latency(0.5, HOST)
    with await network.connect_tcp(TCP) as client, network.connect_udp(UDP) as conn:
        node.unreachable()
        with pytest.raises(Unreachable):
            await network.connect_tcp(TCP)
        assert 2.0 == trio.current_time()
        conn.send_nowait(b"x")
        with pytest.raises(DatagramRefused) as refused:
            await conn.receive()
        assert (3.0, b"x") == (trio.current_time(), refused.value.quote)
        node.recover()
        await client.send_all(b"y")
        assert b"a:y" == await client.receive_some(100)


async def test_a_partition_parts_two_hosts_and_no_others(
    autojump_clock: MockClock, network: VirtualNetwork, node: Node
) -> None:
    """What one client cannot reach may be well for the rest."""
    network.partition(HOST, "10.0.0.9")
    with trio.move_on_after(10) as patience:
        await network.host("10.0.0.9").connect_tcp(TCP)
    assert patience.cancelled_caught
    with await network.host("10.0.0.8").connect_tcp(TCP):
        pass
    network.heal(HOST, "10.0.0.9")
    with await network.host("10.0.0.9").connect_tcp(TCP):
        assert 10.0 == trio.current_time()


async def test_the_trace_shows_that_no_byte_reached_a_node(
    autojump_clock: MockClock, network: VirtualNetwork, node: Node
) -> None:
    """No client byte may reach two nodes."""
    with await network.connect_tcp(TCP) as client:
        assert [] == network.trace.select(Kind.DATA, Fate.ARRIVED, destination=HOST)
        await client.send_all(b"x")
        (record,) = network.trace.select(Kind.DATA, Fate.ARRIVED, destination=TCP, source=client.local)
        assert (0.0, 1) == (record.time, record.size)


async def test_a_node_can_reset_its_clients(autojump_clock: MockClock, network: VirtualNetwork, node: Node) -> None:
    """Servers do so under load."""
    with await network.connect_tcp(TCP) as client:
        await trio.sleep(1)
        node.reset_clients()
        with pytest.raises(PeerReset):
            await client.receive_some(100)
    with await network.connect_tcp(TCP) as client:
        await client.send_all(b"x")
        assert b"a:x" == await client.receive_some(100)


async def test_an_idle_connection_finds_out_by_keepalive(
    autojump_clock: MockClock, network: VirtualNetwork, node: Node
) -> None:
    """Thirty seconds idle, then three probes: without them a dead machine would hold its flows for ever."""
    with await network.connect_tcp(TCP) as client:
        await trio.sleep(5)
        node.power_off()
        with pytest.raises(PeerReset):
            await client.receive_some(100)
        assert 65.0 == trio.current_time()


async def test_an_idle_connection_to_a_restarted_machine_is_reset_by_keepalive(
    autojump_clock: MockClock, network: VirtualNetwork, node: Node
) -> None:
    """The first probe after the restart is answered by a kernel that knows nothing."""
    with await network.connect_tcp(TCP) as client:
        node.power_off()
        await trio.sleep(5)
        node.recover()
        with pytest.raises(PeerReset):
            await client.receive_some(100)
        assert 35.0 == trio.current_time()


async def test_a_short_silence_does_not_hurt_an_idle_connection(
    autojump_clock: MockClock, network: VirtualNetwork, node: Node
) -> None:
    """Each silence is counted from its own start."""
    with await network.connect_tcp(TCP) as client:
        for _ in range(3):
            node.black_hole()
            await trio.sleep(50)
            node.recover()
            await trio.sleep(5)
        await client.send_all(b"x")
        assert b"a:x" == await client.receive_some(100)


async def test_nothing_is_left_of_closed_sockets(
    autojump_clock: MockClock, network: VirtualNetwork, node: Node
) -> None:
    """Tests for leaks ask a host for what is open."""
    network.set_latency(0.5, HOST)
    client, other = await network.connect_tcp(TCP), await network.connect_tcp(TCP)
    conn = network.connect_udp(UDP)
    assert 3 == len(network.open_sockets())
    client.close()
    other.abort()
    conn.close()
    assert [] == network.open_sockets()
    await trio.sleep(10)
    assert [(Transport.TCP, TCP), (Transport.UDP, UDP)] == network.host(HOST).open_sockets()
