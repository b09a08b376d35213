"""What is promised of a link that loses, delays, doubles and overtakes, on the virtual network and the kernel's.

The kernel's needs `tc netem` in a network namespace of its own; where there is none, that half is skipped and says why.
"""

from collections.abc import Awaitable, Callable

import pytest
import trio

from sniffgate.net.ports import Network
from sniffgate.net.sockets import SocketNetwork
from sniffgate.testing import Shape, VirtualNetwork, run_virtual
from tests.net.contract import ANY_PORT, HOST, Promise, connected, receive_exactly
from tests.net.namespace import run_isolated

SENT = 300  # datagrams
STREAM = bytes(range(256)) * 400
SILENCE = 1.0  # seconds after which no datagram is believed to come
NETEM = "tc qdisc add dev lo root netem delay 5ms 3ms loss 8% duplicate 8%"
SHAPE = Shape(jitter=0.003, loss=0.08, duplication=0.08)


async def streams_arrive_whole(network: Network) -> None:
    """Loss is TCP's own business: both directions at once, every byte once and in order."""
    async with connected(network) as ends, trio.open_nursery() as nursery:
        for conn in ends:
            nursery.start_soon(conn.send_all, STREAM)
        for conn in ends:
            assert STREAM == await receive_exactly(conn, len(STREAM))


async def datagrams_arrive_whole_or_not_at_all(network: Network) -> None:
    """Some are lost and nobody is told, some come twice, some are overtaken; none is cut or made up."""
    got: list[bytes] = []
    with await network.listen_udp(ANY_PORT) as port, network.connect_udp(port.address) as conn:
        sent = [b"%d:" % number + b"x" * number for number in range(SENT)]

        async def receive() -> None:
            while True:
                with trio.move_on_after(SILENCE) as patience:
                    got.append((await port.receive()).data)
                if patience.cancelled_caught:
                    return

        async with trio.open_nursery() as nursery:
            nursery.start_soon(receive)
            for each in sent:
                conn.send_nowait(each)
                await trio.sleep(0.001)
    assert set(got) < set(sent)
    assert len(set(got)) < len(got)
    assert got != sorted(got, key=sent.index)
    assert len(set(got)) > SENT / 2


async def streams_arrive_whole_on_a_real_link() -> None:
    """In the child."""
    await streams_arrive_whole(SocketNetwork())


async def datagrams_arrive_whole_on_a_real_link() -> None:
    """In the child."""
    await datagrams_arrive_whole_or_not_at_all(SocketNetwork())


@pytest.mark.virtual
@pytest.mark.parametrize("promise", [streams_arrive_whole, datagrams_arrive_whole_or_not_at_all])
@pytest.mark.parametrize("seed", range(5))
def test_on_a_bad_virtual_link(seed: int, promise: Promise) -> None:
    """Tests with a `Shape` prove something only as far as it is like a bad line."""
    network = VirtualNetwork(seed=seed)
    network.shape(SHAPE, HOST, HOST)
    run_virtual(promise, network, seed=seed)


@pytest.mark.realnet
@pytest.mark.slow
@pytest.mark.parametrize(
    "promise", [streams_arrive_whole_on_a_real_link, datagrams_arrive_whole_on_a_real_link], ids=["tcp", "udp"]
)
def test_on_a_bad_real_link(promise: Callable[[], Awaitable[None]]) -> None:
    """What the virtual one is held to."""
    run_isolated(promise, NETEM)
