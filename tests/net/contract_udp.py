"""What datagrams promise: whole, in order, from where they seem to come, and refusals that are told once."""

import pytest
import trio

from sniffgate.address import Address
from sniffgate.errors import DatagramRefused, DatagramTooLong
from sniffgate.net.ports import DatagramConn, Network

from .contract import ANY_PORT, ANY_PORT6, HOST, HOST6, QUIET, promise, unserved_udp

SIZES = (0, 1, 520, 521, 1472, 1473, 9000, 65507)


async def refusal(conn: DatagramConn) -> tuple[bytes | None, bool]:
    """Waits for a refusal: its quote and whether that may be cut."""
    with pytest.raises(DatagramRefused) as refused:
        await conn.receive()
    return refused.value.quote, refused.value.cut


async def assert_silent(conn: DatagramConn) -> None:
    """Nothing more comes: neither a datagram nor a refusal."""
    with trio.move_on_after(QUIET) as patience:
        await conn.receive()
    assert patience.cancelled_caught


@promise
async def datagrams_of_every_size_arrive_whole_both_ways(network: Network) -> None:
    """0 to 65,507 bytes: never cut, never merged; an empty one is not an end."""
    with await network.listen_udp(ANY_PORT) as port, network.connect_udp(port.address) as conn:
        for size in SIZES:
            data = bytes(n % 251 for n in range(size))
            conn.send_nowait(data)
            datagram = await port.receive()
            assert data == datagram.data
            port.send_nowait(data[::-1], datagram.client, datagram.local)
            assert data[::-1] == await conn.receive()


@promise
async def datagrams_arrive_in_the_order_they_were_sent(network: Network) -> None:
    """On one machine nothing reorders them."""
    with await network.listen_udp(ANY_PORT) as port, network.connect_udp(port.address) as conn:
        sent = [bytes([n]) for n in range(50)]
        for data in sent:
            conn.send_nowait(data)

        assert sent == [(await port.receive()).data for _ in sent]


@promise
async def a_datagram_names_its_client_and_the_address_written_to(network: Network) -> None:
    """Sessions are keyed by both."""
    for address in (ANY_PORT, ANY_PORT6):
        with await network.listen_udp(address) as port, network.connect_udp(port.address) as conn:
            conn.send_nowait(b"x")
            datagram = await port.receive()

            assert (conn.local, port.address) == (datagram.client, datagram.local)
            assert port.address == conn.peer
            assert address.host == conn.local.host
            assert conn.local.port not in (0, port.address.port)


@promise
async def behind_a_wildcard_the_answer_comes_from_the_address_written_to(network: Network) -> None:
    """A client drops answers from any other; 127.0.0.2 stands for a machine's second address."""
    with await network.listen_udp(Address("", 0)) as port:
        assert port.address.is_wildcard
        for host in (HOST, "127.0.0.2", HOST6):
            with network.connect_udp(Address(host, port.address.port)) as conn:
                conn.send_nowait(b"question")
                datagram = await port.receive()
                assert Address(host, port.address.port) == datagram.local
                assert conn.local == datagram.client  # an IPv4 client is plain IPv4 on this socket too
                port.send_nowait(b"answer", datagram.client, datagram.local)
                assert b"answer" == await conn.receive()


@promise
async def a_refused_datagram_comes_back_with_its_refusal(network: Network) -> None:
    """So it can be sent to another node."""
    for address in (ANY_PORT, ANY_PORT6):
        with network.connect_udp(await unserved_udp(network, address)) as conn:
            conn.send_nowait(b"hello")
            assert (b"hello", False) == await refusal(conn)
            conn.send_nowait(b"")
            quote, _ = await refusal(conn)
            assert not quote
            await assert_silent(conn)


@promise
async def a_quote_is_cut_by_family_and_says_so(network: Network) -> None:
    """At the limit itself nobody can tell, so it counts as cut."""
    for address, limit in ((ANY_PORT, 520), (ANY_PORT6, 1184)):
        with network.connect_udp(await unserved_udp(network, address)) as conn:
            data = bytes(n % 251 for n in range(limit + 1000))
            for size in (limit - 1, limit, limit + 1, limit + 1000):
                conn.send_nowait(data[:size])
                assert (data[: min(size, limit)], size >= limit) == await refusal(conn)


