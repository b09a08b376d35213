"""Shortcuts in the engine: who is taken in, who is given back, and what the owner hears."""

import contextlib
import gc
import os
import resource
import select
import socket
from collections.abc import AsyncIterator, Iterator
from typing import cast

import attrs
import pytest
import trio

from sniffgate.address import Address
from sniffgate.errors import ConnectFailed, LocalShortage, PeerReset
from sniffgate.net.engine import EngineRelay
from sniffgate.net.engine_direct import DirectFlow
from sniffgate.net.engine_loop import FEW_TIMERS
from sniffgate.net.ports import Acceptor, Conn
from sniffgate.net.relay import EndReason, RelayLimits
from sniffgate.net.shortcut import PATIENCE, ROOM_LEFT, FlowGroup, Leaving, TakenFlow
from sniffgate.net.sockets import SocketNetwork
from sniffgate.net.tcp_sockets import SocketAcceptor, SocketConn
from tests.net.direct_flow import Owner, shortcut_to
from tests.net.engine_looking import Epoll, assert_quiet, registered
from tests.net.relay_flow import End, World, read_exactly, read_to_end, relayed, wait_until

pytestmark = pytest.mark.realnet

LIMIT = 10.0  # seconds for each test; they take a fraction of one
LOCALHOST = Address("127.0.0.1", 0)


@attrs.define(eq=False)
class Door:
    """A listening socket with a shortcut to a node that the test plays."""

    relay: EngineRelay
    front: Acceptor
    node: Acceptor
    owner: Owner
    nursery: trio.Nursery
    group: FlowGroup = attrs.field(factory=FlowGroup)
    limits: RelayLimits = attrs.field(factory=RelayLimits)
    stands: bool = True
    room: float = float("inf")
    patience: float = PATIENCE
    node_address: Address | None = None  # of another node than `node`
    leaving: Leaving | None = None
    left: trio.Event = attrs.field(factory=trio.Event)

    async def admit(self) -> None:
        """Takes clients in until that ends."""
        shortcut = shortcut_to(
            self.node_address or self.node.address,
            self.owner,
            limits=self.limits,
            group=self.group,
            stands=lambda: self.stands,
            room=lambda: self.room,
            patience=self.patience,
        )
        try:
            self.leaving = await self.relay.admit(self.front, shortcut)
        finally:
            self.left.set()

    async def client(self) -> Conn:
        """A connection to the front."""
        return await SocketNetwork().connect_tcp(self.front.address)

    async def come_and_listen(self) -> None:
        """Connects and waits for a byte."""
        with await self.client() as client:
            await client.receive_some(1)

    async def told(self) -> TakenFlow:
        """The first flow that the owner heard of, once it has."""
        await wait_until(lambda: bool(self.owner.told))
        return self.owner.told[0][1]

    async def flow(self) -> tuple[Conn, Conn]:
        """A client and what its node has of it, with a byte passed each way."""
        client = await self.client()
        node = await self.node.accept()
        await client.send_all(b"q")
        assert b"q" == await read_exactly(node, 1)
        await node.send_all(b"a")
        assert b"a" == await read_exactly(client, 1)
        return client, node


@contextlib.asynccontextmanager
async def open_door() -> AsyncIterator[Door]:
    """A door with an engine of its own. Whatever runs in `door.nursery` ends with the block."""
    network, relay = SocketNetwork(), EngineRelay()
    with trio.fail_after(LIMIT):
        async with trio.open_nursery() as engine:
            await engine.start(relay.run)
            with contextlib.ExitStack() as stack:
                stack.callback(relay.stop)
                front = stack.enter_context(await network.listen_tcp(LOCALHOST))
                node = stack.enter_context(await network.listen_tcp(LOCALHOST))
                async with trio.open_nursery() as nursery:
                    yield Door(relay, front, node, Owner(nursery), nursery)
                    nursery.cancel_scope.cancel()


async def test_a_client_is_taken_in_and_its_owner_hears_all_of_it_in_order() -> None:
    """The flow never was a task, and yet the books have its beginning, its answer, its bytes and its end."""
    async with open_door() as door:
        door.nursery.start_soon(door.admit)
        client, node = await door.flow()
        with client, node:
            flow = await door.told()
            assert client.local == flow.client.peer
            await client.send_eof()
            assert (b"", End.EOF) == await read_to_end(node)
            await node.send_eof()
            assert (b"", End.EOF) == await read_to_end(client)
            await door.owner.over.wait()

        assert ["begun", "heard", "ended"] == door.owner.words(flow)
        assert [EndReason.COMPLETE] == door.owner.reasons
        assert (1, 1) == (flow.counters.up, flow.counters.down)
        assert flow.ended is not None
        assert flow.began <= flow.ended <= trio.current_time()
        assert {-1} == {cast("SocketConn", conn).fileno() for conn in (flow.client, flow.node)}
        assert set() == door.group.flows


