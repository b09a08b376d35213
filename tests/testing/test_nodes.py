"""One script and one vocabulary of faults, on the virtual network and as real processes."""

import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable

import pytest
import trio
from trio.testing import MockClock

from sniffgate.address import Address
from sniffgate.errors import ConnectRefused, DatagramRefused, PeerReset
from sniffgate.net.ports import Conn, Network
from sniffgate.net.sockets import SocketNetwork
from sniffgate.testing import SCRIPTS, FaultyNode, Node, RealNode, Script, VirtualNetwork
from sniffgate.testing.scripts import Client, dns_answer, dns_query

LIMIT = 20.0  # seconds that a scenario may take on real sockets
QUIET = 0.1  # seconds after which no answer is believed to come

Scenario = Callable[[Network, FaultyNode, Callable[[], Awaitable[None]]], Awaitable[None]]
SCENARIOS: list[object] = []


async def shout(client: Client) -> None:
    """A script of this module."""
    while data := await client.receive():
        await client.send(data.upper())


SHOUT = Script(shout)


def scenario(script: str) -> Callable[[Scenario], Scenario]:
    """Enters a scenario, to be run on both kinds of node."""

    def enter(function: Scenario) -> Scenario:
        SCENARIOS.append(pytest.param(script, function, id=function.__name__))
        return function

    return enter


async def open_to(network: Network, node: FaultyNode) -> Conn:
    """A TCP connection to a node."""
    assert node.tcp is not None
    return await network.connect_tcp(node.tcp)


async def ask(network: Network, node: FaultyNode, data: bytes) -> bytes:
    """The first chunk of an answer."""
    with await open_to(network, node) as conn:
        await conn.send_all(data)
        return await conn.receive_some(1000)


async def query(network: Network, node: FaultyNode, data: bytes) -> bytes:
    """The answer to a datagram."""
    assert node.udp is not None
    with network.connect_udp(node.udp) as conn:
        conn.send_nowait(data)
        return await conn.receive()


async def silent(work: Awaitable[object]) -> bool:
    """Whether nothing comes."""
    with trio.move_on_after(QUIET):
        await work
        return False
    return True


@scenario("echo")
async def each_chunk_is_tagged(network: Network, node: FaultyNode, settled: Callable[[], Awaitable[None]]) -> None:
    """The name tells a client whom it has reached."""
    assert (b"node-a:hi", b"node-a:ho") == (await ask(network, node, b"hi"), await query(network, node, b"ho"))


@scenario("request")
async def a_request_is_answered_at_its_end(
    network: Network, node: FaultyNode, settled: Callable[[], Awaitable[None]]
) -> None:
    """As HTTP/0.9, and whoever half-closes."""
    with await open_to(network, node) as conn:
        await conn.send_all(b"one ")
        assert await silent(conn.receive_some(100))
        await conn.send_all(b"two")
        await conn.send_eof()
        assert (b"node-a:one two", b"") == (await conn.receive_some(100), await conn.receive_some(100))


@scenario("lines")
async def each_line_is_answered(network: Network, node: FaultyNode, settled: Callable[[], Awaitable[None]]) -> None:
    """However it was cut up on the way."""
    with await open_to(network, node) as conn:
        await conn.send_all(b"a\nb\nrest")
        got = b""
        while len(got) < 18:
            got += await conn.receive_some(100)
        assert b"node-a:a\nnode-a:b\n" == got
        await conn.send_eof()
        assert b"node-a:rest" == await conn.receive_some(100)


@scenario("greeting")
async def a_greeting_comes_first(network: Network, node: FaultyNode, settled: Callable[[], Awaitable[None]]) -> None:
    """As in SMTP, FTP or MySQL."""
    with await open_to(network, node) as conn:
        assert b"node-a ready\n" == await conn.receive_some(100)
        await conn.send_all(b"x")
        assert b"node-a:x" == await conn.receive_some(100)


@scenario("slow-reader")
async def a_slow_reader_reads_all(network: Network, node: FaultyNode, settled: Callable[[], Awaitable[None]]) -> None:
    """It shows who buffers without bound."""
    with await open_to(network, node) as conn:
        began = trio.current_time()
        await conn.send_all(bytes(3000))
        await conn.send_eof()
        assert b"node-a:3000" == await conn.receive_some(100)
        assert trio.current_time() - began >= 0.3


