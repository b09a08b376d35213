"""UDP sessions that the engine carries, through a whole gateway on this machine's sockets."""

import contextlib
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest
import trio

from sniffgate.address import Address
from sniffgate.config.schema import Transport
from sniffgate.net.engine import EngineRelay
from sniffgate.net.ports import DatagramConn
from sniffgate.net.relay import Counters, EndReason, Parting, Passage
from sniffgate.net.sockets import SocketNetwork
from sniffgate.state.model import Endpoint
from sniffgate.tasks.listener import Listener
from sniffgate.tasks.udp import UdpIntake
from sniffgate.testing import exchange
from tests.net.relay_flow import wait_until
from tests.tasks.test_udp_real import RealWorld, real_world

pytestmark = pytest.mark.realnet

A = Endpoint("node-a", Transport.UDP)


def lanes(world: RealWorld) -> int:
    """The passages that the engine has."""
    relay = world.gateway.services.relay
    assert isinstance(relay, EngineRelay)
    return sum(not lane.is_left and lane.held is None for lane in relay._lanes.values())


def listener(world: RealWorld) -> Listener:
    """The gateway's only listener."""
    (found,) = world.gateway.listeners.values()
    return found


async def carried(world: RealWorld, conn: DatagramConn, others: int = 0) -> None:
    """Returns when the session of `conn` is carried, beside `others`."""
    for _ in range(3):
        await exchange(conn)
    await wait_until(lambda: others + 1 == lanes(world))


class Flood:
    """A client in a thread of its own that sends numbered datagrams as fast as it is told to."""

    def __init__(self, port: int, count: int, size: int = 0, pause: float = 0.0, host: str = "127.0.0.1") -> None:
        self.count = count
        self._family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._to, self._size, self._pause = (host, port), size, pause
        self.answers: list[int] = []
        self.sent = 0
        self._may_go_on = threading.Event()
        self._may_go_on.set()
        self._rests = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with socket.socket(self._family, socket.SOCK_DGRAM) as sock:
            sock.connect(self._to)
            sock.setblocking(False)
            for number in range(self.count):
                if not self._may_go_on.is_set():
                    self._rests.set()
                    self._may_go_on.wait()
                sock.send(b"%d".ljust(self._size + 2, b" ") % number)
                self.sent = number + 1
                if self._pause:
                    time.sleep(self._pause)
                self._take(sock)
            sock.settimeout(0.3)
            self._take(sock)

    def _take(self, sock: socket.socket) -> None:
        try:
            while True:
                self.answers.append(int(sock.recv(65535).split(b":")[-1]))
        except (BlockingIOError, TimeoutError):
            pass

    async def rest(self, node: Callable[[], int]) -> None:
        """Holds it up, and returns when `node` has received all that was sent."""
        self._may_go_on.clear()
        await trio.to_thread.run_sync(self._rests.wait)
        await wait_until(lambda: node() == self.sent)

    def go_on(self) -> None:
        """Lets it send again."""
        self._may_go_on.set()

    async def wait(self) -> None:
        """Returns when all is sent, and answered for a while no more."""
        await trio.to_thread.run_sync(self._thread.join)


def numbers(world: RealWorld, node: str) -> list[int]:
    """What a node has received of a flood."""
    return [int(data) for data, _ in world.nodes[node].received if data.strip().isdigit()]


# --- order and loss -------------------------------------------------------------------------------------


@pytest.mark.parametrize("listen", ["127.0.0.1", "0.0.0.0", ""])
async def test_a_flood_stays_in_order_across_the_hand_over(listen: str) -> None:
    """The engine takes over in mid-stream; nothing may overtake what Trio still has in its hands."""
    async with real_world("127.0.0.1", listen=listen) as world:
        floods = [Flood(world.gateway.addresses["udp"].port, 1500, pause=0.0002) for _ in range(3)]
        for flood in floods:
            await flood.wait()
        received = world.nodes["node-a"].received
        clients = {client for _, client in received}
        assert 3 == len(clients)
        for each in clients:
            of_it = [int(data) for data, client in received if client == each]
            assert of_it == sorted(set(of_it))
            assert len(of_it) > 100
        for flood in floods:
            assert flood.answers == sorted(set(flood.answers))