async def test_the_books_of_a_thousand_short_flows_are_right() -> None:
    """Reports go out together when there are many; none may be lost or told twice, and none of them early."""
    async with open_door() as door:
        door.nursery.start_soon(door.admit)

        async def answer_all() -> None:
            while True:
                with await door.node.accept() as node:
                    await node.send_all(await node.receive_some(10))

        door.nursery.start_soon(answer_all)
        for number in range(1000):
            with await door.client() as client:
                word = str(number).encode()
                await client.send_all(word)
                assert word == await read_exactly(client, len(word))
                await client.send_eof()
                assert (b"", End.EOF) == await read_to_end(client)
        await wait_until(lambda: 1000 == len(door.owner.reasons))
        flows = list(dict.fromkeys(flow for _, flow in door.owner.told))
        assert 1000 == len(flows)
        assert {("begun", "heard", "ended")} == {tuple(door.owner.words(flow)) for flow in flows[::50]}
        assert [len(str(number)) for number in range(1000)] == [flow.counters.up for flow in flows]


async def test_flows_that_are_over_are_freed_without_a_garbage_collection() -> None:
    """Full collections are rare: what waits for one is megabytes after a crowd."""
    async with open_door() as door:
        door.nursery.start_soon(door.admit)
        gc.collect()
        gc.disable()
        try:
            for _ in range(300):
                client, node = await door.flow()
                client.close()
                node.close()
            await wait_until(lambda: 300 == len(door.owner.reasons))
            left = sum(isinstance(each, DirectFlow) for each in gc.get_objects())
        finally:
            gc.enable()
        assert left <= 2 * FEW_TIMERS  # that many may still have a timer


async def test_no_client_comes_in_once_the_shortcut_stands_no_more() -> None:
    """Whoever connects after a switch was answered must not land at the old node, whichever thread is quicker."""
    async with open_door() as door:
        door.nursery.start_soon(door.admit)
        with contextlib.ExitStack() as held:
            for conn in await door.flow():
                held.enter_context(conn)
            door.stands = False
            with await door.client() as late:
                await door.left.wait()
                assert Leaving.STALE is door.leaving
                with await door.front.accept() as accepted:
                    assert late.local == accepted.peer


async def test_the_last_slots_are_left_to_the_tasks() -> None:
    """Two threads cannot count to an exact bound without a lock; far from the bound they need not."""
    async with open_door() as door:
        door.room = ROOM_LEFT + 1
        door.nursery.start_soon(door.admit)
        with contextlib.ExitStack() as held:
            for conn in await door.flow():
                held.enter_context(conn)
            door.room = ROOM_LEFT
            held.enter_context(await door.client())
            await door.left.wait()
            assert Leaving.FULL is door.leaving
            assert 1 == len({flow for _, flow in door.owner.told})
            held.enter_context(await door.front.accept())


async def test_clients_who_wait_at_another_door_count_where_slots_are_shared() -> None:
    """Each of them will hold a slot as soon as its node answers, and one bound holds for all listeners together."""
    with crowded_node() as (address, _):
        async with open_door() as door:
            with await SocketNetwork().listen_tcp(LOCALHOST) as second_front, contextlib.ExitStack() as held:
                doors = [
                    attrs.evolve(door, front=front, room=ROOM_LEFT + 2, patience=60.0, node_address=address)
                    for front in (door.front, second_front)
                ]
                async with trio.open_nursery() as nursery:
                    for each in doors:
                        each.left = trio.Event()
                        nursery.start_soon(each.admit)
                        held.enter_context(await each.client())
                    await wait_until(lambda: 2 == door.relay.loop.clients_waiting)
                    held.enter_context(await doors[0].client())
                    await doors[0].left.wait()
                    assert Leaving.FULL is doors[0].leaving
                    assert 1 == door.relay.loop.clients_waiting  # the other door's
                    nursery.cancel_scope.cancel()
                assert 0 == door.relay.loop.clients_waiting
                for conn, begun, _ in door.owner.given_back:
                    held.enter_context(conn)
                    begun.close()