@scenario("dns")
async def a_dns_server_names_itself(network: Network, node: FaultyNode, settled: Callable[[], Awaitable[None]]) -> None:
    """The same over both transports, and nothing to what is no query."""
    asked = dns_query("example.test", 0x1234)
    answer = await query(network, node, asked)
    assert (asked[:2], b"\x06node-a", True) == (answer[:2], answer[-7:], bool(answer[2] & 0x80))
    framed = len(asked).to_bytes(2) + asked
    assert len(answer).to_bytes(2) + answer == await ask(network, node, framed)
    assert await silent(query(network, node, b"nonsense"))


@scenario("tests.testing.test_nodes:SHOUT")
async def a_script_of_ones_own(network: Network, node: FaultyNode, settled: Callable[[], Awaitable[None]]) -> None:
    """The list of the kit's own is short."""
    assert b"HI" == await ask(network, node, b"hi")


@scenario("echo")
async def a_killed_node_resets_refuses_and_returns(
    network: Network, node: FaultyNode, settled: Callable[[], Awaitable[None]]
) -> None:
    """On the same ports as before."""
    with await open_to(network, node) as conn:
        await conn.send_all(b"hi")
        await conn.receive_some(100)
        with node.kill():
            with pytest.raises(PeerReset):
                await _until_broken(conn)
            with pytest.raises(ConnectRefused):
                await open_to(network, node)
            with pytest.raises(DatagramRefused):
                await query(network, node, b"x")
    await settled()
    assert (b"node-a:hi", b"node-a:ho") == (await ask(network, node, b"hi"), await query(network, node, b"ho"))


async def _until_broken(conn: Conn) -> None:
    """A process that was killed with nothing unread ends its connections; what comes later is answered by a reset."""
    while True:
        await conn.send_all(b"more")
        await conn.receive_some(100)


@scenario("echo")
async def a_frozen_node_takes_and_does_not_answer(
    network: Network, node: FaultyNode, settled: Callable[[], Awaitable[None]]
) -> None:
    """Its kernel lives, so a connect proves nothing."""
    with node.freeze(), await open_to(network, node) as conn:
        await conn.send_all(b"hi")
        assert await silent(conn.receive_some(100))
        node.recover()
        assert b"node-a:hi" == await conn.receive_some(100)


@scenario("echo")
async def a_refusing_node_goes_on_with_whom_it_has(
    network: Network, node: FaultyNode, settled: Callable[[], Awaitable[None]]
) -> None:
    """As a server that is told to finish."""
    with await open_to(network, node) as conn:
        await conn.send_all(b"hi")
        await conn.receive_some(100)
        with node.refuse():
            await settled()
            with pytest.raises(ConnectRefused):
                await open_to(network, node)
            with pytest.raises(DatagramRefused):
                await query(network, node, b"x")
            await conn.send_all(b"more")
            assert b"node-a:more" == await conn.receive_some(100)
        await settled()
        assert b"node-a:hi" == await ask(network, node, b"hi")


@scenario("echo")
async def a_black_hole_says_nothing(network: Network, node: FaultyNode, settled: Callable[[], Awaitable[None]]) -> None:
    """Not even that it is one."""
    with await open_to(network, node) as conn:
        await conn.send_all(b"hi")
        await conn.receive_some(100)
        with node.black_hole():
            await settled()
            await conn.send_all(b"more")
            assert await silent(conn.receive_some(100))
            assert await silent(open_to(network, node))
            assert await silent(query(network, node, b"x"))
        assert b"node-a:more" == await conn.receive_some(100)
        await settled()
        assert (b"node-a:hi", b"node-a:ho") == (await ask(network, node, b"hi"), await query(network, node, b"ho"))


@scenario("echo")
async def a_node_may_lose_udp_alone(network: Network, node: FaultyNode, settled: Callable[[], Awaitable[None]]) -> None:
    """Health belongs to a transport."""
    with node.close_udp():
        await settled()
        with pytest.raises(DatagramRefused):
            await query(network, node, b"x")
        assert b"node-a:hi" == await ask(network, node, b"hi")
    await settled()
    assert b"node-a:ho" == await query(network, node, b"ho")


@scenario("echo")
async def a_slow_node_answers_late(network: Network, node: FaultyNode, settled: Callable[[], Awaitable[None]]) -> None:
    """Over both transports."""
    with node.slow(0.3):
        await settled()
        for work in (ask, query):
            began = trio.current_time()
            assert b"node-a:hi" == await work(network, node, b"hi")
            assert 0.3 <= trio.current_time() - began
    await settled()
    assert not await silent(ask(network, node, b"hi"))


