"""How the process ends: flows finish in their grace, a second signal cuts, and the ports are free at once."""

import hashlib
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.load import Load, echo, ended_after, held, refused
from tests.e2e.node import pattern
from tests.e2e.program import FAST, LIMIT, NodeProcess, Program, node_table, until

pytestmark = pytest.mark.e2e

SIZE = 3_000_000
PATIENT = FAST.replace("shutdown_grace_ms = 1000", "shutdown_grace_ms = 60000")


@pytest.fixture
def node() -> Iterator[NodeProcess]:
    """One backend."""
    with NodeProcess("node-a") as node:
        yield node


@pytest.fixture
def patient(tmp_path: Path, node: NodeProcess) -> Iterator[Program]:
    """The program with a grace that no test waits for."""
    with Program(tmp_path / "gateway.toml", node_table(node), fast=PATIENT) as program:
        yield program


def test_transfers_under_way_at_the_signal_finish_and_the_process_ends_with_the_last(patient: Program) -> None:
    """A deployment must cost no client the second half of its answer."""
    digests: list[bytes] = []

    def transfer(conn: socket.socket) -> None:
        digest = hashlib.sha256()
        with conn:
            conn.shutdown(socket.SHUT_WR)
            while chunk := conn.recv(20_000):
                digest.update(chunk)
        digests.append(digest.digest())

    with Load(patient) as load:
        until(lambda: load.answered > 20)
        conns = [held(patient) for _ in range(2)] + [patient.connect() for _ in range(6)]
        for conn in conns[2:]:
            conn.sendall(b"HASH %d\n" % SIZE)
        until(lambda: len(conns) <= patient.node("node-a")["inflight_tcp"])
        patient.signal(signal.SIGTERM)
        until(lambda: refused(patient.port), "the port to be given back")
    threads = [threading.Thread(target=transfer, args=(conn,)) for conn in conns[2:]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)

    assert [hashlib.sha256(pattern(SIZE)).digest()] * 6 == digests
    assert patient.child.poll() is None
    for conn in conns[:2]:
        echo(conn)
        conn.close()
    last = time.monotonic()
    assert 0 == patient.wait()
    assert time.monotonic() - last < 1.0
    assert "Traceback" not in patient.said()


def test_a_second_signal_cuts_at_once(patient: Program) -> None:
    """Whoever asks twice has no time."""
    with held(patient) as conn:
        patient.signal(signal.SIGTERM)
        until(lambda: refused(patient.port), "the port to be given back")
        echo(conn)
        again = time.monotonic()
        patient.signal(signal.SIGTERM)

        assert ended_after(conn, again) < 0.5
        assert 0 == patient.wait()


def test_an_interrupted_process_cuts_idle_clients_when_the_grace_is_over(tmp_path: Path, node: NodeProcess) -> None:
    """Ctrl-C is a stop like any other, and one client that never leaves cannot hold it up; nor can an operator."""
    with (
        Program(tmp_path / "gateway.toml", node_table(node)) as program,
        held(program) as conn,
        socket.create_connection(("127.0.0.1", program.admin), timeout=LIMIT),
    ):
        asked = time.monotonic()
        program.signal(signal.SIGINT)

        assert 1.0 <= ended_after(conn, asked) < 1.5
        assert 0 == program.wait()


def test_after_a_crash_it_starts_again_on_the_same_ports_at_once(tmp_path: Path, node: NodeProcess) -> None:
    """Connections of the dead process linger in the kernel for a minute; a supervisor does not wait for them."""
    with Program(tmp_path / "gateway.toml", node_table(node)) as program:
        conns = [held(program) for _ in range(5)]
        program.kill()
        for conn in conns:
            conn.close()
        program.start()

        assert b"node-a:hi" == program.ask()
        with program.udp() as port:
            port.send(b"x")
            assert b"node-a:x" == port.recv(100)
