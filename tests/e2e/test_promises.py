"""Four promises that the program of the same name documented and did not keep."""

import contextlib
import json
import socket
import time
from pathlib import Path

import pytest

from tests.e2e.load import ended_after, held
from tests.e2e.program import FAST, LIMIT, NodeProcess, Program, free_port, node_table, sniffgate, until

pytestmark = pytest.mark.e2e


def test_an_unprobed_dead_node_is_ejected_and_never_resurrected(tmp_path: Path) -> None:
    """Not probing is no success: after the second failure nobody is sent there; nothing but traffic brings it back."""
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
    run = sniffgate("run", "-c", path)

    assert 1 == run.returncode
    assert "token" in run.stderr
    assert "Traceback" not in run.stderr


def test_a_control_line_is_capped(tmp_path: Path) -> None:
    """A line without an end must not become memory: it is refused, read on for a moment, and then nobody listens."""
    with (
        NodeProcess("node-a") as a,
        Program(tmp_path / "gateway.toml", node_table(a)) as program,
        socket.create_connection(("127.0.0.1", program.admin), timeout=LIMIT) as conn,
    ):
        program.wait_healthy("node-a")
        before, sent = program.resident_kb(), 0
        with contextlib.suppress(ConnectionError):
            while sent < 64_000_000:
                sent += conn.send(b"x" * 65536)

        assert sent < 64_000_000
        assert program.resident_kb() - before < 2000
        assert program.control("status")["ok"]


def test_a_control_line_that_is_too_long_is_told_so(tmp_path: Path) -> None:
    """The reason must reach who sent it, though more was under way than is ever read as a line."""
    with (
        NodeProcess("node-a") as a,
        Program(tmp_path / "gateway.toml", node_table(a)) as program,
        socket.create_connection(("127.0.0.1", program.admin), timeout=LIMIT) as conn,
    ):
        conn.sendall(b"x" * 1_000_000)
        with conn.makefile("rb") as lines:
            reply = json.loads(lines.readline())
            assert (False, "a line may have 65536 bytes") == (reply["ok"], reply["error"])
            assert b"" == lines.readline()
