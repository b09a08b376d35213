"""Clients that the relay takes in by itself: what is promised of flows with a task of their own holds for them too.

On real sockets, for only the engine has shortcuts.
"""

import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from typing import cast

import attrs
import pytest
import trio
from trio.testing import MockClock

from sniffgate.address import Address
from sniffgate.app import serve
from sniffgate.config.schema import (
    Config,
    GlobalConfig,
    ListenerConfig,
    NodeConfig,
    PoolConfig,
    ProbeKind,
    Transport,
)
from sniffgate.errors import PeerReset
from sniffgate.net.ports import Conn
from sniffgate.net.relay import EndReason
from sniffgate.net.shortcut import ROOM_LEFT
from sniffgate.net.sockets import SocketNetwork
from sniffgate.state.model import Endpoint
from sniffgate.tasks.gateway import Gateway
from sniffgate.tasks.leases import Lease
from sniffgate.tasks.shortcuts import SLOW_PAUSE, SLOW_PAUSE_MOST, _Slow
from sniffgate.tasks.tcp import TcpIntake
from tests.net.relay_flow import read_exactly, wait_until

pytestmark = pytest.mark.realnet

LIMIT = 20.0  # seconds for each test; they take a fraction of one
HOST = "127.0.0.1"
NODES = ("node-a", "node-b")


@attrs.define(eq=False)
class World:
    """A gateway with two nodes that say their name and what they heard."""

    gateway: Gateway
    nodes: dict[str, tuple[trio.SocketListener, trio.CancelScope]]

    @property
    def lease(self) -> Lease:
        """The lease of node-a at the only listener, which is there once a flow has been."""
        return next(lease for lease in self._leases() if lease.endpoint.node == "node-a")

    def _leases(self) -> list[Lease]:
        (listener,) = self.gateway.listeners.values()
        return list(listener.leases)

    @property
    def by_shortcut(self) -> int:
        """Flows under way that have no task of their own."""
        return sum(len(lease.group.flows) for lease in self._leases() if lease.group is not None)

    async def kill(self, node: str) -> None:
        """Ends a node; nobody listens there when this returns."""
        acceptor, life = self.nodes[node]
        life.cancel()
        await wait_until(lambda: acceptor.socket.fileno() == -1)

    async def hang(self, node: str, stack: contextlib.ExitStack) -> None:
        """A node accepts nobody any more, and its kernel has no room to let anybody wait. `stack` keeps it so."""
        acceptor, _ = self.nodes[node]
        listening = stack.enter_context(socket.fromfd(acceptor.socket.fileno(), socket.AF_INET, socket.SOCK_STREAM))
        await self.kill(node)
        listening.listen(0)
        for _ in range(2):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listening.getsockname())

    async def connect(self) -> Conn:
        """A client."""
        return await SocketNetwork().connect_tcp(self.gateway.addresses["front"])

    async def ask(self, conn: Conn) -> str:
        """Which node answers."""
        await conn.send_all(b"?")
        return (await read_exactly(conn, len("node-a:?"))).decode().partition(":")[0]

    async def who(self) -> str:
        """Which node answers a new client, which then leaves."""
        with await self.connect() as conn:
            node = await self.ask(conn)
            await conn.send_eof()
            while await conn.receive_some(100):
                pass
            return node

    async def open_shortcut(self) -> None:
        """Has clients come until they go by a shortcut."""
        for _ in range(50):
            await self.who()
            with await self.connect() as conn:
                await self.ask(conn)
                await wait_until(lambda: bool(self._leases()))
                if self.by_shortcut:
                    break
        else:
            raise AssertionError("no client was ever taken in by a shortcut")
        await wait_until(lambda: not self.lease.flows)


@contextlib.asynccontextmanager
async def world(
    pool: PoolConfig | None = None,
    listener: Callable[[ListenerConfig], ListenerConfig] = lambda each: each,
    node: Callable[[NodeConfig], NodeConfig] = lambda each: each,
) -> AsyncIterator[World]:
    """Runs until the block ends, and fails if anything crashed."""
    with trio.fail_after(LIMIT):
        async with trio.open_nursery() as nursery:
            backends, nodes = {}, []
            for place, name in enumerate(NODES):
                (acceptor,) = await trio.open_tcp_listeners(0, host=HOST)
                backends[name] = acceptor, trio.CancelScope()
                nursery.start_soon(serve_node, name, *backends[name])
                address = Address(HOST, acceptor.socket.getsockname()[1])
                nodes.append(node(NodeConfig(name=name, tcp=address, priority=10 - place, probe=ProbeKind.NONE)))
            front = listener(ListenerConfig(name="front", protocol=Transport.TCP, listen=Address(HOST, 0)))
            config = Config(
                globals=GlobalConfig(admin_listen="", passive_eject_threshold=1),
                pools=(pool or PoolConfig(),),
                listeners=(front,),
                nodes=tuple(nodes),
            )
            gateway: Gateway = await nursery.start(serve, config)
            yield World(gateway, backends)
            assert [] == gateway.services.crashes
            nursery.cancel_scope.cancel()