async def test_a_stream_is_whole_and_in_order_at_each_node_while_it_is_switched() -> None:
    """A switch moves carried sessions too; each datagram goes to one node or the other, and none twice."""
    async with real_world("127.0.0.1", "127.0.0.1", udp_rebind_on_switch=True) as world:
        flood = Flood(world.gateway.addresses["udp"].port, 800, pause=0.001)
        async with trio.open_nursery() as nursery:

            async def switch_for_ever() -> None:
                while True:
                    for node in ("node-b", "node-a"):
                        await trio.sleep(0.07)
                        await world.gateway.switch(node)

            nursery.start_soon(switch_for_ever)
            await flood.wait()
            nursery.cancel_scope.cancel()
        at_a, at_b = numbers(world, "node-a"), numbers(world, "node-b")
        assert at_a == sorted(at_a)
        assert at_b == sorted(at_b)
        assert min(len(at_a), len(at_b)) > 100
        assert list(range(800)) == sorted(at_a + at_b)
        assert 0 == world.gateway.ledger.endings[EndReason.IDLE]


@pytest.mark.parametrize(("host", "size"), [("127.0.0.1", 0), ("127.0.0.1", 2000), ("::1", 2000)])
async def test_what_a_dying_node_refuses_of_a_carried_stream_reaches_the_next_once(host: str, size: int) -> None:
    """Short datagrams come back in the quote; of long ones the engine keeps copies as the tasks do."""
    async with real_world(host, host) as world:
        flood = Flood(world.gateway.addresses["udp"].port, 600, size, pause=0.001)
        await wait_until(lambda: len(numbers(world, "node-a")) > 200)
        assert 1 == lanes(world)
        await flood.rest(lambda: len(numbers(world, "node-a")))  # what lies unread in its own buffer would die with it
        world.nodes["node-a"].kill()
        flood.go_on()
        await flood.wait()
        got = Counter(numbers(world, "node-a") + numbers(world, "node-b"))
        assert Counter(range(600)) == got
        assert len(numbers(world, "node-b")) > 200
        assert {} == dict(world.gateway.ledger.dropped_datagrams)


async def test_a_datagram_too_long_for_the_node_is_dropped_and_the_stream_goes_on() -> None:
    """IPv6 carries 20 bytes more than IPv4; the socket is none the worse."""
    async with real_world("127.0.0.1", listen="::1") as world:
        with world.client("::1") as conn:
            await carried(world, conn)
            conn.send_nowait(bytes(65520))
            assert b"node-a:after" == await exchange(conn, b"after")
            assert {"send": 1} == dict(world.gateway.ledger.dropped_datagrams)


# --- addresses ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("listen", "hosts"),
    [("0.0.0.0", ("127.0.0.1", "127.0.0.2")), ("", ("127.0.0.2", "::1", "127.0.0.1")), ("::1", ("::1",))],
)
async def test_carried_replies_leave_from_the_address_the_client_wrote_to(listen: str, hosts: tuple[str, ...]) -> None:
    """A connected client hears nobody else, whoever sends the reply."""
    async with real_world("127.0.0.1", listen=listen) as world:
        with contextlib.ExitStack() as conns:
            for number, host in enumerate(hosts):
                conn = conns.enter_context(world.client(host))
                await carried(world, conn, others=number)
                for _ in range(5):
                    assert b"node-a:hi" == await exchange(conn)
            assert len(hosts) == lanes(world)


def has_passed(world: RealWorld, up: int, down: int) -> bool:
    """Whether exactly so many bytes went to the node and came from it."""
    traffic = world.gateway.ledger.of(A)
    return (up, down) == (traffic.bytes_tx, traffic.bytes_rx)


async def test_counters_are_exact_while_a_session_is_carried() -> None:
    """An operator watches traffic as it flows."""
    async with real_world("127.0.0.1") as world:
        with world.client() as conn:
            await carried(world, conn)
            for count in range(4, 50):
                await exchange(conn)
                await wait_until(partial(has_passed, world, 2 * count, 9 * count))
            assert 1 == lanes(world)


