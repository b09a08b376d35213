"""UDP sessions through the gateway on this machine's sockets: what only a kernel can show."""

import contextlib
import os
import socket
from collections.abc import AsyncIterator

import attrs
import pytest
import trio

from sniffgate.address import Address
from sniffgate.app import serve
from sniffgate.config.schema import Config, ListenerConfig, NodeConfig, ProbeKind, Transport
from sniffgate.net.ports import DatagramConn, DatagramPort
from sniffgate.net.sockets import SocketNetwork
from sniffgate.tasks.gateway import Gateway
from sniffgate.testing import exchange
from tests.net.namespace import run_isolated
from tests.tasks.configs import config_for
from tests.tasks.udp_looking import Failures

pytestmark = pytest.mark.realnet

UDP = Transport.UDP
LIMIT = 15.0  # seconds for each test; they take a fraction of one


@attrs.define(eq=False)
class RealNode:
    """A backend on a real socket, which answers with its name and what it received."""

    name: str
    port: DatagramPort
    received: list[tuple[bytes, Address]] = attrs.field(factory=list)
    echo: bool = False

    def config(self, priority: int) -> NodeConfig:
        """Its node: unprobed, since clients are what these tests are about."""
        return NodeConfig(name=self.name, udp=self.port.address, priority=priority, probe=ProbeKind.NONE)

    async def serve(self) -> None:
        """Answers until cancelled or killed. *Closes:* its socket."""
        with self.port, contextlib.suppress(trio.ClosedResourceError):
            while True:
                datagram = await self.port.receive()
                self.received.append((datagram.data, datagram.client))
                answer = datagram.data if self.echo else self.name.encode() + b":" + datagram.data
                self.port.send_nowait(answer, datagram.client, datagram.local)

    def kill(self) -> None:
        """Closes its socket: the kernel refuses from now on."""
        self.port.close()


@attrs.define(eq=False)
class RealWorld:
    """A running gateway with its nodes."""

    gateway: Gateway
    nodes: dict[str, RealNode]
    failures: Failures

    def client(self, host: str = "127.0.0.1") -> DatagramConn:
        """A client's socket, connected to the gateway."""
        return SocketNetwork().connect_udp(Address(host, self.gateway.addresses["udp"].port))


def front(host: str = "127.0.0.1") -> ListenerConfig:
    """The gateway's listener, on a port that the kernel picks."""
    return ListenerConfig(name="udp", protocol=UDP, listen=Address(host, 0))


@contextlib.asynccontextmanager
async def real_world(*hosts: str, listen: str = "127.0.0.1", **globals_: object) -> AsyncIterator[RealWorld]:
    """A gateway with a node on each of `hosts`, best first. Fails if anything in it crashed."""
    failures = Failures()
    with trio.fail_after(LIMIT):
        async with trio.open_nursery() as nursery:
            nodes = {}
            for letter, host in zip("abc", hosts, strict=False):
                port = await SocketNetwork().listen_udp(Address(host, 0))
                nodes[f"node-{letter}"] = node = RealNode(f"node-{letter}", port)
                nursery.start_soon(node.serve)
            configs = [node.config(30 - 10 * number) for number, node in enumerate(nodes.values())]
            config: Config = config_for(*configs, listeners=(front(listen),), **globals_)  # type: ignore[arg-type]  # GlobalConfig's

            async def gateway_task(*, task_status: trio.TaskStatus[Gateway]) -> None:
                await serve(config, observers=(failures,), task_status=task_status)

            gateway: Gateway = await nursery.start(gateway_task)
            yield RealWorld(gateway, nodes, failures)
            assert [] == gateway.services.crashes
            nursery.cancel_scope.cancel()


async def test_datagrams_of_every_size_pass_whole_both_ways() -> None:
    """Never cut by a buffer of ours, up to the most that UDP carries."""
    async with real_world("127.0.0.1") as world:
        world.nodes["node-a"].echo = True
        with world.client() as conn:
            for size in (0, 1, 512, 520, 1472, 1473, 2048, 8192, 9000, 16384, 65506, 65507):
                payload = bytes((number * 7 + 1) % 251 for number in range(size))
                assert payload == await exchange(conn, payload)

        assert 1 == len({client for _, client in world.nodes["node-a"].received})


async def test_a_burst_from_a_new_port_arrives_whole_and_in_order() -> None:
    """What comes while the session is being set up is forwarded like the rest."""
    async with real_world("127.0.0.1") as world:
        burst = [bytes([number + 1]) * (number * 97 + 1) for number in range(10)]
        with world.client() as conn:
            for payload in burst:
                conn.send_nowait(payload)
            answers = [await conn.receive() for _ in burst]

        assert [b"node-a:" + payload for payload in burst] == answers
        assert burst == [data for data, _ in world.nodes["node-a"].received]
        assert 1 == len({client for _, client in world.nodes["node-a"].received})


async def test_a_reply_leaves_from_the_address_the_client_wrote_to() -> None:
    """A connected client hears nobody else: on a wildcard address the kernel would pick another source."""
    async with real_world("127.0.0.1", listen="0.0.0.0") as world:
        for host in ("127.0.0.1", "127.0.0.2"):
            with world.client(host) as conn:
                assert b"node-a:hi" == await exchange(conn)


async def test_families_mix() -> None:
    """An IPv6 client is served by an IPv4 node, and the other way round."""
    async with real_world("127.0.0.1", listen="::1") as world:
        with world.client("::1") as conn:
            assert b"node-a:hi" == await exchange(conn)
    async with real_world("::1") as world:
        with world.client() as conn:
            assert b"node-a:hi" == await exchange(conn)


