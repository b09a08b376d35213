"""The portable relay in detail, on virtual time: exact moments, bugs, and any interleaving of sends and endings."""

import attrs
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from sniffgate.errors import PeerReset
from sniffgate.net.endings import PATIENCE
from sniffgate.net.ports import Conn
from sniffgate.net.relay import Counters, EndReason, RelayLimits
from sniffgate.net.relay_tasks import TaskRelay
from sniffgate.testing import VirtualNetwork
from sniffgate.testing.fabric import Buffers
from tests.net.relay_flow import (
    UNLIMITED,
    End,
    Flow,
    World,
    connect_pair,
    digest,
    noise,
    read_exactly,
    read_to_end,
    relayed,
    wait_acknowledged,
    wait_until,
)

BUFFERS = Buffers(send=65536, receive=65536)


@pytest.fixture
def world() -> World:
    return World(VirtualNetwork(buffers=BUFFERS), exact=True)


async def test_the_idle_limit_counts_from_the_last_byte_of_either_direction(
    world: World, autojump_clock: MockClock
) -> None:
    """The moment is exact, and an end of stream is no byte."""
    async with relayed(TaskRelay(), world, RelayLimits(idle=30.0)) as flow:
        await trio.sleep(20)
        await flow.client.send_all(b"a")
        await read_exactly(flow.node, 1)
        await trio.sleep(20)
        await flow.node.send_all(b"b")
        await read_exactly(flow.client, 1)
        last_byte = trio.current_time()
        await trio.sleep(10)
        await flow.client.send_eof()
        assert EndReason.IDLE is await flow.wait_reason()
        assert 30.0 == pytest.approx(flow.ended_at - last_byte, abs=1e-9)


async def test_the_half_close_limit_starts_at_the_end_of_stream_and_restarts_with_each_byte(
    world: World, autojump_clock: MockClock
) -> None:
    """A long answer keeps its flow; silence ends it, even where the flow may be idle for longer."""
    async with relayed(TaskRelay(), world, RelayLimits(idle=40.0, half_close=10.0)) as flow:
        await trio.sleep(30)
        await flow.client.send_eof()
        for _ in range(4):
            await trio.sleep(7)
            await flow.node.send_all(b"b")
            await read_exactly(flow.client, 1)
        last_byte = trio.current_time()
        assert EndReason.HALF_CLOSE_TIMEOUT is await flow.wait_reason()
        assert 10.0 == pytest.approx(flow.ended_at - last_byte, abs=1e-9)


async def test_the_idle_limit_wins_where_it_comes_before_the_half_close_limit(
    world: World, autojump_clock: MockClock
) -> None:
    """The reason names the limit that was reached."""
    async with relayed(TaskRelay(), world, RelayLimits(idle=10.0, half_close=20.0)) as flow:
        began = trio.current_time()
        await flow.client.send_eof()
        assert EndReason.IDLE is await flow.wait_reason()
        assert 10.0 == pytest.approx(flow.ended_at - began, abs=1e-9)


async def test_without_an_idle_limit_a_silent_flow_lives_on(world: World, autojump_clock: MockClock) -> None:
    """0 switches the limit off."""
    async with relayed(TaskRelay(), world) as flow:
        await trio.sleep(90)
        await flow.client.send_all(b"a")
        assert b"a" == await read_exactly(flow.node, 1)