async def test_a_client_whose_node_refuses_is_given_back_with_the_refusal() -> None:
    """It has not been read from, so the tasks can give it to the next node as if nothing had been."""
    async with open_door() as door:
        door.node.close()
        door.nursery.start_soon(door.admit)
        with await door.client() as client:
            await client.send_all(b"question")
            await door.left.wait()
            assert Leaving.SLOW is door.leaving
            ((given_back, begun, _),) = door.owner.given_back
            with given_back, begun:
                assert client.local == given_back.peer
                assert begun.failure_nowait() is not None
                assert b"question" == await read_exactly(given_back, 8)
        assert [] == door.owner.told


@contextlib.contextmanager
def crowded_node() -> Iterator[tuple[Address, socket.socket]]:
    """A node whose accept queue is full: the kernel drops what else asks for a connection."""
    with socket.socket() as listening, socket.socket() as first:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        first.connect(listening.getsockname())
        yield Address("127.0.0.1", listening.getsockname()[1]), listening


async def test_a_client_whose_node_takes_a_while_stays_with_the_relay() -> None:
    """A node on another machine answers a round trip later, and is what most gateways are for."""
    with crowded_node() as (address, listening):
        async with open_door() as door:
            door.node_address, door.patience = address, 5.0
            door.nursery.start_soon(door.admit)
            with await door.client() as client:
                await client.send_all(b"question")
                await trio.sleep(0.1)
                assert [] == door.owner.told
                listening.accept()[0].close()  # there is room when the kernel asks again, after a second
                node, _ = await trio.to_thread.run_sync(listening.accept)
                with node:
                    assert b"question" == await trio.to_thread.run_sync(node.recv, 100)
                flow = await door.told()
                assert 0.5 < flow.connected - flow.began < 3.0
            assert [] == door.owner.given_back
            assert door.leaving is None


async def test_a_client_whose_node_takes_too_long_is_given_back_with_the_connect() -> None:
    """The tasks have the patience, the hedge and the next node; they go on from what was begun."""
    with crowded_node() as (address, listening):
        async with open_door() as door:
            door.node_address = address
            door.nursery.start_soon(door.admit)
            with await door.client() as client:
                asked = trio.current_time()
                await door.left.wait()
                assert Leaving.SLOW is door.leaving
                assert PATIENCE * 0.9 < trio.current_time() - asked < 1.0
                ((given_back, begun, since),) = door.owner.given_back
                assert since <= asked + PATIENCE
                with given_back, begun:
                    assert client.local == given_back.peer
                    assert begun.failure_nowait() is None
                    listening.accept()[0].close()
                    (await begun.wait()).close()
            assert [] == door.owner.told


async def _one_who_waits(door: Door, client: Conn) -> int:
    """The descriptor of the connect begun for `client`, whose node does not answer."""
    loop = door.relay.loop
    await wait_until(lambda: 2 == len(registered(loop)))
    (fd,) = registered(loop).keys() - {cast("SocketAcceptor", door.front).fileno()}
    return fd


async def test_an_old_event_of_another_socket_is_not_taken_for_the_answer_of_a_node() -> None:
    """A flow that ends in the middle of a batch may leave its number to a connect, and an event of its own behind.

    Taken for connected, a client would be lost if its node refused it in the end: nobody would try the next one.
    """
    with crowded_node() as (address, listening):
        async with open_door() as door:
            door.node_address, door.patience = address, 60.0
            door.nursery.start_soon(door.admit)
            with await door.client() as client:
                fd = await _one_who_waits(door, client)
                looked = trio.Event()
                token = trio.lowlevel.current_trio_token()

                def old_event() -> None:
                    door.relay.loop._handlers[fd](select.EPOLLIN)
                    token.run_sync_soon(looked.set)

                door.relay.loop.call(old_event)
                await looked.wait()
                assert fd in registered(door.relay.loop)
                assert [] == door.owner.told
                listening.accept()[0].close()  # there is room when the kernel asks again, after a second
                await door.told()
                listening.accept()[0].close()
                await client.send_eof()
                await door.owner.over.wait()


async def test_clients_given_back_with_a_shortcut_that_stands_no_more_do_not_make_their_node_a_slow_one() -> None:
    """They had no time to show it: after a switch and back the node would be without a shortcut for ten seconds."""
    with crowded_node() as (address, _):
        async with open_door() as door:
            door.node_address, door.patience = address, 60.0
            door.nursery.start_soon(door.admit)
            with await door.client() as client:
                await _one_who_waits(door, client)
                door.stands = False
                with await door.client():
                    await door.left.wait()
                assert Leaving.STALE is door.leaving
                ((given_back, begun, _),) = door.owner.given_back
                with given_back, begun:
                    assert client.local == given_back.peer


