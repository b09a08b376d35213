"""The engine's thread: it costs nothing while nothing happens, and what goes wrong in it is never silent."""

import contextlib
import os
import select
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from sniffgate.address import Address
from sniffgate.net.engine import EngineRelay
from sniffgate.net.engine_flow import EngineFlow
from sniffgate.net.engine_loop import EngineLoop
from sniffgate.net.engine_reports import Reports
from sniffgate.net.ports import Conn
from sniffgate.net.relay import Counters, RelayLimits
from sniffgate.net.sockets import SocketNetwork
from tests.net.engine_looking import Epoll, assert_quiet, plain_pair, registered
from tests.net.relay_flow import World, read_exactly, relayed, wait_until

pytestmark = pytest.mark.realnet

WORLD = World(SocketNetwork(), exact=False)


@pytest.fixture
async def relay(nursery: trio.Nursery) -> AsyncIterator[EngineRelay]:
    """A running engine."""
    relay = EngineRelay()
    await nursery.start(relay.run)
    yield relay
    relay.stop()


def descriptors() -> int:
    """How many this process has open."""
    return len(os.listdir("/proc/self/fd"))


# --- quiet ----------------------------------------------------------------------------------------------


async def test_two_hundred_idle_flows_wake_nobody(relay: EngineRelay) -> None:
    """An idle connection costs memory and nothing else."""
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            for _ in range(200):
                (client, client_inside), (node_inside, node) = [await plain_pair() for _ in range(2)]
                nursery.start_soon(hold, client, node)
                nursery.start_soon(relay.relay, client_inside, node_inside, Counters(), RelayLimits(idle=600.0))
            await wait_until(lambda: 200 == len(relay.loop))
            await trio.sleep(0.1)
            before = relay.loop.wakeups
            await trio.sleep(1.0)
            assert before == relay.loop.wakeups
            nursery.cancel_scope.cancel()
    assert {} == registered(relay.loop)


async def hold(*conns: Conn) -> None:
    """Keeps connections open until cancelled."""
    with contextlib.ExitStack() as stack:
        for conn in conns:
            stack.enter_context(conn)
        await trio.sleep_forever()


async def test_a_wake_up_call_that_comes_late_does_not_wake_the_engine_for_ever(relay: EngineRelay) -> None:
    """A command may be seen and run before its caller has made the call; the call must be taken all the same."""
    async with relayed(relay, WORLD) as flow:
        loop, ran = relay.loop, trio.Event()
        token = trio.lowlevel.current_trio_token()
        # What `call` does, interrupted by the other thread before its last step:
        loop._woken = True
        loop._commands.append(lambda: token.run_sync_soon(ran.set))
        await flow.client.send_all(b"another event")
        await read_exactly(flow.node, 13)
        await ran.wait()
        os.eventfd_write(loop._wake, 1)

        await trio.sleep(0.05)
        await assert_quiet(loop)


async def test_commands_from_a_busy_caller_all_run_and_leave_the_engine_quiet(relay: EngineRelay) -> None:
    """The same by chance instead of by hand."""
    done: list[int] = []
    async with relayed(relay, WORLD) as flow:
        for number in range(3000):
            relay.loop.call(lambda number=number: done.append(number))  # type: ignore[misc]  # a loop variable
            if not number % 50:
                await flow.client.send_all(b"x")
                await trio.lowlevel.checkpoint()
        await wait_until(lambda: 3000 == len(done))
        assert list(range(3000)) == done
        await trio.sleep(0.05)
        await assert_quiet(relay.loop)


# --- registering from two threads -------------------------------------------------------------------------


def test_registering_that_is_overtaken_by_the_other_thread_is_no_crash() -> None:
    """A flow's first event may concern its other end, which the attaching thread is just about to register."""
    loop = EngineLoop()
    epoll = Epoll(select.epoll(), overtaken=True)
    loop._epoll = epoll  # type: ignore[assignment]  # does what a second thread would
    left, right = socket.socketpair()
    with left, right, epoll.real:
        flow = EngineFlow(loop, left, right, Counters(), RelayLimits(), None, lambda _: None)
        loop.watch(flow.client, select.EPOLLOUT)
        assert [(left.fileno(), select.EPOLLOUT)] == epoll.real.poll(0)


@pytest.mark.parametrize("room", [0, 1])
async def test_a_flow_for_which_the_kernel_has_no_room_ends_alone(relay: EngineRelay, room: int) -> None:
    """fs.epoll.max_user_watches is a limit per user. The first end may be in use when the second is refused."""
    async with relayed(relay, WORLD) as bystander:
        await bystander.client.send_all(b"x")
        await read_exactly(bystander.node, 1)
        real = relay.loop._epoll
        relay.loop._epoll = Epoll(real, room=room)  # type: ignore[assignment]  # one without room
        (client, client_inside), (node_inside, node) = [await plain_pair() for _ in range(2)]
        with client, node, trio.fail_after(5):
            with pytest.raises(RuntimeError, match="met a bug"):
                await relay.relay(client_inside, node_inside, Counters(), RelayLimits())
            assert {-1} == {conn.fileno() for conn in (client_inside, node_inside)}
        relay.loop._epoll = real
        assert 1 == len(relay.loop)
        await bystander.client.send_all(b"unharmed")
        assert b"unharmed" == await read_exactly(bystander.node, 8)


