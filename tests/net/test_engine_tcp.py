"""What the relay engine owes its TCP flows beyond the contract: bulk through pipes, back-pressure, resets, fairness."""

import contextlib
import fcntl
import os
import struct
import termios
import time
from collections.abc import AsyncIterator
from multiprocessing import get_context
from socket import create_connection

import pytest
import trio

from sniffgate.address import Address
from sniffgate.net import engine_flow
from sniffgate.net.engine import EngineRelay
from sniffgate.net.engine_flow import BUFFER_BYTES, EngineFlow
from sniffgate.net.engine_loop import EngineLoop
from sniffgate.net.pipes import MOST_PIPES, Pipe, PipePool
from sniffgate.net.ports import Conn
from sniffgate.net.relay import Counters, EndReason, RelayLimits
from sniffgate.net.sockets import SocketNetwork
from tests.net.engine_looking import assert_quiet, pipes_in_use, plain_pair, watched
from tests.net.relay_flow import (
    MB,
    End,
    Flow,
    World,
    digest,
    fill,
    noise,
    read_digest,
    read_exactly,
    read_to_end,
    relayed,
    wait_acknowledged,
    wait_stalled,
    wait_until,
)

pytestmark = pytest.mark.realnet

WORLD = World(SocketNetwork(), exact=False)


@pytest.fixture
async def relay(nursery: trio.Nursery) -> AsyncIterator[EngineRelay]:
    """A running engine, which must still run at the end of the test."""
    relay = EngineRelay()
    await nursery.start(relay.run)
    yield relay
    answered = trio.Event()
    token = trio.lowlevel.current_trio_token()
    relay.loop.call(lambda: token.run_sync_soon(answered.set))
    with trio.fail_after(5):
        await answered.wait()
    relay.stop()


async def fill_with(conn: Conn, byte: int) -> None:
    """Sends one byte for ever, until the connection breaks or the test ends."""
    chunk = bytes([byte]) * 65536
    with contextlib.suppress(Exception):
        while True:
            await conn.send_all(chunk)


# --- bulk ---------------------------------------------------------------------------------------------


async def test_no_byte_of_a_flow_that_was_cut_in_bulk_appears_in_another(relay: EngineRelay) -> None:
    """A pipe that went back with bytes in it would hand one client's data to the next."""
    cut_with_bytes_in_a_pipe = 0
    for number in range(60):
        async with relayed(relay, WORLD) as flow, trio.open_nursery() as nursery:
            nursery.start_soon(fill_with, flow.node, number)
            received = await read_exactly(flow.client, 200_000)
            await wait_stalled_soon(flow)
            cut_with_bytes_in_a_pipe += any(pipe.level for pipe in pipes_in_use(relay.loop))
            flow.cut.cancel()
            assert None is await flow.wait_reason()
            rest, _ = await read_to_end(flow.client)
            assert {number} == set(received + rest)
            nursery.cancel_scope.cancel()
    assert cut_with_bytes_in_a_pipe > 30
    for pipe in relay.loop.pipes._idle:
        assert 0 == readable_bytes(pipe)


async def wait_stalled_soon(flow: Flow) -> None:
    """Returns when nothing has moved for a moment; less patient than `wait_stalled`."""
    before = (-1, -1)
    while before != flow.moved:
        before = flow.moved
        await trio.sleep(0.03)


def readable_bytes(pipe: Pipe) -> int:
    """What is in a pipe, as the kernel sees it."""
    (size,) = struct.unpack("i", fcntl.ioctl(pipe.reader, termios.FIONREAD, bytes(4)))
    return int(size)


def test_a_pipe_that_is_not_empty_is_closed_and_not_kept() -> None:
    """The pool's own promise."""
    pool = PipePool(most=2)
    first, second = pool.take(), pool.take()
    assert first is not None
    assert second is not None
    assert None is pool.take()
    first.level = os.write(first.writer, b"secret")
    pool.give_back(first)
    pool.give_back(second)
    assert 1 == pool.open
    assert second is pool.take()
    with pytest.raises(OSError):
        os.read(first.reader, 1)
    pool.give_back(second)
    pool.close()
    assert 0 == pool.open


