"""Real traffic in bulk: whole, bounded, and undisturbed by reloads."""

import hashlib
import random
import selectors
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.node import pattern
from tests.e2e.program import LIMIT, NodeProcess, Program, node_table, until

pytestmark = pytest.mark.e2e

SIZE = 10_000_000


@pytest.fixture
def node() -> Iterator[NodeProcess]:
    """One backend."""
    with NodeProcess("node-a") as node:
        yield node


@pytest.fixture
def program(tmp_path: Path, node: NodeProcess) -> Iterator[Program]:
    """The program with that node."""
    with Program(tmp_path / "gateway.toml", node_table(node)) as program:
        yield program


STREAM, READERS, STOPPED = 64_000_000, 20, 30.0


class StoppedReaders:
    """Clients that have asked for a stream and read none of it, at a program and a node of their own."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.conns = [program.connect() for _ in range(READERS)]
        for conn in self.conns:
            conn.sendall(b"PUSH %d\n" % STREAM)
        self.since = time.monotonic()
        time.sleep(2.0)  # until all buffers between are full
        self.resident_kb = program.resident_kb()

    def read_all(self) -> list[bytes]:
        """Reads every stream to its end, all at once; their digests."""
        digests: list[bytes] = []

        def read_on(conn: socket.socket) -> None:
            digest = hashlib.sha256()
            with conn:
                while chunk := conn.recv(262144):
                    digest.update(chunk)
            digests.append(digest.digest())

        threads = [threading.Thread(target=read_on, args=(conn,)) for conn in self.conns]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(2 * LIMIT)
        return digests


@pytest.fixture(scope="module", autouse=True)
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoppedReaders]:
    """They stand still while the other tests of this module run: half a minute is long for a test that only waits."""
    path = tmp_path_factory.mktemp("stopped") / "gateway.toml"
    with NodeProcess("node-a") as node, Program(path, node_table(node)) as program:
        yield StoppedReaders(program)


def send_in_pieces(conn: socket.socket, payload: bytes) -> None:
    """Sends `payload` in chunks of random size, then ends that direction."""
    dice, at = random.Random(11), 0
    while at < len(payload):
        size = dice.choice((1, 100, 1460, 16384, 65536, 250_000))
        conn.sendall(payload[at : at + size])
        at += size
    conn.shutdown(socket.SHUT_WR)


def read_all(conn: socket.socket) -> bytes:
    """Reads to the end of the stream."""
    parts = []
    while chunk := conn.recv(262144):
        parts.append(chunk)
    return b"".join(parts)


def test_ten_megabytes_each_way_when_the_client_ends_first(program: Program, node: NodeProcess) -> None:
    """A client that says all, ends its side and waits gets the whole answer."""
    payload = pattern(SIZE, seed=3)
    with program.connect() as conn:
        conn.sendall(b"HASH %d\n" % SIZE)
        send_in_pieces(conn, payload)
        answer = read_all(conn)

    assert f"read {SIZE} {hashlib.sha256(payload).hexdigest()}" == node.next_line()
    assert hashlib.sha256(pattern(SIZE)).digest() == hashlib.sha256(answer).digest()


def test_ten_megabytes_each_way_when_the_node_ends_first(program: Program, node: NodeProcess) -> None:
    """The mirror image: the node's end must not stop the client's direction."""
    payload = pattern(SIZE, seed=5)
    with program.connect() as conn:
        conn.sendall(b"PUSH %d\n" % SIZE)
        answer = read_all(conn)
        send_in_pieces(conn, payload)
        assert f"read {SIZE} {hashlib.sha256(payload).hexdigest()}" == node.next_line()

    assert hashlib.sha256(pattern(SIZE)).digest() == hashlib.sha256(answer).digest()


def test_a_thousand_connections_at_once(program: Program) -> None:
    """All are open at the same time, all are served, and nothing of them is left."""
    before = program.descriptors()
    conns = [program.connect() for _ in range(1000)]
    for number, conn in enumerate(conns):
        conn.sendall(b"%d" % number)
    answers = [conn.recv(100) for conn in conns]
    for conn in conns:
        conn.close()

    assert [b"node-a:%d" % number for number in range(1000)] == answers
    until(lambda: program.descriptors() <= before + 2, "the descriptors to be given back")
    assert 1000 == program.control("status")["nodes"][0]["stats"]["tcp_conns_total"]


def test_a_thousand_udp_clients(program: Program) -> None:
    """Each has a session of its own and its own answer."""
    ports = [socket.socket(type=socket.SOCK_DGRAM) for _ in range(1000)]
    answers: dict[int, bytes] = {}
    with selectors.DefaultSelector() as selector:
        for number, port in enumerate(ports):
            port.connect(("127.0.0.1", program.port))
            selector.register(port, selectors.EVENT_READ, number)
            port.send(b"%d" % number)
            if number % 50 == 49:
                time.sleep(0.01)  # the test's own receive buffers are small, and this is not about loss
        give_up = time.monotonic() + LIMIT
        while len(answers) < 1000 and time.monotonic() < give_up:
            for key, _ in selector.select(0.2):
                answers[key.data] = ports[key.data].recv(100)
    for port in ports:
        port.close()

    assert {number: b"node-a:%d" % number for number in range(1000)} == answers
    assert 1000 == program.control("status")["nodes"][0]["stats"]["udp_sessions_total"]


def test_two_hundred_reloads_under_load_lose_no_connection_and_leak_nothing(
    program: Program, node: NodeProcess
) -> None:
    """Reloading is as safe as not reloading."""
    failures: list[str] = []
    stop = threading.Event()

    def client() -> None:
        while not stop.is_set():
            try:
                answer = program.ask()
            except OSError as error:
                failures.append(str(error))
            else:
                if answer != b"node-a:hi":
                    failures.append(repr(answer))

    with NodeProcess("node-b") as other, program.connect() as long_lived:
        long_lived.sendall(b"first")
        assert b"node-a:first" == long_lived.recv(100)
        clients = [threading.Thread(target=client) for _ in range(2)]
        for thread in clients:
            thread.start()
        descriptors = 0
        for number in range(200):
            program.write(node_table(node, 10) + node_table(other, number % 10))
            assert program.control("reload")["ok"]
            if number == 10:
                descriptors = program.descriptors()
        grown = program.descriptors() - descriptors
        stop.set()
        for thread in clients:
            thread.join(LIMIT)
        long_lived.sendall(b"last")
        assert b"node-a:last" == long_lived.recv(100)

    assert [] == failures
    assert grown <= 8  # flows in progress at the moment of counting
    status = program.control("status")
    assert 0 == program.control("stats")["crashes"]
    until(lambda: 0 == program.control("status")["nodes"][0]["inflight_tcp"], "the flows to end")
    assert status["reload"]["ok"]


@pytest.mark.slow
def test_readers_that_stop_for_thirty_seconds_survive_and_cost_no_memory(stopped: StoppedReaders) -> None:
    """Back-pressure holds the node; nobody else is slowed down; every stream is whole when reading goes on."""
    program, slowest = stopped.program, 0.0
    measured = time.monotonic()
    while time.monotonic() < max(stopped.since + STOPPED, measured + 1.0):
        asked = time.monotonic()
        assert b"node-a:hi" == program.ask()
        slowest = max(slowest, time.monotonic() - asked)
        time.sleep(0.1)
    grown = program.resident_kb() - stopped.resident_kb
    digests = stopped.read_all()

    assert [hashlib.sha256(pattern(STREAM)).digest()] * READERS == digests
    assert grown < 1000
    assert program.resident_kb() < 100_000
    assert slowest < 1.0