@scenario("echo")
async def the_end_of_a_block_ends_every_fault(
    network: Network, node: FaultyNode, settled: Callable[[], Awaitable[None]]
) -> None:
    """The same on both networks: a process is told to recover, not from what."""
    with node.close_udp():
        with node.slow(0.3):
            await settled()
            with pytest.raises(DatagramRefused):
                await query(network, node, b"x")
        await settled()
        assert b"node-a:ho" == await query(network, node, b"ho")
    await settled()


every_scenario = pytest.mark.parametrize(("script", "play"), SCENARIOS)


@pytest.mark.virtual
@every_scenario
def test_on_the_virtual_network(script: str, play: Scenario) -> None:
    """It takes no time."""

    async def main() -> None:
        network = VirtualNetwork()
        found = SHOUT if ":" in script else SCRIPTS[script]
        node = Node(network, "node-a", "10.0.0.1", script=found)
        async with trio.open_nursery() as nursery:
            await nursery.start(node.serve)
            await play(network, node, trio.lowlevel.checkpoint)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=MockClock(autojump_threshold=0))


@pytest.mark.realnet
@every_scenario
def test_as_a_real_process(script: str, play: Scenario) -> None:
    """It has a kernel's word for it."""

    async def main() -> None:
        with trio.fail_after(LIMIT), RealNode("node-a", script) as node:
            await node.wait_ready()
            await play(SocketNetwork(), node, node.wait_ready)

    trio.run(main)


@pytest.mark.realnet
async def test_a_node_that_cannot_start_is_told_of() -> None:
    """A misspelt script must not look like a gateway that fails."""
    with (
        trio.fail_after(LIMIT),
        RealNode("node-a", "tests.testing.test_nodes:NONE") as node,
        pytest.raises(RuntimeError, match="node-a: the process ended by itself, status 1"),
    ):
        await node.wait_ready()


@pytest.mark.realnet
async def test_a_node_serves_what_it_is_to_serve() -> None:
    """Many serve one transport."""
    with trio.fail_after(LIMIT), RealNode("node-a", udp=False) as node:
        await node.wait_ready()
        assert node.udp is None
        assert b"node-a:hi" == await ask(SocketNetwork(), node, b"hi")


@pytest.mark.realnet
async def test_a_node_dies_with_whoever_started_it() -> None:
    """A test that is killed must leave nothing behind."""
    code = (
        "import trio, os\n"
        "from sniffgate.testing import RealNode\n"
        "async def main():\n"
        "    node = RealNode('node-a'); node.start(); await node.wait_ready()\n"
        "    print(node.tcp.port, flush=True); os.kill(os.getpid(), 9)\n"
        "trio.run(main)\n"
    )
    with trio.fail_after(LIMIT):
        done = await trio.run_process([sys.executable, "-c", code], capture_stdout=True, check=False)
        assert -signal.SIGKILL == done.returncode
        while True:
            try:
                (await SocketNetwork().connect_tcp(Address("127.0.0.1", int(done.stdout)))).close()
            except ConnectRefused:
                return
            await trio.sleep(0.01)


@pytest.mark.realnet
async def test_a_killed_node_leaves_no_zombie() -> None:
    """A run of a thousand tests starts a few thousand."""
    with trio.fail_after(LIMIT), RealNode("node-a") as node:
        await node.wait_ready()
        pid = node.pid
        assert pid is not None
        node.kill()
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
        assert node.pid is None


def test_a_node_is_a_command() -> None:
    """A person may start one in a terminal."""
    done = subprocess.run(
        [sys.executable, "-m", "sniffgate.testing.node", "node-a", "echo", "0", "-"],
        input="slow 0.1\n", capture_output=True, text=True, timeout=LIMIT, check=True,
    )  # fmt: skip
    ready, *rest = done.stdout.splitlines()
    assert ["ready", "-"] == [ready.split()[0], ready.split()[2]]
    assert rest in ([], ["done"])


@pytest.mark.parametrize("query", [b"", b"x" * 12, dns_query("a.b")[:-1], b"\0\0\x80" + bytes(20), b"\xff" * 40])
def test_what_is_no_dns_query_has_no_answer(query: bytes) -> None:
    """Two servers that answer each other's answers never stop."""
    assert dns_answer("node-a", query) is None
