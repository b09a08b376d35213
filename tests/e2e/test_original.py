"""What the program of the same name could do, on real processes: forwarding, switching, dying, reloading."""

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.program import LIMIT, NodeProcess, Program, node_table, until

pytestmark = pytest.mark.e2e


@pytest.fixture
def nodes() -> Iterator[tuple[NodeProcess, NodeProcess]]:
    """Two backends."""
    with NodeProcess("node-a") as a, NodeProcess("node-b") as b:
        yield a, b


@pytest.fixture
def program(tmp_path: Path, nodes: tuple[NodeProcess, NodeProcess]) -> Iterator[Program]:
    """The program with node-a preferred."""
    a, b = nodes
    with Program(tmp_path / "gateway.toml", node_table(a, 10) + node_table(b, 5)) as program:
        yield program


def test_one_port_forwards_both_transports(program: Program) -> None:
    """DNS, SIP and games use one number for both."""
    with program.udp() as port:
        port.send(b"one")
        assert b"node-a:one" == port.recv(100)
    assert b"node-a:hi" == program.ask()


def test_an_operator_switches_and_releases(program: Program) -> None:
    """`switch` pins, `auto` goes back to priorities."""
    assert program.control("switch node-b")["ok"]
    assert b"node-b:hi" == program.ask()
    assert {"tcp": "node-b", "udp": "node-b"} == program.control("status")["pins"]

    assert program.control('{"cmd":"auto"}')["ok"]
    assert b"node-a:hi" == program.ask()


def test_a_disabled_node_gets_nothing_until_enabled(program: Program) -> None:
    """Maintenance."""
    program.control("disable node-a")
    assert b"node-b:hi" == program.ask()
    program.control("enable node-a")
    assert b"node-a:hi" == program.ask()


def test_no_request_fails_when_the_active_node_is_killed(
    program: Program, nodes: tuple[NodeProcess, NodeProcess]
) -> None:
    """The main job: the address survives the death of the machine behind it, and traffic returns afterwards."""
    until(lambda: program.control("status")["nodes"][1]["state"] == "healthy")
    nodes[0].kill()

    assert [b"node-b:hi"] * 20 == [program.ask() for _ in range(20)]
    until(lambda: program.active("tcp") == "node-b" == program.active("udp"), "the switch")

    nodes[0].start()
    until(lambda: program.active("tcp") == "node-a", "the failback")
    assert b"node-a:hi" == program.ask()


def test_a_udp_session_moves_to_the_standby_when_its_node_is_killed(
    program: Program, nodes: tuple[NodeProcess, NodeProcess]
) -> None:
    """A client that keeps one socket for ever must not stay glued to a dead node."""
    with program.udp() as port:
        port.send(b"0")
        assert b"node-a:0" == port.recv(100)
        nodes[0].kill()

        for number in range(1, 21):
            port.send(str(number).encode())
            assert f"node-b:{number}".encode() == port.recv(100)


def test_a_node_is_added_by_editing_the_file(program: Program, nodes: tuple[NodeProcess, NodeProcess]) -> None:
    """No restart, no command."""
    a, b = nodes
    with NodeProcess("node-c") as c:
        program.write(node_table(a, 10) + node_table(b, 5) + node_table(c, 20))

        until(lambda: program.active("tcp") == "node-c", "the new node")
        assert b"node-c:hi" == program.ask()


def test_a_broken_file_is_kept_out_and_a_mended_one_let_in(
    program: Program, nodes: tuple[NodeProcess, NodeProcess]
) -> None:
    """A typo saved by mistake must not touch running traffic, nor stop later reloads."""
    a, b = nodes
    program.write(node_table(a, 10).replace("priority", "priorty") + node_table(b, 5))
    report = until(lambda: program.control("status")["reload"], "the report of a failed reload")

    assert not report["ok"]
    assert "priorty" in report["message"]
    assert str(program.path) in report["message"]
    assert b"node-a:hi" == program.ask()

    program.write(node_table(a, 5) + node_table(b, 10))
    until(lambda: program.active("tcp") == "node-b", "the mended file")
    assert program.control("status")["reload"]["ok"]


def test_an_edit_with_sed_is_seen(program: Program) -> None:
    """Editors write a new file and rename it over the old one."""
    assert 0 == os.system(f"sed -i 's/priority = 5/priority = 50/' {program.path}")

    until(lambda: program.active("tcp") == "node-b", "the edit")


HOSTILE = [
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n",
    b"[" * 60000 + b"\n",
    b'{"cmd":' + b"9" * 5000 + b"}\n",
    b'{"cmd":"switch","node":7}\n',
    b"\xff\xfe\x00\n",
    b"x" * 70000 + b"\n",
]


def test_hostile_control_input_ends_in_one_error_line(program: Program) -> None:
    """Scanners and browsers find every port, and the gateway must not care."""
    for line in HOSTILE:
        with socket.create_connection(("127.0.0.1", program.admin), timeout=LIMIT) as conn:
            conn.sendall(line)
            with conn.makefile("rb") as lines:
                reply = json.loads(lines.readline())

        assert (line[:40], False) == (line[:40], reply["ok"])
        assert reply["error"]
        assert b"node-a:hi" == program.ask()
    assert 0 == program.control("stats")["crashes"]