async def test_a_connect_that_the_kernel_does_not_watch_leaves_nothing_behind_in_the_engine() -> None:
    """The engine ends when nobody needs it any more: what it forgot to forget would keep the program from ending."""
    with crowded_node() as (address, _):
        async with open_door() as door:
            loop = door.relay.loop
            door.node_address = address
            loop._epoll = cast("select.epoll", Epoll(loop._epoll, room=1))
            failed = trio.Event()

            async def admit() -> None:
                with pytest.raises(OSError, match="no room"):
                    await door.admit()
                failed.set()

            door.nursery.start_soon(admit)
            with await door.client() as client:
                await failed.wait()
                ((given_back, begun, _),) = door.owner.given_back
                with given_back, begun:
                    assert client.local == given_back.peer
            assert {} == loop._handlers


async def test_clients_that_wait_for_their_node_are_given_back_when_admission_ends() -> None:
    """None is forgotten in the engine, and none goes to a node that the table has left meanwhile."""
    with crowded_node() as (address, _):
        async with open_door() as door:
            door.node_address, door.patience = address, 60.0
            async with trio.open_nursery() as nursery:
                nursery.start_soon(door.admit)
                clients = [await door.client() for _ in range(3)]
                await wait_until(lambda: 1 + 3 == len(registered(door.relay.loop)))  # the door, and who waits
                nursery.cancel_scope.cancel()
            assert [client.local for client in clients] == [conn.peer for conn, _, _ in door.owner.given_back]
            assert {} == registered(door.relay.loop)
            for conn, begun, _ in door.owner.given_back:
                conn.close()
                begun.close()
            for client in clients:
                client.close()
            assert 0 == len([each for each in door.relay.loop._timers if not each[2].over])


async def test_a_client_that_waits_when_admission_is_cancelled_stays_in_the_backlog() -> None:
    """Cancelling gives the listening socket back to the tasks, with everybody who waits at it."""
    async with open_door() as door:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(door.admit)
            client, node = await door.flow()
            nursery.cancel_scope.cancel()
        with client, node, await door.client() as late:
            with await door.front.accept() as accepted:
                assert late.local == accepted.peer
            await client.send_all(b"more")  # what was taken in lives on
            assert b"more" == await read_exactly(node, 4)


@pytest.mark.parametrize("count", [1, 600])
async def test_a_group_that_is_not_held_any_more_is_cut_to_the_last_flow(count: int) -> None:
    """This is how a drain ends: all at the deadline, more than one turn of the engine cuts, and each of them told."""
    async with open_door() as door:
        door.nursery.start_soon(door.admit)
        with contextlib.ExitStack() as held:
            async with trio.open_nursery() as keeper:
                keeper.start_soon(door.relay.hold, door.group)
                clients = []
                for _ in range(count):
                    client, node = await door.flow()
                    held.enter_context(node)
                    clients.append(held.enter_context(client))
                assert count == len(door.group.flows)
                keeper.cancel_scope.cancel()
            assert [None] * count == door.owner.reasons
            for client in clients:
                assert b"" == await client.receive_some(10)
            held.enter_context(await door.client())
            await door.left.wait()
            assert Leaving.STALE is door.leaving


async def test_what_a_dead_node_had_sent_reaches_a_slow_reader_before_the_reset() -> None:
    """The owner is asked to see such a client off; until then the flow is not over."""
    async with open_door() as door:
        door.nursery.start_soon(door.admit)
        client, node = await door.flow()
        with client:
            size = fill_up(cast("SocketConn", node).plain)
            node.abort()
            await trio.sleep(0.05)
            assert [] == door.owner.reasons
            received = 0
            with contextlib.suppress(PeerReset):
                while data := await client.receive_some(1_000_000):
                    received += len(data)
            await door.owner.over.wait()
            assert [EndReason.NODE_RESET] == door.owner.reasons
            assert 0 < received <= size
            (flow,) = {flow for _, flow in door.owner.told}
            assert 1 + received == flow.counters.down


def fill_up(sock: socket.socket) -> int:
    """Sends until the socket takes no more; the bytes it took."""
    size = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            size += sock.send(bytes(65536))
    return size