async def _leave_bytes_in_the_send_queue(flow: Flow) -> bytes:
    """Has the node send what fills the client's receive buffer and half of the relay's send queue."""
    sent = noise(BUFFERS.receive + BUFFERS.send // 2, 1)
    await flow.node.send_all(sent)
    await wait_until(lambda: len(sent) == flow.counters.down)
    return sent


async def test_a_reset_waits_five_seconds_for_a_client_that_takes_nothing(
    world: World, autojump_clock: MockClock
) -> None:
    """A client that stands still cannot keep a dead flow for ever."""
    async with relayed(TaskRelay(), world) as flow:
        await _leave_bytes_in_the_send_queue(flow)
        began = trio.current_time()
        flow.node.abort()
        assert EndReason.NODE_RESET is await flow.wait_reason()
        assert PATIENCE == pytest.approx(flow.ended_at - began, abs=0.001)


async def test_a_reset_waits_on_while_the_client_reads(world: World, autojump_clock: MockClock) -> None:
    """Slow progress is progress: the five seconds start again with it."""
    async with relayed(TaskRelay(), world) as flow:
        sent = await _leave_bytes_in_the_send_queue(flow)
        flow.node.abort()
        received = b""
        while len(received) < len(sent):  # read at this pace, it takes longer than the reset would wait for nothing
            assert not flow.ended.is_set() or len(sent) - len(received) <= BUFFERS.receive
            await trio.sleep(2)
            received += await read_exactly(flow.client, min(10_000, len(sent) - len(received)))
        rest, end = await read_to_end(flow.client)
        assert (digest(sent), End.RESET) == (digest(received + rest), end)
        assert EndReason.NODE_RESET is flow.reason


async def test_a_cut_while_a_reset_waits_still_resets_the_client(world: World, autojump_clock: MockClock) -> None:
    """The node broke off in mid-stream: whatever happens after that, an end of stream would be a lie."""
    async with relayed(TaskRelay(), world) as flow:
        await _leave_bytes_in_the_send_queue(flow)
        flow.node.abort()
        await trio.sleep(1)
        began = trio.current_time()
        flow.cut.cancel()
        await flow.ended.wait()
        assert began == flow.ended_at
        assert End.RESET is (await read_to_end(flow.client))[1]


async def test_a_cut_is_a_reset_while_bytes_are_only_in_the_send_queue(world: World, autojump_clock: MockClock) -> None:
    """Nothing is held by the relay any more, but the client does not have it either."""
    async with relayed(TaskRelay(), world) as flow:
        await _leave_bytes_in_the_send_queue(flow)
        flow.cut.cancel()
        await flow.ended.wait()
        assert (End.RESET, End.RESET) == ((await read_to_end(flow.client))[1], (await read_to_end(flow.node))[1])


async def test_a_bug_in_the_callback_comes_out_after_both_sides_are_closed(
    world: World, autojump_clock: MockClock
) -> None:
    """A crash is contained by whoever started the flow; the peers are not left hanging."""

    def crash() -> None:
        raise ZeroDivisionError

    with trio.fail_after(10):
        client, client_inside = await connect_pair(world.network)
        node_inside, node = await connect_pair(world.network)
        with client, node:
            await node.send_all(b"hello")
            with pytest.RaisesGroup(ZeroDivisionError):
                await TaskRelay().relay(client_inside, node_inside, Counters(), UNLIMITED, crash)
            assert (b"", End.RESET) == await read_to_end(client)
            assert End.RESET is (await read_to_end(node))[1]


# --- any interleaving ------------------------------------------------------------------------------------------------


@attrs.frozen
class Script:
    """What one peer does: sends chunks with pauses, ends in one of three ways, and reads in bites with pauses."""

    chunks: list[tuple[int, float]]
    ending: str  # "eof", "reset", "eof then reset"
    bite: int
    nap: float


@attrs.define
class Seen:
    """What one peer sent and received."""

    sent: bytes = b""
    received: bytes = b""
    end: End | None = None
    broke_off: bool = False  # reset its connection before its own reading was done


PAUSES = st.sampled_from([0.0, 0.0, 0.001, 0.5])
SCRIPTS = st.builds(
    Script,
    chunks=st.lists(st.tuples(st.sampled_from([1, 100, 5000, 65_536, 65_537, 200_000]), PAUSES), max_size=5),
    ending=st.sampled_from(["eof", "eof", "reset", "eof then reset"]),
    bite=st.sampled_from([1000, 30_000, 65_536]),
    nap=st.sampled_from([0.0, 0.001, 0.02]),
)


async def _speak(conn: Conn, script: Script, seen: Seen, seed: int) -> None:
    try:
        for number, (size, pause) in enumerate(script.chunks):
            chunk = noise(size, seed + number)
            seen.sent += chunk
            await conn.send_all(chunk)
            await trio.sleep(pause)
    except PeerReset:
        return
    if script.ending != "reset":
        await conn.send_eof()
    if script.ending != "eof":
        await wait_acknowledged(conn)
        seen.broke_off = seen.end is None
        conn.abort()


async def _listen(conn: Conn, script: Script, seen: Seen) -> None:
    try:
        while chunk := await conn.receive_some(script.bite):
            seen.received += chunk
            await trio.sleep(script.nap)
        seen.end = End.EOF
    except PeerReset:
        seen.end = End.RESET
    except trio.ClosedResourceError:
        pass  # its own reset


async def _play(client_script: Script, node_script: Script) -> tuple[Seen, Seen, EndReason | None, Counters]:
    client, node = Seen(), Seen()
    async with relayed(TaskRelay(), World(VirtualNetwork(), exact=True), RelayLimits(half_close=60.0)) as flow:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_speak, flow.client, client_script, client, 100)
            nursery.start_soon(_listen, flow.client, client_script, client)
            nursery.start_soon(_speak, flow.node, node_script, node, 200)
            nursery.start_soon(_listen, flow.node, node_script, node)
        reason = await flow.wait_reason()
    return client, node, reason, flow.counters


@pytest.mark.virtual
@settings(max_examples=60, deadline=None)
@given(client_script=SCRIPTS, node_script=SCRIPTS)
def test_any_interleaving_delivers_a_prefix_and_a_finished_stream_whole(
    client_script: Script, node_script: Script
) -> None:
    """Nothing is ever doubled or reordered, and no part is passed off as the whole."""
    clock = MockClock(autojump_threshold=0)
    client, node, reason, counters = trio.run(_play, client_script, node_script, clock=clock)

    assert node.sent.startswith(client.received)
    assert client.sent.startswith(node.received)
    assert len(node.received) <= counters.up <= len(client.sent)
    assert len(client.received) <= counters.down <= len(node.sent)
    for reader, writer in ((client, node), (node, client)):
        if reader.end is End.EOF:
            assert digest(writer.sent) == digest(reader.received)
    if not client.broke_off and not node.broke_off and "reset" not in (client_script.ending, node_script.ending):
        assert (End.EOF, End.EOF) == (client.end, node.end)
    if not client.broke_off:
        # Whatever the node did, it had sent all of this before, and the client read on.
        assert digest(node.sent) == digest(client.received)
    if "reset" == node_script.ending and "eof" == client_script.ending:
        assert End.RESET is client.end
    if "eof" == client_script.ending == node_script.ending:
        assert EndReason.COMPLETE is reason
