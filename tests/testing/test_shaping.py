"""What links do to packets, and that the same seed does the same again."""

import math

import pytest
import trio
from trio.testing import MockClock

from sniffgate.address import Address
from sniffgate.errors import ConnectRefused, PeerReset
from sniffgate.net.sockets import SocketNetwork
from sniffgate.testing import Node, RealNode, Shape, VirtualNetwork, open_gateway, run_virtual
from sniffgate.testing.trace import Fate, Kind, Record
from tests.net.contract import Promise
from tests.net.test_contract import every_promise
from tests.testing.kit import GATEWAY, service

HOST = "10.0.0.1"
PORT = Address(HOST, 7000)
OF_ORDER = ("datagrams_arrive_in_the_order_they_were_sent", "each_refused_datagram_is_reported_once_in_order")


async def datagrams(network: VirtualNetwork, count: int) -> list[tuple[float, bytes]]:
    """When each of `count` datagrams arrived that left in one moment."""
    with await network.host(HOST).listen_udp(PORT) as port, network.connect_udp(PORT) as conn:
        for number in range(count):
            conn.send_nowait(bytes([number]))
        got = []
        with trio.move_on_after(10.0):
            while True:
                got.append(((await port.receive()).data, trio.current_time()))
        return [(when, data) for data, when in got]


async def transfer(network: VirtualNetwork, data: bytes) -> tuple[bytes, float]:
    """What arrived of one TCP stream, and when its end did."""
    with await network.host(HOST).listen_tcp(PORT) as acceptor, await network.connect_tcp(PORT) as client:
        got = bytearray()

        async def receive() -> None:
            with await acceptor.accept() as server:
                while chunk := await server.receive_some(65536):
                    got.extend(chunk)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(receive)
            await client.send_all(data)
            await client.send_eof()
        return bytes(got), trio.current_time()


async def test_a_narrow_link_takes_its_time(autojump_clock: MockClock) -> None:
    """To the byte: a thousand bytes a second are a thousand bytes a second."""
    network = VirtualNetwork()
    network.shape(Shape(bandwidth=1000.0), HOST)
    assert [(0.001 * (number + 1), bytes([number])) for number in range(3)] == await datagrams(network, 3)
    network.shape(None, HOST)
    began = trio.current_time()
    assert [began] * 3 == [when for when, _ in await datagrams(network, 3)]


async def test_tcp_over_a_narrow_link(autojump_clock: MockClock) -> None:
    """The stream is whole, and as long in coming as its bytes need."""
    network = VirtualNetwork()
    network.shape(Shape(bandwidth=50_000.0), HOST, "127.0.0.1")
    data = bytes(range(256)) * 1000
    got, took = await transfer(network, data)
    assert data == got
    assert 256_000 / 50_000 == pytest.approx(took)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        (Shape(loss=1.0), []),
        (Shape(duplication=1.0), [0, 0, 1, 1, 2, 2]),
        (Shape(loss=0.5, duplication=1.0).then(Shape(loss=1.0)), []),
    ],
    ids=["loss", "duplication", "both"],
)
async def test_what_happens_to_datagrams(shape: Shape, expected: list[int], autojump_clock: MockClock) -> None:
    """An application on UDP meets all of it."""
    network = VirtualNetwork()
    network.shape(shape, HOST)
    assert expected == [data[0] for _, data in await datagrams(network, 3)]
    assert 3 - len(set(expected)) == len(network.trace.select(Kind.DATAGRAM, Fate.LOST))


async def test_some_datagrams_are_lost_and_some_overtaken(autojump_clock: MockClock) -> None:
    """By the odds that were given, and no more late than was said."""
    network = VirtualNetwork(seed=4)
    network.shape(Shape(loss=0.25, reordering=0.25, held_back=0.5), HOST)
    got = await datagrams(network, 200)
    numbers = [data[0] for _, data in got]
    assert 125 < len(numbers) < 175
    assert numbers != sorted(numbers)
    assert {0.0, 0.5} == {when for when, _ in got}


async def test_jitter_is_bounded(autojump_clock: MockClock) -> None:
    """It is added to the latency, never taken off."""
    network = VirtualNetwork()
    network.set_latency(1.0, HOST)
    network.shape(Shape(jitter=0.5), HOST)
    times = [when for when, _ in await datagrams(network, 100)]
    assert 1.0 <= min(times) < 1.1
    assert 1.4 < max(times) <= 1.5


async def test_tcp_hides_what_befalls_its_packets(autojump_clock: MockClock) -> None:
    """Each byte once and in order; only later."""
    network = VirtualNetwork(seed=1)
    network.shape(Shape(jitter=0.05, loss=0.2, duplication=0.5, reordering=0.5), HOST)
    data = bytes(range(256)) * 4000
    got, took = await transfer(network, data)
    assert data == got
    assert took > 0.2