async def test_bulk_goes_on_by_copying_when_every_pipe_is_taken(relay: EngineRelay) -> None:
    """Stalled readers hold the pipes as long as they like; nobody else is slower than without pipes."""
    content = noise(8 * MB, 21)
    async with contextlib.AsyncExitStack() as stack:
        stalled = [await stack.enter_async_context(relayed(relay, WORLD)) for _ in range(MOST_PIPES + 4)]
        nursery = await stack.enter_async_context(trio.open_nursery())
        for number, flow in enumerate(stalled):
            nursery.start_soon(fill_with, flow.node, number)
        await wait_until(lambda: MOST_PIPES == relay.loop.pipes.open)
        for flow in stalled[:4]:
            await wait_stalled_soon(flow)

        async with relayed(relay, WORLD) as flow:
            nursery.start_soon(flow.node.send_all, content)
            assert digest(content) == await read_digest(flow.client, len(content))
            assert MOST_PIPES == relay.loop.pipes.open

        for number, flow in enumerate(stalled):
            assert {number} == set(await read_exactly(flow.client, 300_000))
        nursery.cancel_scope.cancel()
        for flow in stalled:
            flow.cut.cancel()
            await flow.wait_reason()
    assert [] == pipes_in_use(relay.loop)


async def test_a_flow_that_turns_from_bulk_to_small_pieces_and_back_stays_whole(relay: EngineRelay) -> None:
    """Each change hands the stream from the buffer to a pipe or back; a pipe is not kept while it is not needed."""
    async with relayed(relay, WORLD) as flow, trio.open_nursery() as nursery:
        for number in range(4):
            bulk = noise(3 * MB, number)
            nursery.start_soon(flow.node.send_all, bulk)
            assert digest(bulk) == await read_digest(flow.client, len(bulk))
            for size in (1, 100, 1460):
                await flow.node.send_all(bulk[:size])
                assert bulk[:size] == await read_exactly(flow.client, size)
            await wait_until(lambda: [] == pipes_in_use(relay.loop))
        # the last bytes are read here before the engine's thread has counted what it sent
        await wait_until(lambda: (0, 4 * (3 * MB + 1561)) == flow.moved)


async def test_the_first_byte_is_announced_once_in_bulk_too(relay: EngineRelay) -> None:
    """The change to a pipe must not announce it again."""
    seen: list[Flow] = []
    async with relayed(relay, WORLD, on_first_byte=seen.append) as flow, trio.open_nursery() as nursery:
        nursery.start_soon(flow.node.send_all, bytes(5 * MB))
        await read_digest(flow.client, 5 * MB)
        await wait_until(lambda: bool(seen))
        assert [flow] == seen


# --- what is watched for --------------------------------------------------------------------------------


async def test_room_to_write_is_watched_for_only_while_something_waits(relay: EngineRelay) -> None:
    """A socket nearly always has room: watched for without need, it would keep the engine awake."""
    async with relayed(relay, WORLD) as flow:
        await flow.client.send_all(b"x")
        await read_exactly(flow.node, 1)
        assert [("in",), ("in",)] == watched(relay.loop)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(flow.node.send_all, bytes(20 * MB))
            await wait_stalled(flow)
            assert [("in", "out"), ()] == sorted(watched(relay.loop), reverse=True)
            await assert_quiet(relay.loop)
            await read_digest(flow.client, 20 * MB)
        await wait_until(lambda: [("in",), ("in",)] == watched(relay.loop))


@pytest.mark.parametrize("breaker", ["client", "node"])
async def test_a_reset_behind_back_pressure_waits_without_spinning(relay: EngineRelay, breaker: str) -> None:
    """What that side had sent is delivered first, however long its reader takes; then the reset is seen."""
    async with relayed(relay, WORLD) as flow:
        breaking, reader = (flow.client, flow.node) if breaker == "client" else (flow.node, flow.client)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fill_with, breaking, 7)
            await wait_stalled(flow)
            nursery.cancel_scope.cancel()
        breaking.abort()
        await trio.sleep(0.1)
        await assert_quiet(relay.loop)
        assert not flow.ended.is_set()

        received, end = await read_to_end(reader)
        assert {7} == set(received)
        assert End.RESET is end
        expected = EndReason.CLIENT_RESET if breaker == "client" else EndReason.NODE_RESET
        assert expected is await flow.wait_reason()