@promise
async def each_refused_datagram_is_reported_once_in_order(network: Network) -> None:
    """None is sent twice to another node, and none is forgotten."""
    with network.connect_udp(await unserved_udp(network)) as conn:
        sent = [b"one", b"two", b"three", b"four"]
        for data in sent:
            conn.send_nowait(data)

        assert sent == [(await refusal(conn))[0] for _ in sent]
        await assert_silent(conn)


@promise
async def a_stale_refusal_eats_no_datagram(network: Network) -> None:
    """The kernel hands a pending error to the next call, whatever that is."""
    address = await unserved_udp(network)
    with network.connect_udp(address) as conn:
        conn.send_nowait(b"refused")
        await trio.sleep(QUIET)
        with await network.listen_udp(address) as port:
            conn.send_nowait(b"taken")
            datagram = await port.receive()
            assert b"taken" == datagram.data
            port.send_nowait(b"answer", datagram.client, datagram.local)
            await trio.sleep(QUIET)

            heard: list[bytes | None] = []
            for _ in range(2):
                try:
                    heard.append(await conn.receive())
                except DatagramRefused as error:
                    heard.append(error.quote)
            assert {b"refused", b"answer"} == set(heard)
            await assert_silent(conn)


@promise
async def a_listening_port_hears_nothing_of_refusals(network: Network) -> None:
    """One client that left must not disturb the others."""
    with await network.listen_udp(ANY_PORT) as port, network.connect_udp(port.address) as conn:
        gone = await unserved_udp(network)
        port.send_nowait(b"x", gone, port.address)
        await trio.sleep(QUIET)
        port.send_nowait(b"y", gone, port.address)
        conn.send_nowait(b"hello")

        assert b"hello" == (await port.receive()).data


@promise
async def a_connected_socket_hears_its_peer_alone(network: Network) -> None:
    """Nobody else can put a datagram into a session."""
    with (
        await network.listen_udp(ANY_PORT) as port,
        await network.listen_udp(ANY_PORT) as stranger,
        network.connect_udp(port.address) as conn,
    ):
        stranger.send_nowait(b"forged", conn.local, stranger.address)
        conn.send_nowait(b"hello")
        datagram = await port.receive()
        port.send_nowait(b"answer", datagram.client, datagram.local)

        assert b"answer" == await conn.receive()
        await assert_silent(conn)


@promise
async def a_datagram_that_does_not_fit_is_an_error_and_the_port_lives_on(network: Network) -> None:
    """It is dropped whole, never cut."""
    with await network.listen_udp(ANY_PORT) as port, network.connect_udp(port.address) as conn:
        with pytest.raises(DatagramTooLong):
            conn.send_nowait(bytes(65508))
        with pytest.raises(DatagramTooLong):
            port.send_nowait(bytes(65508), conn.local, port.address)
        conn.send_nowait(b"fits")
        datagram = await port.receive()
        assert b"fits" == datagram.data
        port.send_nowait(b"fits too", datagram.client, datagram.local)
        assert b"fits too" == await conn.receive()


@promise
async def closing_datagram_ports_wakes_their_waiters_and_does_nothing_twice(network: Network) -> None:
    """Sessions and listeners end from outside."""
    with await network.listen_udp(ANY_PORT) as port, network.connect_udp(port.address) as conn:
        async with trio.open_nursery() as nursery:

            async def receive_at_port() -> None:
                with pytest.raises(trio.ClosedResourceError):
                    await port.receive()

            async def receive_at_conn() -> None:
                with pytest.raises(trio.ClosedResourceError):
                    await conn.receive()

            nursery.start_soon(receive_at_port)
            nursery.start_soon(receive_at_conn)
            await trio.sleep(QUIET)
            port.close()
            conn.close()
        port.close()
        conn.close()
        with pytest.raises(trio.ClosedResourceError):
            await port.receive()
        with pytest.raises(trio.ClosedResourceError):
            await conn.receive()


@promise
async def a_closed_port_can_be_bound_again_at_once(network: Network) -> None:
    """Reloads move listeners about."""
    address = await unserved_udp(network)
    with await network.listen_udp(address) as port:
        assert address == port.address