async def test_a_flow_that_is_over_is_watched_no_more_when_its_task_hears_of_it() -> None:
    """The task closes the sockets at once; until then the kernel would go on reporting them."""
    loop = EngineLoop()
    loop.open(Reports(trio.lowlevel.current_trio_token()))
    (client_peer, client), (node, node_peer) = await plain_pair(), await plain_pair()
    with client_peer, client, node, node_peer:
        heard: list[dict[int, int]] = []
        flow = EngineFlow(
            loop, client.plain, node.plain, Counters(), RelayLimits(), None, lambda _: heard.append(registered(loop))
        )
        loop.attach(flow)
        assert {client.fileno(), node.fileno()} == set(registered(loop))
        loop.finish(flow)
        assert [{}] == heard
        loop.close()


# --- a crash --------------------------------------------------------------------------------------------


async def test_a_crash_of_the_engine_comes_out_of_run_and_wakes_every_flow() -> None:
    """A silent stall would be the worst end of all: everybody waits, and nobody is told."""
    before = descriptors()
    relay = EngineRelay()
    crashed, woken = trio.Event(), 0
    crashing, trigger = socket.socketpair()

    async def run(*, task_status: trio.TaskStatus[None]) -> None:
        with pytest.raises(ZeroDivisionError, match="integer"):
            await relay.run(task_status=task_status)
        crashed.set()

    async def relay_one(client: Conn, node: Conn) -> None:
        nonlocal woken
        with pytest.raises(RuntimeError, match="met a bug"):
            await relay.relay(client, node, Counters(), RelayLimits(idle=600.0))
        woken += 1

    async def receive() -> None:
        nonlocal woken
        with (
            await SocketNetwork().listen_udp(Address("127.0.0.1", 0)) as front,
            pytest.raises(RuntimeError, match="has ended"),
        ):
            await relay.receive_forever(front, lambda _: None)
        woken += 1

    with trio.fail_after(10), contextlib.ExitStack() as stack:
        stack.enter_context(crashing)
        stack.enter_context(trigger)
        async with trio.open_nursery() as nursery:
            await nursery.start(run)
            nursery.start_soon(receive)
            for _ in range(5):
                (client, client_inside), (node_inside, node) = [await plain_pair() for _ in range(2)]
                stack.enter_context(client)
                stack.enter_context(node)
                nursery.start_soon(relay_one, client_inside, node_inside)
            await wait_until(lambda: 5 == len(relay.loop) and 1 == len(relay.loop._handlers))
            relay.loop.call(lambda: relay.loop.add(crashing.fileno(), select.EPOLLIN, lambda _: print(1 // 0)))
            trigger.send(b"x")
            await crashed.wait()
        assert 6 == woken
        # who comes now is told at once
        (client, client_inside), (node_inside, node) = [await plain_pair() for _ in range(2)]
        with client, node, pytest.raises(RuntimeError, match="has ended"):
            await relay.relay(client_inside, node_inside, Counters(), RelayLimits())
    assert before == descriptors()


async def test_commands_that_come_while_the_engine_ends_are_run(nursery: trio.Nursery) -> None:
    """Whoever asks last waits for an answer like everybody else."""
    relay = EngineRelay()
    await nursery.start(relay.run)
    ran: list[str] = []
    relay.stop()
    with trio.fail_after(5):
        for _ in range(1000):
            relay.loop.call(lambda: ran.append("x"))
            await trio.lowlevel.checkpoint()
        await wait_until(lambda: relay.loop._is_over)
        assert 1000 == len(ran)
        relay.loop.call(lambda: ran.append("after"))
        assert "after" == ran[-1]


async def test_an_engine_that_never_ran_holds_no_descriptor() -> None:
    """A start that fails for a busy port must leave nothing behind."""
    before = descriptors()
    relays = [EngineRelay() for _ in range(10)]
    assert before == descriptors()
    del relays


async def test_a_run_gives_back_every_descriptor() -> None:
    """Gateways come and go in one process, in tests and in libraries."""
    async with trio.open_nursery() as nursery:  # the first use of a thread keeps nothing that is counted below
        relay = EngineRelay()
        await nursery.start(relay.run)
        relay.stop()
    before = sorted(Path(f"/proc/self/fd/{fd}").name for fd in os.listdir("/proc/self/fd"))
    for _ in range(3):
        async with trio.open_nursery() as nursery:
            relay = EngineRelay()
            await nursery.start(relay.run)
            async with relayed(relay, WORLD) as flow, trio.open_nursery() as sending:
                sending.start_soon(flow.node.send_all, bytes(3_000_000))
                await read_exactly(flow.client, 3_000_000)
            relay.stop()
    assert len(before) == descriptors()