@pytest.mark.parametrize("breaker", ["client", "node"])
async def test_a_reset_while_both_ways_are_stalled_does_not_spin(relay: EngineRelay, breaker: str) -> None:
    """The failed write says that the side is gone, while its own last bytes still wait for the other."""
    async with relayed(relay, WORLD) as flow:
        breaking, reader = (flow.client, flow.node) if breaker == "client" else (flow.node, flow.client)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fill_with, breaking, 7)
            nursery.start_soon(fill_with, reader, 8)
            await wait_stalled(flow)
            nursery.cancel_scope.cancel()
        breaking.abort()
        await trio.sleep(0.1)
        await assert_quiet(relay.loop)

        received, end = await read_to_end(reader)
        assert {7} == set(received)
        assert End.RESET is end
        expected = EndReason.CLIENT_RESET if breaker == "client" else EndReason.NODE_RESET
        assert expected is await flow.wait_reason()


@pytest.mark.parametrize("breaker", ["client", "node"])
async def test_a_side_that_ended_and_then_resets_ends_the_idle_flow(relay: EngineRelay, breaker: str) -> None:
    """Nothing is read from it any more, so only the kernel's report of an error tells."""
    async with relayed(relay, WORLD) as flow:
        breaking, other = (flow.client, flow.node) if breaker == "client" else (flow.node, flow.client)
        await breaking.send_all(b"last")
        await breaking.send_eof()
        assert (b"last", End.EOF) == await read_to_end(other)
        await wait_acknowledged(breaking)
        await assert_quiet(relay.loop)

        breaking.abort()
        expected = EndReason.CLIENT_RESET if breaker == "client" else EndReason.NODE_RESET
        assert expected is await flow.wait_reason()


async def test_resets_of_both_sides_at_once_end_the_flow(relay: EngineRelay) -> None:
    """Whichever is seen first decides; the other must not hold the flow."""
    for _ in range(30):
        async with relayed(relay, WORLD) as flow:
            await flow.client.send_all(b"x")
            await read_exactly(flow.node, 1)
            flow.client.abort()
            flow.node.abort()
            assert await flow.wait_reason() in (EndReason.CLIENT_RESET, EndReason.NODE_RESET)
    assert 0 == len(relay.loop)


# --- limits ---------------------------------------------------------------------------------------------


async def test_the_first_flow_after_a_quiet_time_has_its_whole_idle_limit(relay: EngineRelay) -> None:
    """The engine's clock stands still while nothing happens; a new flow must not be as old as the last event."""
    async with relayed(relay, WORLD):
        await trio.sleep(0.6)  # no event
        async with relayed(relay, WORLD, RelayLimits(idle=0.4)) as flow:
            await trio.sleep(0.2)
            await flow.client.send_all(b"x")
            assert b"x" == await read_exactly(flow.node, 1)
            assert not flow.ended.is_set()
            assert EndReason.IDLE is await flow.wait_reason()


async def test_flows_that_are_over_are_not_kept_until_their_limits(relay: EngineRelay) -> None:
    """A limit of five minutes at a thousand flows a second would keep three hundred thousand of them."""
    for _ in range(300):
        async with relayed(relay, WORLD, RelayLimits(idle=3600, half_close=300)) as flow:
            await flow.client.send_eof()
            await read_to_end(flow.node)
            await flow.node.send_eof()
            assert EndReason.COMPLETE is await flow.wait_reason()
    assert len(relay.loop._timers) < 150


async def test_discarded_bytes_keep_no_flow_from_its_idle_limit() -> None:
    """A side that sends to one that takes no more is not a flow that moves."""
    loop = EngineLoop()
    loop.now = 100.0
    (client, client_peer), (node, node_peer) = await plain_pair(), await plain_pair()
    with client, client_peer, node, node_peer:
        flow = EngineFlow(loop, client.plain, node.plain, Counters(), RelayLimits(), None, lambda _: None)
        flow.node.deaf = True
        await client_peer.send_all(b"into the void")
        await wait_until(lambda: bool(client_peer.unsent() == 0))
        await trio.sleep(0.01)
        flow.last_byte = 1.0
        flow.readable(flow.client)
        assert (1.0, 0) == (flow.last_byte, flow.counters.up)