async def serve_node(name: str, acceptor: trio.SocketListener, life: trio.CancelScope) -> None:
    async def answer(stream: trio.SocketStream) -> None:
        with contextlib.suppress(trio.BrokenResourceError):
            async with stream:
                async for data in stream:
                    await stream.send_all(name.encode() + b":" + data)

    with life:
        await trio.serve_listeners(answer, [acceptor])


async def test_the_books_have_flows_by_shortcut_like_any_others() -> None:
    """Whoever reads the status cannot tell which way a client went."""
    async with world() as it:
        await it.open_shortcut()
        traffic = it.gateway.ledger.of(Endpoint("node-a", Transport.TCP))
        total, sent = traffic.total, traffic.bytes_tx
        traffic.last_connect = 99.0
        with await it.connect() as conn:
            assert "node-a" == await it.ask(conn)
            await wait_until(lambda: 1 == traffic.active)
            assert 1 == it.by_shortcut
            await conn.send_all(b"!" * 9)
            await read_exactly(conn, len("node-a:") + 9)
            assert (total + 1, sent + 10) == (traffic.total, traffic.bytes_tx)
            assert 1 == it.lease.flows
            assert 0.0 < traffic.last_connect < 1.0
        await wait_until(lambda: 0 == traffic.active)
        assert (sent + 10, 0) == (traffic.bytes_tx, it.lease.flows)
        assert 0 == it.gateway.services.flow_slots.held


async def test_no_client_that_comes_after_a_switch_was_answered_lands_at_the_old_node() -> None:
    """An operator switches, sees "ok" and connects: the relay's thread must know by then, each time."""
    async with world() as it:
        for _ in range(20):
            for node in ("node-a", "node-b"):
                await it.gateway.switch(node)
                assert [node] * 4 == [await it.who() for _ in range(4)]


async def test_flows_by_shortcut_are_cut_at_the_drain_deadline_and_counted_as_drained() -> None:
    """A lease is what drains, whoever began its flows."""
    async with world(PoolConfig(drain_timeout=0.3)) as it:
        await it.open_shortcut()
        with contextlib.ExitStack() as held:
            conns = [held.enter_context(await it.connect()) for _ in range(20)]
            for conn in conns:
                assert "node-a" == await it.ask(conn)
            await wait_until(lambda: 20 == it.lease.flows)
            assert 20 == it.by_shortcut
            began = trio.current_time()
            await it.gateway.disable("node-a")
            assert "node-b" == await it.who()
            for conn in conns[1:]:
                assert b"" == await conn.receive_some(1)
            assert 0.3 <= trio.current_time() - began < 1.0
            await wait_until(lambda: 20 == it.gateway.ledger.endings[EndReason.DRAINED])
        assert 20 == it.gateway.ledger.of(Endpoint("node-a", Transport.TCP)).drain_kills


async def test_a_retiring_lease_is_over_with_its_last_flow_by_shortcut() -> None:
    """Nobody waits for the deadline of a lease that has nothing left to drain."""
    async with world(PoolConfig(drain_timeout=60.0)) as it:
        await it.open_shortcut()
        with await it.connect() as conn:
            assert "node-a" == await it.ask(conn)
            await wait_until(lambda: 1 == it.lease.flows)
            await it.gateway.disable("node-a")
            assert "node-a" == await it.ask(conn)
            assert 1 == len(it.gateway.leases())
        await wait_until(lambda: [] == [each for each in it.gateway.leases() if each.endpoint.node == "node-a"])


async def test_an_idle_shortcut_to_a_node_that_is_drained_leaves_no_lease_behind() -> None:
    """The listening socket goes back to the tasks at once, and not with the next client."""
    async with world(PoolConfig(drain_timeout=60.0)) as it:
        await it.open_shortcut()
        await it.gateway.disable("node-a")
        await wait_until(lambda: () == it.gateway.leases())
        assert "node-b" == await it.who()


