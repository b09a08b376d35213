"""How connections end: resets, closing, and how each is told apart from an end of stream."""

import pytest
import trio

from sniffgate.errors import PeerReset, Side
from sniffgate.net.ports import Conn, Network

from .contract import MORE_THAN_ALL_BUFFERS, QUIET, acknowledged, connected, promise, receive_exactly, until


async def send_until_refused(conn: Conn) -> None:
    """Sends until the peer's machine answers that nobody is there."""
    with pytest.raises(PeerReset):  # noqa: PT012  # the kernel takes some bytes before the answer is back
        while True:
            await conn.send_all(b"anybody?")
            await trio.sleep(0.001)


@promise
async def an_abort_is_seen_as_a_reset(network: Network) -> None:
    """A cut must not look like a complete answer."""
    async with connected(network) as (client, server):
        client.abort()

        with pytest.raises(PeerReset):
            await server.receive_some(10)


@promise
async def a_reset_carries_the_side_of_the_peer_that_sent_it(network: Network) -> None:
    """Only a node's reset is evidence about a node."""
    async with connected(network) as (client, server):
        assert (Side.UPSTREAM, Side.CLIENT) == (client.side, server.side)
        client.abort()
        with pytest.raises(PeerReset) as from_client:
            await server.receive_some(10)
        assert Side.CLIENT is from_client.value.side

    async with connected(network) as (client, server):
        server.abort()
        with pytest.raises(PeerReset) as from_node:
            await client.receive_some(10)
        assert Side.UPSTREAM is from_node.value.side


@promise
async def a_reset_is_known_without_reading_and_reading_goes_on(network: Network) -> None:
    """A flow that may not read its client yet must still notice that the client gave up."""
    async with connected(network) as (client, server):
        await client.send_all(b"early")
        await acknowledged(client)
        assert (False, False) == (client.is_broken(), server.is_broken())
        client.abort()
        await until(server.is_broken)

        assert b"early" == await receive_exactly(server, 5)
        with pytest.raises(PeerReset):
            await server.receive_some(10)
        assert server.is_broken()


@promise
async def an_end_of_stream_is_no_break(network: Network) -> None:
    """Half-closed clients are served."""
    async with connected(network) as (client, server):
        await client.send_eof()
        await trio.sleep(QUIET)
        assert not server.is_broken()
        assert b"" == await server.receive_some(10)
        assert not server.is_broken()


@promise
async def what_came_before_a_reset_is_received_before_it(network: Network) -> None:
    """A node's last words often say why it resets."""
    async with connected(network) as (client, server):
        await server.send_all(b"last words")
        await acknowledged(server)
        server.abort()

        assert b"last words" == await receive_exactly(client, 10)
        for _ in range(2):
            with pytest.raises(PeerReset):
                await client.receive_some(10)


@promise
async def what_came_before_a_reset_is_received_even_after_a_failed_send(network: Network) -> None:
    """The kernel reports an error once, to whoever asks first; the reader must hear of it all the same."""
    async with connected(network) as (client, server):
        await server.send_all(b"last words")
        await acknowledged(server)
        server.abort()
        await send_until_refused(client)

        assert b"last words" == await receive_exactly(client, 10)
        for _ in range(2):
            with pytest.raises(PeerReset):
                await client.receive_some(10)


@promise
async def a_blocked_sender_hears_of_a_reset(network: Network) -> None:
    """Else a flow would wait for ever on a reader that is gone."""
    async with connected(network) as (client, server), trio.open_nursery() as nursery:
        nursery.start_soon(_abort_when_full, client, server)
        with pytest.raises(PeerReset):
            await client.send_all(bytes(MORE_THAN_ALL_BUFFERS))


async def _abort_when_full(client: Conn, server: Conn) -> None:
    await until(lambda: client.unsent() > 0)
    await trio.sleep(QUIET)
    server.abort()


@promise
async def closing_with_unread_data_is_seen_as_a_reset(network: Network) -> None:
    """Bytes that nobody read must not look delivered."""
    async with connected(network) as (client, server):
        await client.send_all(b"unread")
        await acknowledged(client)
        server.close()

        with pytest.raises(PeerReset):
            await client.receive_some(10)


@promise
async def sending_to_a_closed_peer_fails_and_its_end_of_stream_stays(network: Network) -> None:
    """An end of stream that was received is final, whatever happens to our own direction."""
    async with connected(network) as (client, server):
        server.close()
        assert b"" == await client.receive_some(10)
        await send_until_refused(client)

        assert b"" == await client.receive_some(10)


@promise
async def an_end_of_stream_to_a_peer_that_is_gone_does_nothing(network: Network) -> None:
    """Ending a direction is part of every clean-up; it never fails."""
    async with connected(network) as (client, server):
        server.abort()
        with pytest.raises(PeerReset):
            await client.receive_some(10)

        await client.send_eof()
        await client.send_eof()


@promise
async def closing_and_aborting_again_does_nothing(network: Network) -> None:
    """Owners close without asking who closed before."""
    async with connected(network) as (client, server):
        client.close()
        client.close()
        client.abort()
        assert b"" == await server.receive_some(10)
        server.abort()
        server.abort()
        server.close()
        with client, server:
            pass


@promise
async def closing_wakes_a_waiting_receiver(network: Network) -> None:
    """A task must not wait on what no longer exists."""
    async with connected(network) as (client, _server), trio.open_nursery() as nursery:

        async def receive() -> None:
            with pytest.raises(trio.ClosedResourceError):
                await client.receive_some(10)

        nursery.start_soon(receive)
        await trio.sleep(QUIET)
        client.close()


@promise
async def closing_wakes_a_blocked_sender(network: Network) -> None:
    """The same for the other direction, by close and by abort."""
    for how in ("close", "abort"):
        async with connected(network) as (client, _server), trio.open_nursery() as nursery:

            async def send(conn: Conn) -> None:
                with pytest.raises(trio.ClosedResourceError):
                    await conn.send_all(bytes(MORE_THAN_ALL_BUFFERS))

            nursery.start_soon(send, client)
            await trio.sleep(QUIET)
            getattr(client, how)()


@promise
async def a_closed_connection_neither_receives_nor_sends(network: Network) -> None:
    """Using a port after closing it is a bug of ours, never a peer's doing."""
    async with connected(network) as (client, _server):
        client.close()

        with pytest.raises(trio.ClosedResourceError):
            await client.receive_some(10)
        with pytest.raises(trio.ClosedResourceError):
            await client.send_all(b"x")
