"""What happens to the machine and to the peers: frozen nodes, no descriptors, full pipes, clocks that jump."""

import os
import re
import resource
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.load import Load, echo, ended_after, held
from tests.e2e.program import FAST, NodeProcess, Program, node_table, until

pytestmark = pytest.mark.e2e

EXPECTING = (
    'probe_payload = "ping"\nprobe_expect = "node-{0}:ping"\n'
    'udp_probe_payload = "ping"\nudp_probe_expect = "node-{0}:ping"\n'
)
CLOCK = """import os, time
_real, _real_ns = time.time, time.time_ns

def _offset():
    with open(os.environ["CLOCK_OFFSET"]) as file:
        return int(file.read() or 0)

time.time = lambda: _real() + _offset()
time.time_ns = lambda: _real_ns() + _offset() * 10**9
"""


@pytest.fixture
def a() -> Iterator[NodeProcess]:
    """The preferred backend."""
    with NodeProcess("node-a") as node:
        yield node


@pytest.fixture
def b() -> Iterator[NodeProcess]:
    """Its standby."""
    with NodeProcess("node-b") as node:
        yield node


def test_a_frozen_node_is_left_within_the_detection_time(tmp_path: Path, a: NodeProcess, b: NodeProcess) -> None:
    """Its kernel goes on completing handshakes, so only an expectation can tell; nobody is answered by a corpse."""
    nodes = node_table(a, 10, EXPECTING.format("a")) + node_table(b, 5, EXPECTING.format("b"))
    # interval + 10 %, the next probe beside the silent one, one more step at the fast pace, one timeout: not three
    detection = 0.110 + 0.05 + 0.05 + 1.0
    fast = FAST.replace("probe_timeout_ms = 300", "probe_timeout_ms = 1000")
    with Program(tmp_path / "gateway.toml", nodes, fast=fast) as program, held(program) as conn, program.udp() as port:
        program.wait_healthy("node-a", "node-b")
        port.send(b"x")
        assert b"node-a:x" == port.recv(100)
        a.freeze()
        frozen = time.monotonic()
        until(lambda: program.active("tcp") == program.active("udp") == "node-b", "the switch")
        assert time.monotonic() - frozen < detection + 1.0  # the machine may be busy

        assert [b"node-b:hi"] * 10 == [program.ask() for _ in range(10)]
        for number in range(5):
            port.send(b"%d" % number)
            assert b"node-b:%d" % number == port.recv(100)
        assert ended_after(conn, frozen) < 1.0 + detection + 1.0  # the drain is a second
        before = program.node("node-a")["stats"]["bytes_tx"]
        a.thaw()
        until(lambda: program.active() == "node-a", "the failback")
        assert before == program.node("node-a")["stats"]["bytes_tx"]
        assert b"node-a:hi" == program.ask()


def test_with_few_descriptors_flows_wait_their_turn_and_none_is_harmed(tmp_path: Path, a: NodeProcess) -> None:
    """A limit of 64 leaves room for one flow: the others wait in the kernel's backlog, and are served in turn."""
    wrap = ("prlimit", "--nofile=64:64", "--")
    with Program(tmp_path / "gateway.toml", node_table(a), wrap=wrap) as program, held(program) as first:
        waiting = [program.connect() for _ in range(40)]
        for conn in waiting:
            conn.sendall(b"hi")
        for _ in range(10):
            echo(first)
        first.close()
        for conn in waiting:
            assert b"node-a:hi" == conn.recv(100)
            conn.close()

        assert 0 == program.control("stats")["crashes"]
        assert "healthy" == program.node("node-a")["state"]
        assert len(program.said()) < 5000