async def test_a_flow_at_its_idle_limit_is_told_as_such() -> None:
    """Limits hold for a flow without a task as for any other."""
    async with open_door() as door:
        door.limits = RelayLimits(idle=0.1)
        door.nursery.start_soon(door.admit)
        client, node = await door.flow()
        with client, node:
            await door.owner.over.wait()
        assert [EndReason.IDLE] == door.owner.reasons


@contextlib.contextmanager
def few_descriptors(spare: int) -> Iterator[None]:
    """Leaves room for so many more descriptors within the block."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 20, hard))
    taken: list[int] = []
    try:
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.open("/dev/null", os.O_RDONLY))
        for _ in range(spare):
            os.close(taken.pop())
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for fd in taken:
            os.close(fd)


async def test_a_shortage_while_accepting_comes_out_and_flows_live_on() -> None:
    """The tasks have the pause and the warning for it; a relay that went on would spin at a socket that stays ready."""
    async with open_door() as door:
        shortages: list[LocalShortage] = []

        async def admit() -> None:
            try:
                await door.admit()
            except LocalShortage as error:
                shortages.append(error)

        door.nursery.start_soon(admit)
        client, node = await door.flow()
        with few_descriptors(1):
            rest = await door.client()  # takes the last one, so that nobody can accept it
            await door.left.wait()
        with client, node, rest:
            assert 1 == len(shortages)
            await client.send_all(b"x")
            assert b"x" == await read_exactly(node, 1)


async def test_an_engine_with_taken_flows_and_an_open_door_sleeps() -> None:
    """Idle costs nothing: neither the listening socket nor the reports may leave a timer behind."""
    async with open_door() as door:
        door.nursery.start_soon(door.admit)
        client, node = await door.flow()
        with client, node:
            await trio.sleep(0.05)
            await assert_quiet(door.relay.loop)


async def test_a_taken_flow_for_which_the_kernel_has_no_room_ends_alone() -> None:
    """fs.epoll.max_user_watches is a limit per user, and met at any flow."""
    async with open_door() as door:
        door.nursery.start_soon(door.admit)
        client, node = await door.flow()
        with client, node:
            loop, real = door.relay.loop, door.relay.loop._epoll
            loop._epoll = Epoll(real, room=1)  # type: ignore[assignment]  # one without room
            with pytest.raises((PeerReset, ConnectFailed)):  # it may be reset before it has heard that it is connected
                await door.come_and_listen()
            await door.owner.over.wait()
            loop._epoll = real
            assert [EndReason.CRASHED] == door.owner.reasons
            await client.send_all(b"x")
            assert b"x" == await read_exactly(node, 1)


async def test_a_crash_of_the_engine_ends_admission_and_tells_of_every_flow() -> None:
    """Nobody may wait for an engine that is gone."""
    relay, network, owner = EngineRelay(), SocketNetwork(), Owner()
    with contextlib.ExitStack() as held:
        front = held.enter_context(await network.listen_tcp(LOCALHOST))
        node = held.enter_context(await network.listen_tcp(LOCALHOST))

        async def crash() -> None:
            async with trio.open_nursery() as nursery:
                door = Door(relay, front, node, owner, nursery)
                await nursery.start(relay.run)
                nursery.start_soon(door.admit)
                nursery.start_soon(relay.hold, door.group)
                for conn in await door.flow():
                    held.enter_context(conn)
                relay.loop.call(lambda: os.close(-1))  # a bug of the engine itself

        with trio.fail_after(LIMIT), pytest.raises(BaseExceptionGroup) as caught:
            await crash()
        assert caught.group_contains(OSError)
        assert [EndReason.CRASHED] == owner.reasons


async def test_a_flow_of_a_task_and_one_without_share_the_engine() -> None:
    """Both kinds are in one set, and cutting one kind leaves the other alone."""
    async with open_door() as door:
        door.nursery.start_soon(door.admit)
        async with relayed(door.relay, World(SocketNetwork(), exact=False)) as other:
            with trio.CancelScope() as keeping:
                async with trio.open_nursery() as keeper:
                    keeper.start_soon(door.relay.hold, door.group)
                    client, node = await door.flow()
                    assert 4 + 1 == len(registered(door.relay.loop))
                    keeping.cancel()
            with client, node:
                assert b"" == await client.receive_some(1)
            await other.client.send_all(b"unharmed")
            assert b"unharmed" == await read_exactly(other.node, 8)
