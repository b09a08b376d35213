"""The virtual kernel forgets what is over: a long simulation would otherwise grow slower with every connection."""

import pytest
import trio
from trio.testing import MockClock

from sniffgate.address import Address
from sniffgate.testing.virtual import VirtualNetwork

SERVER = Address("10.0.0.1", 80)


@pytest.mark.parametrize("first", ["client", "server"])
async def test_a_connection_that_both_sides_closed_is_forgotten(autojump_clock: MockClock, first: str) -> None:
    """Whoever ends first: the end that closes last has heard the other's end before."""
    network = VirtualNetwork()
    network.set_latency(0.01, SERVER.host)
    with await network.host(SERVER.host).listen_tcp(SERVER) as acceptor:
        client = await network.connect_tcp(SERVER)
        server = await acceptor.accept()
        one, other = (client, server) if first == "client" else (server, client)
        await one.send_eof()
        assert b"" == await other.receive_some(1)
        await other.send_eof()
        assert b"" == await one.receive_some(1)
        one.close()
        other.close()
        await trio.sleep(1)

    assert [{}, {}] == [network.host(each)._machine.connected for each in ("127.0.0.1", SERVER.host)]