async def test_a_client_at_a_dead_node_is_served_by_the_next_and_the_failure_is_evidence() -> None:
    """The relay gives it back unread; the tasks have the rules for what comes next."""
    async with world() as it:
        await it.open_shortcut()
        await it.kill("node-a")
        assert "node-b" == await it.who()
        await it.gateway.wait_for(lambda state: [["node-b"]] == [list(route.active) for route in state.routes.values()])
        assert 0 == it.gateway.ledger.endings[EndReason.NO_NODE]


async def test_a_hanging_node_is_hedged_though_the_relay_had_the_client_first() -> None:
    """The tasks go on from the connect that the relay began, and have the next node tried beside it."""
    async with world() as it:
        await it.open_shortcut()
        with contextlib.ExitStack() as stack:
            await it.hang("node-a", stack)
            began = trio.current_time()
            assert "node-b" == await it.who()
            assert 0.2 <= trio.current_time() - began < 1.0
            assert 1 == it.gateway.ledger.hedged
            (listener,) = it.gateway.listeners.values()
            slow = cast("TcpIntake", listener._intake)._shortcuts._slow
            assert (Endpoint("node-a", Transport.TCP), SLOW_PAUSE) == (slow.endpoint, slow.pause)
            assert began < slow.until <= trio.current_time() + SLOW_PAUSE


async def test_a_stop_lets_flows_by_shortcut_finish_within_the_grace_and_cuts_the_rest() -> None:
    """SIGTERM is a drain of everything."""
    async with world() as it:
        await it.open_shortcut()
        with await it.connect() as one, await it.connect() as other:
            assert ["node-a", "node-a"] == [await it.ask(one), await it.ask(other)]
            await wait_until(lambda: 2 == it.by_shortcut)
            it.gateway.stop(0.3)
            assert "node-a" == await it.ask(one)
            one.close()
            with contextlib.suppress(PeerReset):
                assert b"" == await other.receive_some(1)
            await wait_until(lambda: 1 == it.gateway.ledger.endings[EndReason.SHUTDOWN])


async def test_max_connections_holds_to_the_last_client() -> None:
    """The bound is exact, though two threads take clients in."""
    most = 3 * ROOM_LEFT
    async with world(listener=lambda each: attrs.evolve(each, max_connections=most)) as it:
        await it.open_shortcut()
        with contextlib.ExitStack() as held:
            seen_by_shortcut = 0
            for _ in range(most):
                conn = held.enter_context(await it.connect())
                assert "node-a" == await it.ask(conn)
                seen_by_shortcut = max(seen_by_shortcut, it.by_shortcut)
            assert 0 < seen_by_shortcut < most
            late = held.enter_context(await it.connect())
            await late.send_all(b"?")
            for _ in range(50):  # each of them takes both threads a turn, in which the late one could have been let in
                assert "node-a" == await it.ask(conn)
            held_by_first = it.gateway.ledger.of(Endpoint("node-a", Transport.TCP)).active
            assert most == held_by_first
            conn.close()
            assert b"node-a:?" == await read_exactly(late, 8)


async def test_a_reload_that_changes_the_listener_holds_for_the_next_client() -> None:
    """A shortcut was made from the settings of before, and goes with them."""
    async with world() as it:
        await it.open_shortcut()
        config = it.gateway.state.config
        front = attrs.evolve(config.listeners[0], idle_timeout=0.2, listen=it.gateway.addresses["front"])
        await it.gateway.apply(attrs.evolve(config, listeners=(front,)))
        await it.open_shortcut()
        before = it.gateway.ledger.endings[EndReason.IDLE]
        with await it.connect() as conn:
            assert "node-a" == await it.ask(conn)
            assert 1 == it.by_shortcut
            with contextlib.suppress(PeerReset):
                assert b"" == await conn.receive_some(1)
        await wait_until(lambda: before + 1 == it.gateway.ledger.endings[EndReason.IDLE])


async def test_a_node_that_is_late_now_and_then_is_soon_taken_for_near_again(autojump_clock: MockClock) -> None:
    """One late connect must not cost everybody the shortcut for long; a node far away is not asked each time."""
    endpoint = Endpoint("node-a", Transport.TCP)
    slow = _Slow(None, 0.0, 0.0)
    pauses = []
    for lasted in (5.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 101.0):
        began = trio.current_time()
        await trio.sleep(lasted)
        slow = slow.again(endpoint, began)
        assert slow.until == trio.current_time() + slow.pause
        pauses.append(slow.pause)
    assert [SLOW_PAUSE * 2**step for step in range(7)] + [SLOW_PAUSE_MOST] * 2 + [SLOW_PAUSE] == pauses
    assert SLOW_PAUSE == slow.again(Endpoint("node-b", Transport.TCP), trio.current_time()).pause
