"""Four promises that the program of the same name documented and did not keep."""

import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.e2e.program import FAST, LIMIT, NodeProcess, Program, free_port, node_table, until

pytestmark = pytest.mark.e2e


def ended_after(conn: socket.socket, since: float) -> float:
    """Waits for the end of a connection; seconds from `since` to it."""
    conn.settimeout(LIMIT)
    try:
        assert b"" == conn.recv(100)
    except ConnectionResetError:
        pass
    return time.monotonic() - since


def held(program: Program) -> socket.socket:
    """A connection that has reached its node."""
    conn = program.connect()
    conn.sendall(b"hello")
    assert b"node-a:hello" == conn.recv(100)
    return conn


def test_an_unprobed_dead_node_is_ejected_and_never_resurrected(tmp_path: Path) -> None:
    """Not probing is no success: after the second failure nobody is sent there, and nothing but traffic brings it back."""
    settings = "passive_eject_threshold = 2\neject_time_ms = 60000\n"
    with NodeProcess("node-b") as b, NodeProcess("node-a") as a:
        nodes = node_table(a, 10, 'probe = "none"') + node_table(b, 5, 'probe = "none"')
        with Program(tmp_path / "gateway.toml", nodes, settings=settings) as program:
            a.kill()
            assert [b"node-b:hi"] * 6 == [program.ask() for _ in range(6)]

            status = program.control("status")
            assert 1 == status["nodes"][0]["stats"]["passive_ejects"]
            assert 2 == status["nodes"][0]["stats"]["tcp_conns_failed"]
            assert 0 == status["nodes"][0]["stats"]["probe_ok"]
            assert "node-b" == status["active"]["tcp"]
            tcp = [switch for switch in status["recent_switches"] if switch["protocol"] == "tcp"]
            assert [("node-a", "node-b")] == [(switch["from"], switch["to"]) for switch in tcp if switch["from"]]


def test_a_drain_timeout_of_zero_closes_within_ten_milliseconds(tmp_path: Path) -> None:
    """Zero means at once, not never."""
    fast = FAST.replace("drain_timeout_ms = 1000", "drain_timeout_ms = 0")
    with NodeProcess("node-a") as a, NodeProcess("node-b") as b:
        nodes = node_table(a, 10) + node_table(b, 5)
        with Program(tmp_path / "gateway.toml", nodes, fast=fast) as program, held(program) as conn:
            assert program.control("switch node-b")["ok"]
            switched = time.monotonic()  # the reply was read: the switch itself was earlier

            assert ended_after(conn, switched) < 0.010


def test_a_tcp_only_switch_drains_tcp(tmp_path: Path) -> None:
    """Draining belongs to an endpoint, so staying active for UDP does not keep TCP flows."""
    with NodeProcess("node-a") as a, NodeProcess("node-b") as b:
        nodes = node_table(a, 10) + node_table(b, 5)
        with Program(tmp_path / "gateway.toml", nodes) as program, held(program) as conn, program.udp() as port:
            port.send(b"x")
            assert b"node-a:x" == port.recv(100)
            before = time.monotonic()
            assert program.control("switch node-b tcp")["ok"]

            assert 1.0 <= ended_after(conn, before) < 1.2
            port.send(b"y")
            assert b"node-a:y" == port.recv(100)
            until(lambda: 1 == program.control("status")["nodes"][0]["stats"]["drain_kills"], "the count")


def test_a_control_port_beyond_loopback_needs_a_token(tmp_path: Path) -> None:
    """Whoever reaches the control port commands the gateway."""
    path = tmp_path / "gateway.toml"
    path.write_text(
        f'[global]\nadmin_listen = "0.0.0.0:{free_port()}"\n[[listeners]]\nname = "t"\nprotocol = "tcp"\n'
        f'listen = "127.0.0.1:{free_port()}"\n[[nodes]]\nname = "a"\ntcp = "127.0.0.1:9"\n'
    )
    run = subprocess.run(
        [sys.executable, "-m", "sniffgate", "run", "-c", str(path)], capture_output=True, text=True, timeout=LIMIT
    )

    assert 1 == run.returncode
    assert "token" in run.stderr
    assert "Traceback" not in run.stderr


def test_a_control_line_is_capped(tmp_path: Path) -> None:
    """A line without an end must not become memory."""
    with NodeProcess("node-a") as a, Program(tmp_path / "gateway.toml", node_table(a)) as program:
        with socket.create_connection(("127.0.0.1", program.admin), timeout=LIMIT) as conn:
            conn.sendall(b"status\n")
            with conn.makefile("rb") as lines:
                assert b'"ok": true' in lines.readline().replace(b'"ok":true', b'"ok": true')
                sent = 0
                with pytest.raises(OSError):  # noqa: PT012 - the kernel says at some send that nobody reads any more
                    while sent < 4_000_000:
                        sent += conn.send(b"x" * 65536)
                    raise AssertionError("four megabytes of one line were taken")