async def test_what_a_carried_session_loses_is_counted_while_it_lasts() -> None:
    """A session may last for days, and an operator asks now where the datagrams go."""
    async with real_world("::1", listen="127.0.0.1") as world:
        with world.client() as conn:
            await carried(world, conn)
            for count in (1, 2):
                conn.send_nowait(bytes(65505))  # the node's answer is longer, and no datagram of IPv4 any more
                assert b"node-a:after" == await exchange(conn, b"after")
                assert {"reply": count} == dict(world.gateway.ledger.dropped_datagrams)
            assert 1 == lanes(world)
            world.gateway.stop(0.0)
            await wait_until(lambda: 0 == lanes(world))
            await wait_until(lambda: {"reply": 2} == dict(world.gateway.ledger.dropped_datagrams))


# --- lives ----------------------------------------------------------------------------------------------


async def test_a_carried_session_lives_while_datagrams_pass_and_ends_its_timeout_after_the_last() -> None:
    """The engine tells nobody of a datagram; the times it writes down must do."""
    async with real_world("127.0.0.1", udp_session_timeout=0.5) as world:
        with world.client() as conn:
            await carried(world, conn)
            for _ in range(8):
                await trio.sleep(0.15)
                await exchange(conn)
            last = trio.current_time()
            assert 1 == world.gateway.ledger.flows(Transport.UDP)
            assert 1 == lanes(world)
            await wait_until(lambda: 0 == world.gateway.ledger.flows(Transport.UDP))
            assert 0.49 <= trio.current_time() - last < 1.0
            assert 1 == world.gateway.ledger.endings[EndReason.IDLE]
            assert 0 == lanes(world)


async def test_a_client_that_only_sends_keeps_its_carried_session() -> None:
    """Syslog and metrics are never answered."""
    async with real_world("127.0.0.1", udp_session_timeout=0.4) as world:
        world.nodes["node-a"].port.send_nowait = lambda *_: None  # type: ignore[method-assign]
        with world.client() as conn:
            for _ in range(12):
                conn.send_nowait(b"1")
                await trio.sleep(0.1)
            assert 1 == lanes(world)
            assert 1 == len({client for _, client in world.nodes["node-a"].received})


async def test_a_carried_session_that_is_moved_after_its_timeout_is_not_taken_for_an_idle_one() -> None:
    """When it was heard of last stands with the passage, and must not be left behind with it."""
    async with real_world("127.0.0.1", "127.0.0.1", udp_rebind_on_switch=True, udp_session_timeout=0.4) as world:
        with world.client() as conn:
            await carried(world, conn)
            for _ in range(6):
                await trio.sleep(0.1)
                await exchange(conn)
            await world.gateway.switch("node-b")
            await trio.sleep(0.1)
            assert b"node-b:hi" == await exchange(conn)
            assert 0 == world.gateway.ledger.endings[EndReason.IDLE]


async def test_the_longest_idle_session_is_evicted_by_what_the_engine_has_heard() -> None:
    """The one that the tasks heard of first may be the liveliest by far."""
    async with real_world("127.0.0.1", udp_max_sessions=2) as world:
        with world.client() as lively, world.client() as idle, world.client() as third:
            await carried(world, lively)
            await carried(world, idle, others=1)
            await exchange(lively)
            await exchange(third)
            await wait_until(lambda: 1 == world.gateway.ledger.endings[EndReason.EVICTED])  # its task has to end first
            served = len({client for _, client in world.nodes["node-a"].received})
            await exchange(lively)
            assert served == len({client for _, client in world.nodes["node-a"].received})


# --- the listener ---------------------------------------------------------------------------------------


async def test_a_carried_session_goes_on_when_its_listener_gets_another_socket() -> None:
    """A reload may take the socket away for a moment; node and port stay."""
    async with real_world("127.0.0.1") as world:
        with world.client() as conn:
            await carried(world, conn)
            for _ in range(3):
                address = world.gateway.addresses["udp"]
                await listener(world).suspend()
                assert 0 == lanes(world)
                listener(world).resume(await SocketNetwork().listen_udp(address))
                await carried(world, conn)
            assert 1 == len({client for _, client in world.nodes["node-a"].received})


async def test_a_crash_of_the_listener_leaves_carried_sessions_working() -> None:
    """It starts again on the same socket, and the sessions were never its to lose."""
    async with real_world("127.0.0.1") as world:
        with world.client() as conn:
            await carried(world, conn)
            intake = listener(world)._intake
            assert isinstance(intake, UdpIntake)
            intake._table._poked.set()  # wakes the task that expires sessions, which then meets a bug
            intake._table.next_expiry = lambda timeout: timeout // 0  # type: ignore[method-assign]
            intake._table.poke()
            await wait_until(lambda: 1 == len(world.gateway.services.crashes))
            del intake._table.next_expiry
            world.gateway.services.crashes = []
            await trio.sleep(0.2)
            await carried(world, conn)
            assert 1 == len({client for _, client in world.nodes["node-a"].received})