def test_a_shortage_of_descriptors_harms_no_flow_fills_no_log_and_passes(
    tmp_path: Path, a: NodeProcess, b: NodeProcess
) -> None:
    """It is our own trouble: never evidence against a node, told of at a bounded rate, over when it is over."""
    nodes = node_table(a, 10) + node_table(b, 5)
    with Program(tmp_path / "gateway.toml", nodes) as program:
        program.wait_healthy("node-a", "node-b")
        held_open = [held(program) for _ in range(5)]
        soft, hard = resource.prlimit(program.child.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(program.child.pid, resource.RLIMIT_NOFILE, (program.descriptors() + 1, hard))
        said = len(program.said().splitlines())
        waiting = [program.connect() for _ in range(30)]
        began = time.monotonic()
        while time.monotonic() - began < 2.0:
            for conn in held_open:
                echo(conn)
        lines = len(program.said().splitlines()) - said
        resource.prlimit(program.child.pid, resource.RLIMIT_NOFILE, (soft, hard))

        assert lines < 100
        served = 0
        for conn in waiting:  # those that were accepted and met the shortage then were reset
            with conn:
                try:
                    conn.sendall(b"hi")
                    served += conn.recv(100) == b"node-a:hi"
                except ConnectionError:
                    continue
        assert served > 0
        until(lambda: program.ask() == b"node-a:hi", "the end of the shortage")
        assert [b"node-a:hi"] * 20 == [program.ask() for _ in range(20)]
        status = program.control("status")
        assert ["healthy", "healthy"] == [node["state"] for node in status["nodes"]]
        assert [0, 0] == [node["stats"]["passive_ejects"] for node in status["nodes"]]
        assert sum(program.control("stats")["shortages"].values()) > 0
        assert 0 == program.control("stats")["crashes"]
        for conn in held_open:
            echo(conn)
            conn.close()


@pytest.mark.parametrize("where", ["a pipe that nobody reads", "a full disk"])
def test_a_log_that_cannot_be_written_costs_lines_and_no_traffic(where: str, tmp_path: Path, a: NodeProcess) -> None:
    """Forwarding must not depend on whoever collects logs."""
    reading, writing = os.pipe()
    if where == "a full disk":
        os.close(writing)
        writing = os.open("/dev/full", os.O_WRONLY)
    settings = 'log_level = "debug"\nflow_log = "all"\n'
    try:
        with Program(tmp_path / "gateway.toml", node_table(a), settings=settings, stderr=writing) as program:
            program.wait_healthy("node-a")
            with Load(program, per_second=2000, clients=2) as load:  # as fast as two clients can
                until(lambda: load.answered > 600, "six hundred answers")
            before = program.resident_kb()
            with Load(program, per_second=2000, clients=2) as more:
                until(lambda: more.answered > 300, "three hundred more")

            assert [] == load.failures + more.failures
            assert program.resident_kb() - before < 4000
            program.signal(signal.SIGTERM)
            assert 0 == program.wait()
    finally:
        os.close(reading)
        os.close(writing)


def test_a_clock_that_jumps_moves_displayed_times_and_nothing_else(
    tmp_path: Path, a: NodeProcess, b: NodeProcess
) -> None:
    """Time servers and resumed machines do it: no session may expire, no drain end early, no probe be missed."""
    shim = tmp_path / "shim"
    shim.mkdir()
    (shim / "sitecustomize.py").write_text(CLOCK)
    offset = tmp_path / "offset"
    offset.write_text("0")
    jumps = (7200, -7200, 30 * 86400, 0)
    env = {"PYTHONPATH": str(shim), "CLOCK_OFFSET": str(offset)}
    fast = FAST.replace("drain_timeout_ms = 1000", "drain_timeout_ms = 2000") + "udp_session_timeout_ms = 2000\n"
    nodes = node_table(a, 10) + node_table(b, 5)

    def jump(seconds: int) -> None:
        new = offset.with_suffix(".new")
        new.write_text(str(seconds))
        new.rename(offset)

    with (
        Program(tmp_path / "gateway.toml", nodes, fast=fast, tcp="idle_timeout_ms = 2000", env=env) as program,
        held(program) as idle,
        held(program) as draining,
        program.udp() as port,
    ):
        program.wait_healthy("node-a", "node-b")
        echo(idle)
        port.send(b"x")
        assert b"node-a:x" == port.recv(100)
        began = time.monotonic()
        assert program.control("drain node-a 1.5")["ok"]
        ordered = time.monotonic()
        probes = program.node("node-b")["stats"]["probe_ok"]
        for seconds in jumps:
            jump(seconds)
            shown = program.control("status")["now_ms"] / 1000 - time.time()
            assert abs(shown - seconds) < 1
            time.sleep(0.25)

        assert 1.4 < ended_after(draining, ordered) < 2.0
        assert time.monotonic() - began < 2.5
        found = (program.node("node-b")["stats"]["probe_ok"] - probes) / (time.monotonic() - began)
        assert 6 < found < 14  # ten a second
        assert {"tcp": "node-b", "udp": "node-b"} == program.control("status")["active"]
        with held(program, "node-b") as conn:
            quiet = time.monotonic()
            jump(7200)
            assert 1.9 < ended_after(conn, quiet) < 2.5
        assert "healthy" == program.node("node-b")["state"]
        assert 0 == program.control("stats")["crashes"]


def test_clients_that_end_their_side_and_stay_are_let_go(tmp_path: Path, a: NodeProcess) -> None:
    """Two hundred half-closed connections at a node that never answers: descriptors come back at the bound."""
    with Program(tmp_path / "gateway.toml", node_table(a), tcp="half_close_timeout_ms = 1500") as program:
        program.wait_healthy("node-a")
        before = program.descriptors()
        with held(program) as other:
            conns = [program.connect() for _ in range(200)]
            for conn in conns:
                conn.sendall(b"HOLD")
                conn.shutdown(socket.SHUT_WR)
            ended = time.monotonic()
            until(lambda: program.node("node-a")["inflight_tcp"] == 201, "all the flows")
            assert program.descriptors() > before + 390  # two for each flow; probes come and go
            until(lambda: program.descriptors() <= before + 2, "the descriptors to come back")
            assert 1.4 < time.monotonic() - ended < 5.0
            echo(other)
            for conn in conns:
                conn.close()

        assert 200 == program.control("stats")["endings"]["half_close_timeout"]
        assert not [line for line in tcp_states(program) if line == "08"]  # CLOSE_WAIT


def tcp_states(program: Program) -> list[str]:
    """The states of the kernel's TCP sockets at the program's public port, as /proc spells them."""
    port = f":{program.port:04X}"
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return [line.split()[3] for line in lines if line.split()[1].endswith(port)]


def test_a_dead_node_under_load_is_told_of_once(tmp_path: Path, b: NodeProcess) -> None:
    """Not at every client, not at every probe and not at every datagram, or trouble would fill the disk."""
    with NodeProcess("node-a") as a:
        nodes = node_table(a, 10) + node_table(b, 5)
        with Program(tmp_path / "gateway.toml", nodes) as program:
            program.wait_healthy("node-a", "node-b")
            with Load(program, per_second=200), program.udp() as port:
                a.kill()
                until(lambda: program.active() == "node-b", "the switch")
                said = len(program.said())
                began = time.monotonic()
                while time.monotonic() - began < 1.5:
                    port.send(b"x")
                    assert b"node-b:x" == port.recv(100)
            assert len(program.said()) - said < 1500
            assert 1 == len(re.findall(r"node-a/tcp is unhealthy", program.said()))