# --- bugs -----------------------------------------------------------------------------------------------


class Poisoned(Counters):
    """Counters with a bug in them."""

    def __setattr__(self, name: str, value: int) -> None:
        if value:
            raise ZeroDivisionError("a bug")
        super().__setattr__(name, value)


async def test_a_bug_in_one_flow_ends_that_flow_alone(relay: EngineRelay) -> None:
    """One flow's bug is one client's trouble, told to its task."""
    async with relayed(relay, WORLD) as bystander:
        (client, client_inside), (node_inside, node) = await plain_pair(), await plain_pair()
        async with trio.open_nursery() as nursery:

            async def relay_it() -> None:
                with pytest.raises(RuntimeError, match="bug in this flow"):
                    await relay.relay(client_inside, node_inside, Poisoned(), RelayLimits())

            nursery.start_soon(relay_it)
            await client.send_all(b"x")
        assert client_inside.is_closed
        assert node_inside.is_closed
        client.close()
        node.close()
        assert 1 == len(relay.loop)
        await bystander.client.send_all(b"unharmed")
        assert b"unharmed" == await read_exactly(bystander.node, 8)


# --- fairness -------------------------------------------------------------------------------------------


def serve_zeros(port: int) -> None:
    """A node in a process of its own that sends without end, and a client that takes it all."""
    with create_connection(("127.0.0.1", port)) as conn, contextlib.suppress(OSError):
        chunk = bytes(1024 * 1024)
        while True:
            conn.sendall(chunk)


def take_all(port: int) -> None:
    """The other side of it."""
    with create_connection(("127.0.0.1", port)) as conn, contextlib.suppress(OSError):
        while conn.recv(1024 * 1024):
            pass


@pytest.mark.slow
async def test_bulk_flows_do_not_starve_a_small_one(relay: EngineRelay) -> None:
    """Each event moves a bounded part of a bulk flow: small pieces wait for one round of all of them at most."""

    async def round_trips(flow: Flow, count: int) -> list[float]:
        times = []
        for _ in range(count):
            began = time.perf_counter()
            await flow.client.send_all(bytes(64))
            await read_exactly(flow.node, 64)
            times.append(time.perf_counter() - began)
        return sorted(times)

    processes = []
    spawn = get_context("spawn")
    try:
        with trio.fail_after(60):
            async with relayed(relay, World(SocketNetwork(), exact=True)) as flow:
                idle = (await round_trips(flow, 400))[395]
                bulk: list[Counters] = []
                async with trio.open_nursery() as nursery:
                    for _ in range(4):
                        ends: list[Conn] = []
                        for target in (take_all, serve_zeros):
                            with await SocketNetwork().listen_tcp(Address("127.0.0.1", 0)) as acceptor:
                                process = spawn.Process(target=target, args=(acceptor.address.port,), daemon=True)
                                process.start()
                                processes.append(process)
                                ends.append(await acceptor.accept())
                        bulk.append(Counters())
                        nursery.start_soon(relay.relay, ends[0], ends[1], bulk[-1], RelayLimits())
                    await wait_until(lambda: all(each.down > 50 * MB for each in bulk))
                    loaded = (await round_trips(flow, 400))[395]
                    nursery.cancel_scope.cancel()
        assert loaded < max(100 * idle, 0.25), (idle, loaded)
    finally:
        for process in processes:
            process.kill()
            process.join()
            process.close()


async def test_one_event_moves_a_bounded_part_of_a_bulk_flow(
    relay: EngineRelay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the kernel has ready: the next event is somebody else's turn."""
    monkeypatch.setattr(engine_flow, "SPLICE_BYTES", BUFFER_BYTES)
    loop = EngineLoop()
    (client, client_peer), (node, node_peer) = await plain_pair(), await plain_pair()
    with client, client_peer, node, node_peer:
        counters = Counters()
        flow = EngineFlow(loop, client.plain, node.plain, counters, RelayLimits(), None, lambda _: None)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fill, node_peer)
            await trio.sleep(0.1)
            nursery.cancel_scope.cancel()
        flow.client.pipe = loop.pipes.take()
        flow.readable(flow.node)
        assert 0 < counters.down <= engine_flow.SPLICE_ROUNDS * BUFFER_BYTES
        loop.pipes.close()