async def test_a_stop_ends_carried_sessions_that_wait_for_nothing_at_once() -> None:
    """The last answer was given; a grace is for those who wait for one."""
    async with real_world("127.0.0.1", probe_timeout=5.0) as world:
        with world.client() as conn:
            await carried(world, conn)
            began = trio.current_time()
            world.gateway.stop(10.0)
            await wait_until(lambda: 0 == world.gateway.ledger.flows(Transport.UDP))
            assert trio.current_time() - began < 1.0
            assert 1 == world.gateway.ledger.endings[EndReason.SHUTDOWN]


async def test_a_stop_lets_a_carried_session_have_its_last_answer() -> None:
    """What was asked before the stop is answered after it, and that ends the session."""
    async with real_world("127.0.0.1", probe_timeout=5.0) as world:
        with world.client() as conn:
            await carried(world, conn)
            node = world.nodes["node-a"]
            send, node.port.send_nowait = node.port.send_nowait, lambda *_: None  # type: ignore[method-assign]
            conn.send_nowait(b"question")
            await wait_until(lambda: b"question" == node.received[-1][0])
            world.gateway.stop(10.0)
            await trio.sleep(0.2)
            assert 1 == world.gateway.ledger.flows(Transport.UDP)
            send(b"answer", node.received[-1][1], node.port.address)
            assert b"answer" == await conn.receive()
            await wait_until(lambda: 0 == world.gateway.ledger.flows(Transport.UDP))


# --- the engine alone -----------------------------------------------------------------------------------


async def test_a_passage_asked_for_while_its_listener_is_given_up_is_refused(nursery: trio.Nursery) -> None:
    """Between the wish to close and the closing the listener is still known."""
    relay = EngineRelay()
    await nursery.start(relay.run)
    network = SocketNetwork()
    with (
        trio.fail_after(5),
        await network.listen_udp(Address("127.0.0.1", 0)) as front,
        await network.listen_udp(Address("127.0.0.1", 0)) as node,
        network.connect_udp(node.address) as conn,
    ):
        async with trio.open_nursery() as receiving:
            receiving.start_soon(relay.receive_forever, front, lambda _: None)
            await wait_until(lambda: 1 == len(relay.loop._handlers))
            passage = Passage(
                client=Address("127.0.0.1", 9),
                local=front.address,
                conn=conn,
                counters=Counters(),
                keep=lambda *_: None,
                on_reply=lambda: None,
            )
            receiving.cancel_scope.cancel()
            with trio.CancelScope(shield=True):
                assert Parting.CLOSED is await relay.carry(front, passage)
    relay.stop()


@pytest.mark.parametrize("moment", range(4))
async def test_a_passage_may_be_cancelled_at_any_moment(nursery: trio.Nursery, moment: int) -> None:
    """After the cancellation the engine does not touch the node's socket any more."""
    relay = EngineRelay()
    await nursery.start(relay.run)
    network = SocketNetwork()
    with (
        trio.fail_after(5),
        await network.listen_udp(Address("127.0.0.1", 0)) as front,
        await network.listen_udp(Address("127.0.0.1", 0)) as node,
    ):
        async with trio.open_nursery() as receiving:
            receiving.start_soon(relay.receive_forever, front, lambda _: None)
            for _ in range(20):
                with network.connect_udp(node.address) as conn:
                    passage = Passage(
                        client=Address("127.0.0.1", 9),
                        local=front.address,
                        conn=conn,
                        counters=Counters(),
                        keep=lambda *_: None,
                        on_reply=lambda: None,
                    )
                    async with trio.open_nursery() as carrying:
                        carrying.start_soon(relay.carry, front, passage)
                        for _ in range(moment):
                            await trio.lowlevel.checkpoint()
                        carrying.cancel_scope.cancel()
            await wait_until(lambda: 1 == len(relay.loop._handlers))
            assert {} == relay._lanes
            receiving.cancel_scope.cancel()
    relay.stop()
