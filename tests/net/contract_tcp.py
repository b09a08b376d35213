"""What an open connection promises: bytes, ends of stream, back-pressure."""

import trio
from trio.testing import assert_checkpoints

from sniffgate.net.ports import Conn, Network

from .contract import (
    ANY_PORT,
    MORE_THAN_ALL_BUFFERS,
    QUIET,
    acknowledged,
    connect_to,
    connected,
    promise,
    receive_exactly,
    receive_to_end,
    until,
)

PATTERN = bytes(range(251)) * 4177  # about 1 MiB, and no two neighbouring chunks alike


@promise
async def bytes_arrive_complete_and_in_order_both_ways_at_once(network: Network) -> None:
    """Relaying rests on it."""
    async with connected(network) as (client, server):
        got: dict[str, bytes] = {}

        async def receive(name: str, conn: Conn) -> None:
            got[name] = await receive_to_end(conn)

        async def send(conn: Conn, data: bytes) -> None:
            await conn.send_all(data)
            await conn.send_eof()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(receive, "client", client)
            nursery.start_soon(receive, "server", server)
            nursery.start_soon(send, client, PATTERN)
            nursery.start_soon(send, server, PATTERN[::-1])

        assert PATTERN == got["server"]
        assert PATTERN[::-1] == got["client"]


@promise
async def no_more_than_max_bytes_are_received_at_once(network: Network) -> None:
    """Callers size their buffers by it."""
    async with connected(network) as (client, server):
        await client.send_all(b"abcdef")
        await acknowledged(client)

        assert b"abcd" == await server.receive_some(4)
        assert b"ef" == await server.receive_some(4)


@promise
async def any_bytes_like_value_is_sent(network: Network) -> None:
    """A relay sends slices of its one buffer."""
    async with connected(network) as (client, server):
        await client.send_all(bytearray(b"one"))
        await client.send_all(memoryview(b"-two-")[1:4])
        await client.send_all(b"")

        assert b"onetwo" == await receive_exactly(server, 6)


@promise
async def receiving_and_sending_checkpoint_even_when_nothing_blocks(network: Network) -> None:
    """A busy flow must neither starve the others nor outlive its cancellation."""
    async with connected(network) as (client, server):
        with assert_checkpoints():
            await client.send_all(b"x")
        await acknowledged(client)
        with assert_checkpoints():
            await server.receive_some(1)
        with assert_checkpoints():
            await client.send_eof()


@promise
async def an_end_of_stream_is_told_again_and_again(network: Network) -> None:
    """Whoever asks later gets the same answer."""
    async with connected(network) as (client, server):
        await client.send_eof()

        assert [b"", b"", b""] == [await server.receive_some(10) for _ in range(3)]


@promise
async def after_its_end_of_stream_a_client_still_receives(network: Network) -> None:
    """Request, half close, answer: the oldest protocol there is."""
    async with connected(network) as (client, server):
        await client.send_all(b"request")
        await client.send_eof()

        assert b"request" == await receive_to_end(server)
        await server.send_all(b"answer")
        await server.send_eof()
        assert b"answer" == await receive_to_end(client)


@promise
async def after_its_end_of_stream_a_server_still_receives(network: Network) -> None:
    """Half close works the other way round too."""
    async with connected(network) as (client, server):
        await server.send_all(b"hello")
        await server.send_eof()

        assert b"hello" == await receive_to_end(client)
        await client.send_all(b"goodbye")
        await client.send_eof()
        assert b"goodbye" == await receive_to_end(server)


@promise
async def close_delivers_what_was_sent_and_then_an_end_of_stream(network: Network) -> None:
    """Closing is not cutting."""
    async with connected(network) as (client, server):
        await client.send_all(PATTERN[:60000])
        client.close()

        assert PATTERN[:60000] == await receive_to_end(server)


@promise
async def a_sender_blocks_while_its_peer_does_not_read(network: Network) -> None:
    """Back-pressure: the kernel's buffers are the bound."""
    async with connected(network) as (client, _server):
        with trio.move_on_after(QUIET) as patience:
            await client.send_all(bytes(MORE_THAN_ALL_BUFFERS))

        assert patience.cancelled_caught
        assert 0 < client.unsent() < MORE_THAN_ALL_BUFFERS


@promise
async def a_blocked_sender_goes_on_when_its_peer_reads(network: Network) -> None:
    """A pause is not an end."""
    async with connected(network) as (client, server), trio.open_nursery() as nursery:
        nursery.start_soon(client.send_all, bytes(MORE_THAN_ALL_BUFFERS))
        await until(lambda: client.unsent() > 0)
        await trio.sleep(QUIET)

        assert MORE_THAN_ALL_BUFFERS == len(await receive_exactly(server, MORE_THAN_ALL_BUFFERS))
        await acknowledged(client)


@promise
async def nothing_is_unsent_at_first_when_acknowledged_or_once_closed(network: Network) -> None:
    """A drain decides by it between an end of stream and a reset."""
    async with connected(network) as (client, server):
        assert (0, 0) == (client.unsent(), server.unsent())
        await client.send_all(b"x")
        await acknowledged(client)  # unread by the server, and yet not unsent
        client.close()
        assert 0 == client.unsent()


@promise
async def a_user_timeout_can_be_set_at_any_time(network: Network) -> None:
    """Accepted connections get theirs from their listener."""
    with await network.listen_tcp(ANY_PORT) as acceptor:
        client, server = await connect_to(network, acceptor)
        with client, server:
            server.set_user_timeout(5.0)
            server.set_user_timeout(0.0)
            await client.send_all(b"still here")
            assert b"still here" == await receive_exactly(server, 10)

        with await network.connect_tcp(acceptor.address, user_timeout=5.0) as client, await acceptor.accept() as server:
            await client.send_all(b"here too")
            assert b"here too" == await receive_exactly(server, 8)