async def test_both_families_reach_a_listener_on_every_address() -> None:
    """An IPv4 client of a dual-stack socket is answered over IPv4."""
    async with real_world("127.0.0.1", listen="") as world:
        for host in ("127.0.0.1", "127.0.0.2", "::1"):
            with world.client(host) as conn:
                assert b"node-a:hi" == await exchange(conn)


async def test_a_steady_stream_loses_at_most_one_datagram_when_its_node_is_killed() -> None:
    """The kernel quotes what it refused; at most what lay in the dead node's own buffer is gone."""
    async with real_world("127.0.0.1", "127.0.0.1") as world:
        answers: list[bytes] = []
        with world.client() as conn:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(collect, conn, answers)
                for number in range(200):
                    if number == 100:
                        world.nodes["node-a"].kill()
                    conn.send_nowait(b"%d" % number)
                    await trio.sleep(0.005)
                await trio.sleep(0.1)
                nursery.cancel_scope.cancel()

        assert 199 <= len({answer.split(b":")[1] for answer in answers}) == len(answers)
        assert 99 <= len(world.nodes["node-b"].received)
        assert ["node-a"] == world.failures.nodes


async def collect(conn: DatagramConn, answers: list[bytes]) -> None:
    """Keeps every answer, until cancelled."""
    while True:
        answers.append(await conn.receive())


@pytest.mark.parametrize(("host", "limit"), [("127.0.0.1", 520), ("::1", 1184)])
async def test_a_refused_datagram_of_any_size_is_sent_again_once_and_whole(host: str, limit: int) -> None:
    """Around the length at which this kernel's quotes end, and far beyond it."""
    async with real_world(host, host, udp_session_timeout=0.1) as world:
        world.nodes["node-b"].echo = True
        world.nodes["node-a"].kill()
        sent = [bytes((number * 7 + size) % 251 for number in range(size)) for size in (0, 1, limit - 1, limit)]
        sent += [bytes((number * 7 + size) % 251 for number in range(size)) for size in (limit + 1, 9000, 65507)]
        for payload in sent:
            with world.client() as conn:
                assert payload == await exchange(conn, payload)

        assert sent == [data for data, _ in world.nodes["node-b"].received]
        assert not world.gateway.ledger.dropped_datagrams


async def test_three_refused_clients_move_the_others() -> None:
    """Without a datagram of theirs."""
    async with real_world("127.0.0.1", "127.0.0.1") as world:
        conns = [world.client() for _ in range(6)]
        for conn in conns:
            await exchange(conn)
        world.nodes["node-a"].kill()
        for conn in conns[:3]:
            assert b"node-b:hi" == await exchange(conn)
        await world.gateway.wait_for(lambda state: next(iter(state.routes.values())).active == ("node-b",))
        await trio.sleep(0.05)
        for conn in conns[3:]:
            assert b"node-b:hi" == await exchange(conn)
        for conn in conns:
            conn.close()

        assert ["node-a"] * 3 == world.failures.nodes


async def test_descriptors_come_back_when_sessions_are_over() -> None:
    """A port per question must not run the process dry."""
    async with real_world("127.0.0.1", udp_session_timeout=0.2) as world:
        before = descriptors()
        for _ in range(10):
            conns = [world.client() for _ in range(20)]
            for conn in conns:
                await exchange(conn)
                conn.close()
        assert before < descriptors()
        while descriptors() > before:  # noqa: ASYNC110 - nobody tells of a descriptor that came back
            await trio.sleep(0.02)

        assert 200 == len(world.nodes["node-a"].received)


def descriptors() -> int:
    """How many descriptors this process has open."""
    return len(os.listdir("/proc/self/fd"))


async def test_a_stop_gives_the_port_back() -> None:
    """To whoever binds it next, at once."""
    async with real_world("127.0.0.1") as world:
        with world.client() as conn:
            await exchange(conn)
            address = world.gateway.addresses["udp"]
            world.gateway.stop()
            while True:
                with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as rival, contextlib.suppress(OSError):
                    rival.bind((address.host, address.port))
                    break
                await trio.sleep(0.01)


async def out_of_ports() -> None:
    """Twenty clients and at most sixteen ports: to be run in a network of its own."""
    async with real_world("127.0.0.1", "127.0.0.1", udp_session_timeout=1.0) as world:
        # the clients stand on ports outside the kernel's range, so that only the gateway needs one of those
        clients = [await SocketNetwork().listen_udp(Address("127.0.0.1", 20000 + number)) for number in range(20)]
        gateway = world.gateway.addresses["udp"]

        async def served(client: DatagramPort) -> bool:
            client.send_nowait(b"hi", gateway, client.address)
            with trio.move_on_after(0.03) as patience:
                await client.receive()
            return not patience.cancelled_caught

        results = [await served(client) for client in clients]
        missed = results.count(False)
        assert 4 <= missed < 20
        assert missed == world.gateway.ledger.shortages["connect"]
        assert [] == world.failures.nodes
        assert await served(clients[results.index(True)])  # an old session
        await trio.sleep(1.1)
        assert await served(clients[results.index(False)])
        for client in clients:
            client.close()


def test_running_out_of_local_ports_refuses_clients_and_blames_nobody() -> None:
    """The seventeenth connect gets no port; nothing spins, nobody is ejected, and it passes by itself."""
    run_isolated(out_of_ports, "echo 50000 50015 > /proc/sys/net/ipv4/ip_local_port_range")
