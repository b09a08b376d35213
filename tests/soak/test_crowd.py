"""Thousands of idle connections through the real program: what one costs, and that a switch and a drain are on time."""

import contextlib
import resource
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.program import Process, Program, until

pytestmark = [pytest.mark.e2e, pytest.mark.soak]

CROWD = Path(__file__).with_name("crowd.py")
PATIENCE = 120.0  # seconds for thousands of connections to come or go
MOST_KIB = 6.0  # resident, per idle connection
SETTINGS = "shutdown_grace_ms = 1000\ndrain_timeout_ms = 2000\nfailback_drain_timeout_ms = 2000\n"


@pytest.fixture(autouse=True)
def all_descriptors() -> Iterator[None]:
    """As many as this process may have, and its children inherit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def at_most(wanted: int) -> int:
    """As many connections as the program can have descriptors for, two each and some to spare."""
    return min(wanted, (resource.getrlimit(resource.RLIMIT_NOFILE)[1] - 1000) // 2)


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    """The program between two nodes for crowds."""
    with contextlib.ExitStack() as stack:
        tables = ""
        for name, priority in (("a", 20), ("b", 10)):
            node = stack.enter_context(Process(sys.executable, str(CROWD)))
            assert node.child.stdout is not None
            port = int(node.child.stdout.readline())
            tables += f'[[nodes]]\nname = "{name}"\npriority = {priority}\ntcp = "127.0.0.1:{port}"\nprobe = "none"\n'
        yield stack.enter_context(Program(tmp_path / "gateway.toml", tables, fast=SETTINGS))


@contextlib.contextmanager
def crowd(program: Program, size: int) -> Iterator[list[socket.socket]]:
    """So many idle connections, each known to have reached a node."""
    with contextlib.ExitStack() as stack:
        conns = []
        for _ in range(size):
            conn = stack.enter_context(program.connect())
            conn.sendall(b"x")
            conns.append(conn)
        for conn in conns:
            assert b"x" == conn.recv(10)
        yield conns


def test_an_idle_connection_costs_less_than_six_kilobytes(program: Program) -> None:
    """Resident memory, over what the program needs anyway; and the second crowd needs none that the first did not."""
    size = at_most(5000)
    with crowd(program, 200):
        pass
    until(lambda: program.descriptors() < 200, "the end of the first ones", PATIENCE)
    empty = program.resident_kb()
    peaks = []
    for _ in range(3):
        with crowd(program, size):
            time.sleep(1.0)
            peaks.append(program.resident_kb())
        until(lambda: program.descriptors() < 200, "the end of the crowd", PATIENCE)
    print(f"{size} connections: {[round((peak - empty) / size, 2) for peak in peaks]} KiB each, {empty} KiB without")
    assert peaks[0] - empty <= MOST_KIB * size
    assert peaks[-1] - peaks[0] <= 0.5 * size


def test_a_crowd_is_switched_and_drained_on_time(program: Program) -> None:
    """A drain is one deadline, however many it is for; new clients go to the other node meanwhile."""
    size = at_most(9000)
    with crowd(program, size) as conns:
        began = time.monotonic()
        assert program.control("switch b")["ok"]
        assert time.monotonic() - began < 1.0
        for _ in range(20):
            with program.connect() as conn:
                conn.sendall(b"new")
                assert b"new" == conn.recv(10)
        assert size <= program.control("stats")["flows"]
        assert time.monotonic() - began < 1.9, "too slow to tell"
        conns[0].settimeout(PATIENCE)
        assert b"" == conns[0].recv(10)
        first = time.monotonic() - began
        for conn in conns:
            conn.settimeout(PATIENCE)
            assert b"" == conn.recv(10)
        last = time.monotonic() - began
        print(
            f"{size} connections, drained after 2 s: the first was cut after {first:.2f} s, the last after {last:.2f}"
        )
        assert 1.9 < first
        assert last < 2.0 + 1.0 + size / 3000
    until(lambda: program.descriptors() < 200, "the end of the crowd", PATIENCE)
