"""What every relay promises, on every network it can run on.

A subclass of `RelayContract` gives two fixtures: `relay`, and `kind` with the names of its networks as parameters.
"""

from functools import partial

import pytest
import trio
from trio.testing import MockClock

from sniffgate.net.ports import Conn
from sniffgate.net.relay import EndReason, Relay, RelayLimits
from sniffgate.net.sockets import SocketNetwork
from sniffgate.testing import VirtualNetwork
from tests.net.relay_flow import (
    MB,
    End,
    Flow,
    World,
    assert_lasted,
    digest,
    fill,
    noise,
    read_digest,
    read_exactly,
    read_to_end,
    relayed,
    send_in_pieces,
    wait_acknowledged,
    wait_stalled,
    wait_until,
)


class RelayContract:
    """The promises. pytest-trio takes the clock from the test's own arguments, so each test asks for it."""

    @pytest.fixture
    def world(self, kind: str) -> World:
        if kind == "virtual":
            return World(VirtualNetwork(), exact=True)
        return World(SocketNetwork(), exact=False)

    @pytest.fixture
    def clock(self, kind: str) -> MockClock | None:
        return MockClock(autojump_threshold=0) if kind == "virtual" else None

    async def test_bytes_pass_both_ways(self, relay: Relay, world: World, clock: MockClock | None) -> None:
        """The least a relay does, and what a chatty protocol does all day."""
        async with relayed(relay, world) as flow:
            for word in (b"ping", b"", b"x" * 64, b"last"):
                await flow.client.send_all(word)
                assert word == await read_exactly(flow.node, len(word))
                await flow.node.send_all(word[::-1])
                assert word[::-1] == await read_exactly(flow.client, len(word))

    async def test_a_node_may_speak_first(self, relay: Relay, world: World, clock: MockClock | None) -> None:
        """SMTP and SSH clients stay silent until they are greeted."""
        async with relayed(relay, world) as flow:
            await flow.node.send_all(b"220 hello")
            assert b"220 hello" == await read_exactly(flow.client, 9)

    @pytest.mark.parametrize("first", ["client", "node"])
    async def test_bulk_crosses_whole_both_ways_at_once(
        self, relay: Relay, world: World, clock: MockClock | None, first: str
    ) -> None:
        """No byte is lost, doubled or reordered, whichever side ends first."""
        size = 10 * MB
        up, down = noise(size, 1), noise(size, 2)
        received: dict[str, bytes] = {}
        first_eof_arrived = trio.Event()

        async def send(name: str, conn: Conn, content: bytes) -> None:
            await send_in_pieces(conn, content, seed=len(name))
            if name != first:
                await first_eof_arrived.wait()
            await conn.send_eof()

        async def receive(name: str, conn: Conn) -> None:
            received[name], end = await read_to_end(conn)
            assert End.EOF is end
            if name != first:
                first_eof_arrived.set()

        async with relayed(relay, world) as flow:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(send, "client", flow.client, up)
                nursery.start_soon(send, "node", flow.node, down)
                nursery.start_soon(receive, "client", flow.client)
                nursery.start_soon(receive, "node", flow.node)
            assert EndReason.COMPLETE is await flow.wait_reason()
            assert digest(up) == digest(received["node"])
            assert digest(down) == digest(received["client"])
            assert (size, size) == flow.moved

    @pytest.mark.parametrize("first", ["client", "node"])
    async def test_the_other_way_runs_on_after_a_half_close(
        self, relay: Relay, world: World, clock: MockClock | None, first: str
    ) -> None:
        """A request ended by a FIN still gets its whole answer, and the mirror image."""
        content = noise(8 * MB, 3)
        async with relayed(relay, world) as flow:
            early, late = (flow.client, flow.node) if first == "client" else (flow.node, flow.client)
            await early.send_all(b"request")
            await early.send_eof()
            assert (b"request", End.EOF) == await read_to_end(late)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(send_in_pieces, late, content, 4)
                answer = await read_exactly(early, len(content))
            await late.send_eof()
            assert (b"", End.EOF) == await read_to_end(early)
            assert digest(content) == digest(answer)
            assert EndReason.COMPLETE is await flow.wait_reason()

    async def test_a_flow_without_a_byte_completes(self, relay: Relay, world: World, clock: MockClock | None) -> None:
        """A port scan is a flow too."""
        async with relayed(relay, world) as flow:
            await flow.client.send_eof()
            assert (b"", End.EOF) == await read_to_end(flow.node)
            await flow.node.send_eof()
            assert (b"", End.EOF) == await read_to_end(flow.client)
            assert EndReason.COMPLETE is await flow.wait_reason()

    @pytest.mark.parametrize("breaker", ["client", "node"])
    async def test_a_reset_in_mid_stream_arrives_as_a_reset(
        self, relay: Relay, world: World, clock: MockClock | None, breaker: str
    ) -> None:
        """An orderly end would pass a part off as the whole."""
        async with relayed(relay, world) as flow:
            breaking, other = (flow.client, flow.node) if breaker == "client" else (flow.node, flow.client)
            sent = noise(MB, 5)
            ends: list[tuple[bytes, End]] = []

            async def receive() -> None:
                ends.append(await read_to_end(other, 10_000))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(receive)
                await breaking.send_all(sent)
                await wait_acknowledged(breaking)
                breaking.abort()
            [(received, end)] = ends
            assert End.RESET is end
            if breaker == "node":
                assert digest(sent) == digest(received)
                assert EndReason.NODE_RESET is await flow.wait_reason()
            else:
                assert sent.startswith(received)
                assert EndReason.CLIENT_RESET is await flow.wait_reason()

    async def test_what_a_node_sent_before_its_reset_is_delivered_to_a_client_that_reads_late(
        self, relay: Relay, world: World, clock: MockClock | None
    ) -> None:
        """A reset sent at once would overtake the bytes in the send queue and destroy them."""
        sent = noise(120_000, 6)  # more than a receive buffer holds at first, less than all buffers on the way
        async with relayed(relay, world) as flow:
            await flow.node.send_all(sent)
            await wait_acknowledged(flow.node)
            flow.node.abort()
            await trio.sleep(0.1)
            received, end = await read_to_end(flow.client, 5000)
            assert (digest(sent), End.RESET) == (digest(received), end)
            assert EndReason.NODE_RESET is await flow.wait_reason()

    async def test_a_write_that_fails_does_not_hide_what_the_node_sent_nor_its_reset(
        self, relay: Relay, world: World, clock: MockClock | None
    ) -> None:
        """The write may be the first to meet the reset; the node's last words are still unread then."""
        sent = noise(MB, 7)
        async with relayed(relay, world) as flow:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(fill, flow.client)
                await flow.node.send_all(sent[:100])
                received = await read_exactly(flow.client, 100)
                await flow.node.send_all(sent[100:50_000])
                await wait_acknowledged(flow.node)
                flow.node.abort()
                rest, end = await read_to_end(flow.client)
                nursery.cancel_scope.cancel()
            assert (digest(sent[:50_000]), End.RESET) == (digest(received + rest), end)
            assert EndReason.NODE_RESET is await flow.wait_reason()

    @pytest.mark.parametrize("breaker", ["client", "node"])
    async def test_a_stream_that_ended_stays_whole_though_a_reset_follows(
        self, relay: Relay, world: World, clock: MockClock | None, breaker: str
    ) -> None:
        """A server that answers early and closes resets a client that is still sending: its answer was complete."""
        sent = noise(MB, 8)
        async with relayed(relay, world) as flow:
            breaking, other = (flow.client, flow.node) if breaker == "client" else (flow.node, flow.client)

            async def send() -> None:
                await breaking.send_all(sent)
                await breaking.send_eof()
                await wait_acknowledged(breaking)
                breaking.abort()

            async with trio.open_nursery() as nursery:
                nursery.start_soon(fill, other)
                nursery.start_soon(send)
                received, end = await read_to_end(other)
            assert (digest(sent), End.EOF) == (digest(received), end)
            expected = EndReason.CLIENT_RESET if breaker == "client" else EndReason.NODE_RESET
            assert expected is await flow.wait_reason()

    @pytest.mark.parametrize("slow", ["client", "node"])
    async def test_a_reader_that_stops_blocks_its_sender_and_resumes_without_loss(
        self, relay: Relay, world: World, clock: MockClock | None, slow: str
    ) -> None:
        """Back-pressure runs end to end: a slow reader costs the buffers on the way and no more."""
        content = noise(64 * MB, 9)
        async with relayed(relay, world) as flow:
            reader, sender = (flow.client, flow.node) if slow == "client" else (flow.node, flow.client)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(sender.send_all, content)
                await wait_stalled(flow)
                assert max(flow.moved) < 32 * MB
                received = await read_digest(reader, len(content))
            assert digest(content) == received

    async def test_a_stalled_way_does_not_hold_up_the_other(
        self, relay: Relay, world: World, clock: MockClock | None
    ) -> None:
        """A client may upload without reading its answer yet."""
        async with relayed(relay, world) as flow, trio.open_nursery() as nursery:
            nursery.start_soon(fill, flow.node)
            await wait_stalled(flow)
            await flow.client.send_all(b"still here")
            assert b"still here" == await read_exactly(flow.node, 10)
            nursery.cancel_scope.cancel()

    async def test_a_flow_without_a_byte_ends_at_the_idle_limit(
        self, relay: Relay, world: World, clock: MockClock | None
    ) -> None:
        """Bytes of either direction count, and a clean flow is told so by an end of stream."""
        async with relayed(relay, world, RelayLimits(idle=0.3)) as flow:
            await flow.client.send_all(b"a")
            await trio.sleep(0.2)
            await flow.node.send_all(b"b")
            began = trio.current_time()
            assert (b"a", End.EOF) == await read_to_end(flow.node)
            assert (b"b", End.EOF) == await read_to_end(flow.client)
            assert EndReason.IDLE is await flow.wait_reason()
            assert_lasted(0.3, flow.ended_at - began, world)

    async def test_a_half_closed_flow_without_a_byte_ends_at_the_half_close_limit(
        self, relay: Relay, world: World, clock: MockClock | None
    ) -> None:
        """A peer that never answers a FIN must not hold descriptors for ever; one that still sends is left alone."""
        async with relayed(relay, world, RelayLimits(half_close=0.3)) as flow:
            await trio.sleep(0.4)  # the limit counts from the end of stream, not from the last byte before it
            await flow.client.send_eof()
            await trio.sleep(0.2)
            await flow.node.send_all(b"b")
            began = trio.current_time()
            assert (b"b", End.EOF) == await read_to_end(flow.client)
            assert EndReason.HALF_CLOSE_TIMEOUT is await flow.wait_reason()
            assert_lasted(0.3, flow.ended_at - began, world)

    @pytest.mark.parametrize("half_closed", [False, True])
    async def test_a_cut_of_a_quiet_flow_is_an_end_of_stream(
        self, relay: Relay, world: World, clock: MockClock | None, half_closed: bool
    ) -> None:
        """Nothing is lost, so nobody is told that something was."""
        async with relayed(relay, world) as flow:
            await flow.client.send_all(b"a")
            await read_exactly(flow.node, 1)
            await flow.node.send_all(b"b")
            await read_exactly(flow.client, 1)
            if half_closed:
                await flow.client.send_eof()
                assert (b"", End.EOF) == await read_to_end(flow.node)
            await trio.sleep(0.05)  # acknowledgements arrive
            flow.cut.cancel()
            assert None is await flow.wait_reason()
            assert (b"", End.EOF) == await read_to_end(flow.node)
            assert (b"", End.EOF) == await read_to_end(flow.client)

    @pytest.mark.parametrize("stalled", ["client", "node"])
    async def test_a_cut_in_mid_transfer_is_a_reset_at_once(
        self, relay: Relay, world: World, clock: MockClock | None, stalled: str
    ) -> None:
        """Bytes are lost, so both peers must hear it, and a peer that reads nothing cannot delay it."""
        async with relayed(relay, world) as flow, trio.open_nursery() as nursery:
            nursery.start_soon(fill, flow.node if stalled == "client" else flow.client)
            await wait_stalled(flow)
            began = trio.current_time()
            flow.cut.cancel()
            assert None is await flow.wait_reason()
            assert_lasted(0.0, flow.ended_at - began, world)
            assert End.RESET is (await read_to_end(flow.client))[1]
            assert End.RESET is (await read_to_end(flow.node))[1]

    async def test_a_stalled_flow_does_not_outlive_its_idle_limit(
        self, relay: Relay, world: World, clock: MockClock | None
    ) -> None:
        """The limit holds for a flow stuck in a write as well."""
        async with relayed(relay, world, RelayLimits(idle=0.4)) as flow, trio.open_nursery() as nursery:
            nursery.start_soon(fill, flow.node)
            assert EndReason.IDLE is await flow.wait_reason()
            assert End.RESET is (await read_to_end(flow.client))[1]

    async def test_counters_are_exact_and_live(self, relay: Relay, world: World, clock: MockClock | None) -> None:
        """An operator watches a flow while it runs."""
        async with relayed(relay, world) as flow:
            for count in range(1, 4):
                await flow.client.send_all(bytes(1000))
                await read_exactly(flow.node, 1000)
                await flow.node.send_all(bytes(70_000))
                await read_exactly(flow.client, 70_000)
                await wait_until(partial(flow.has_moved, 1000 * count, 70_000 * count))

    async def test_the_first_byte_of_the_node_is_announced_once(
        self, relay: Relay, world: World, clock: MockClock | None
    ) -> None:
        """It is evidence about the node; the client's bytes are none."""
        seen: list[tuple[int, int]] = []
        async with relayed(relay, world, on_first_byte=lambda flow: seen.append(flow.moved)) as flow:
            await flow.client.send_all(b"abc")
            await read_exactly(flow.node, 3)
            await wait_until(lambda: 3 == flow.counters.up)
            assert [] == seen
            for _ in range(3):
                await flow.node.send_all(b"defg")
                await read_exactly(flow.client, 4)
            await wait_until(lambda: bool(seen))
            assert [3] == [up for up, _ in seen]

    async def test_a_node_that_only_ends_announces_no_byte(
        self, relay: Relay, world: World, clock: MockClock | None
    ) -> None:
        """An end of stream is no sign of life."""
        seen: list[Flow] = []
        async with relayed(relay, world, on_first_byte=seen.append) as flow:
            await flow.node.send_eof()
            assert (b"", End.EOF) == await read_to_end(flow.client)
            assert [] == seen