async def test_a_refusal_is_not_lost(autojump_clock: MockClock) -> None:
    """Nothing would repeat it on this network, and a connect must not hang for ever."""
    network = VirtualNetwork(seed=2)
    network.shape(Shape(loss=0.5), HOST)
    for _ in range(20):
        with pytest.raises(ConnectRefused):
            await network.connect_tcp(PORT)


@every_promise
def test_a_shaped_network_keeps_its_promises(promise: Promise) -> None:
    """A bad link is late, and no other than a good one in what an application may rely on.

    The kernel's loopback keeps datagrams in order, which jitter does not.
    """
    jitter = 0.0 if promise.__name__ in OF_ORDER else 0.001
    network = VirtualNetwork(seed=3)
    network.shape(Shape(jitter=jitter, bandwidth=1e9), "127.0.0.1", "127.0.0.1")
    run_virtual(promise, network)


@pytest.mark.parametrize("bad", [{"loss": 1.1}, {"jitter": -1.0}, {"bandwidth": 0.0}, {"duplication": -0.1}])
def test_impossible_links_are_refused(bad: dict[str, float]) -> None:
    """A slip in a test is told where it was made."""
    with pytest.raises(ValueError, match="a link cannot be like this"):
        Shape(**bad)


def test_two_shapes_follow_each_other() -> None:
    """A packet passes what leaves one host and what enters the other."""
    both = Shape(jitter=1.0, loss=0.5, bandwidth=10.0).then(Shape(jitter=2.0, loss=0.5, reordering=0.1))
    assert (3.0, 0.75, 10.0) == (both.jitter, both.loss, both.bandwidth)
    assert math.isclose(0.1, both.reordering)


def history(seed: int) -> list[Record]:
    """All that went over the network while a gateway and its clients had a bad day."""

    async def main() -> list[Record]:
        network = VirtualNetwork(seed=seed)
        network.shape(Shape(jitter=0.02, loss=0.1, reordering=0.2, duplication=0.1), GATEWAY)
        async with open_gateway(service(), network) as gateway, trio.open_nursery() as clients:

            async def client() -> None:
                with trio.move_on_after(6.0):
                    while True:
                        try:
                            await gateway.ask()
                        except PeerReset:
                            await trio.sleep(0.1)

            for _ in range(5):
                clients.start_soon(client)
            await trio.sleep(1.0)
            with gateway.nodes["node-a"].kill():
                await trio.sleep(2.0)
        return list(network.trace)

    return run_virtual(main, seed=seed)


def test_the_same_seed_gives_the_same_history() -> None:
    """A failure that cannot be repeated cannot be mended."""
    first = history(7)
    assert len(first) > 1000
    assert first == history(7)
    assert first != history(8)


async def stream_until_reset(network: VirtualNetwork | SocketNetwork, address: Address) -> bytes:
    """What a client has got by the time it is reset."""
    got = b""
    with await network.connect_tcp(address) as conn:
        for _ in range(3):
            try:
                await conn.send_all(b"1234")
                got += await conn.receive_some(100)
            except PeerReset:
                return got
    raise AssertionError("it was not reset")


async def test_a_stream_is_reset_in_its_middle(autojump_clock: MockClock, nursery: trio.Nursery) -> None:
    """At a byte that the test names; half an answer is the hardest to be ready for."""
    network = VirtualNetwork()
    node: Node = await nursery.start(Node(network, "a", HOST).serve)
    with node.reset_mid_stream(after=8):
        assert b"a:1234a:" == await stream_until_reset(network, PORT)
    with pytest.raises(AssertionError, match="not reset"):
        await stream_until_reset(network, PORT)


@pytest.mark.realnet
async def test_a_real_stream_is_reset_in_its_middle() -> None:
    """The kernel may drop what was sent right before the reset: no more than that arrives."""
    with trio.fail_after(20.0), RealNode("a") as node:
        await node.wait_ready()
        with node.reset_mid_stream(after=8):
            await node.wait_ready()
            assert node.tcp is not None
            assert b"a:1234a:".startswith(await stream_until_reset(SocketNetwork(), node.tcp))


async def test_a_half_open_connection_is_told_when_the_machine_is_back(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """A machine that lost its memory resets what it does not know; until then nobody hears of anything."""
    network = VirtualNetwork()
    node: Node = await nursery.start(Node(network, "a", HOST).serve)
    with await network.connect_tcp(PORT) as conn:
        with node.power_off():
            await conn.send_all(b"hi")
            with trio.move_on_after(5.0):
                await conn.receive_some(100)
            assert 5.0 == trio.current_time()
        with pytest.raises(PeerReset):
            await conn.receive_some(100)
