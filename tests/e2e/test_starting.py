"""How the process starts, and the one clear line when it cannot."""

import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.load import Load, echo, held
from tests.e2e.program import (
    FAST,
    LIMIT,
    SNIFFGATE,
    NodeProcess,
    Program,
    environment,
    free_port,
    node_table,
    sniffgate,
    until,
)

pytestmark = pytest.mark.e2e

SLOW_PROBES = FAST.replace("probe_interval_ms = 100", "probe_interval_ms = 10000")


@pytest.fixture
def b() -> Iterator[NodeProcess]:
    """The backend that lives."""
    with NodeProcess("node-b") as node:
        yield node


def errors(stderr: str) -> list[str]:
    """The lines that say what is wrong; a warning may stand beside them."""
    assert "Traceback" not in stderr
    return [line for line in stderr.splitlines() if line.startswith("Error: ")]


def dead(name: str, priority: int) -> str:
    """The table of a node where nobody listens."""
    address = f"127.0.0.1:{free_port()}"
    return f'[[nodes]]\nname = "{name}"\npriority = {priority}\ntcp = "{address}"\nudp = "{address}"\n'


def test_a_first_node_that_is_dead_at_the_start_costs_no_client_anything(tmp_path: Path, b: NodeProcess) -> None:
    """The first clients come before any verdict; a refused connect moves them on, and so does a refused datagram."""
    nodes = dead("node-a", 10) + node_table(b, 5)
    with Program(tmp_path / "gateway.toml", nodes, fast=SLOW_PROBES) as program:
        assert [b"node-b:hi"] * 20 == [program.ask() for _ in range(20)]
        with program.udp() as port:
            port.send(b"x")
            assert b"node-b:x" == port.recv(100)


def test_a_dead_node_added_on_top_by_a_reload_gets_no_client(tmp_path: Path, b: NodeProcess) -> None:
    """What a reload brings must first show that it works."""
    with Program(tmp_path / "gateway.toml", node_table(b, 5)) as program:
        program.wait_healthy("node-b")
        with Load(program) as load:
            program.write(dead("node-c", 50) + node_table(b, 5))
            assert program.control("reload")["ok"]
            until(lambda: program.node("node-c")["state"] == "unhealthy", "the verdict")
            answered = load.answered
            until(lambda: load.answered > answered + 20)

        assert [] == load.failures
        assert 0 == program.node("node-c")["stats"]["tcp_conns_failed"]
        assert all(switch["to"] != "node-c" for switch in program.control("status")["recent_switches"])


@pytest.mark.parametrize("transport", ["tcp", "udp"])
def test_a_second_instance_on_the_same_port_fails_and_leaves_the_first_alone(
    transport: str, tmp_path: Path, b: NodeProcess
) -> None:
    """Two that shared a port would share the traffic, unseen."""
    with (
        Program(tmp_path / "gateway.toml", node_table(b)) as program,
        held(program, "node-b") as conn,
        program.udp() as port,
    ):
        second = tmp_path / "second.toml"
        second.write_text(
            f'[global]\nadmin_listen = ""\n[[listeners]]\nname = "mine"\nprotocol = "{transport}"\n'
            f'listen = "127.0.0.1:{program.port}"\n' + node_table(b)
        )
        told = sniffgate("run", "-c", second, limit=10.0)

        assert 3 == told.returncode
        [line] = errors(told.stderr)
        assert line.startswith("Error: listener mine: ")
        assert f"{transport} 127.0.0.1:{program.port}" in line
        echo(conn, "node-b")
        for number in range(20):
            port.send(b"%d" % number)
            assert b"node-b:%d" % number == port.recv(100)
        assert [b"node-b:hi"] * 10 == [program.ask() for _ in range(10)]


def test_the_very_same_file_started_twice_fails_too(tmp_path: Path, b: NodeProcess) -> None:
    """The commonest way to have two of them."""
    with Program(tmp_path / "gateway.toml", node_table(b)) as program:
        told = sniffgate("run", "-c", program.path)

        assert (3, 1) == (told.returncode, len(errors(told.stderr)))
        assert b"node-b:hi" == program.ask()


LISTENER = '[[listeners]]\nname = "t"\nprotocol = "tcp"\nlisten = "127.0.0.1:0"\n'
NODE = '[[nodes]]\nname = "a"\ntcp = "127.0.0.1:9"\n'


def listening(address: str) -> str:
    """A file that listens there."""
    return OFF + LISTENER.replace("127.0.0.1:0", address) + NODE


def settings(lines: str) -> str:
    """A file with those lines in `[global]`."""
    return f"[global]\n{lines}\n" + LISTENER + NODE


OFF = '[global]\nadmin_listen = ""\n'
FREE = "127.0.0.1:1"  # nobody listens there


def with_file(content: str | bytes) -> Callable[[Path], list[str]]:
    """`run` with a file of that content."""

    def arguments(folder: Path) -> list[str]:
        path = folder / "gateway.toml"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return ["run", "-c", str(path)]

    return arguments


WRONG = with_file(settings("strategi = 1"))
MISTAKES: dict[str, tuple[int, str, Callable[[Path], list[str]]]] = {
    "a missing file": (1, "no such file", lambda folder: ["run", "-c", str(folder / "none.toml")]),
    "a directory": (1, "directory", lambda folder: ["run", "-c", str(folder)]),
    "a binary file": (1, "a binary or damaged file", with_file(b"\x7fELF\x02\x01\x01\x00\xff\xfe")),
    "no listener": (1, "listener", with_file(OFF + NODE)),
    "an open string": (1, "gateway.toml:", with_file('[global]\nstrategy = "prio')),
    "an unknown key": (1, "strategi", with_file(settings('strategi = "x"'))),
    "a wrong type": (1, "probe_timeout_ms", with_file(settings('probe_timeout_ms = "soon"'))),
    "a bad address": (1, "99999", with_file(listening("127.0.0.1:99999"))),
    "an address of another machine": (3, "192.0.2.1", with_file(listening("192.0.2.1:7000"))),
    "a missing token file": (1, "token", with_file(settings('admin_token_file = "/none/token"'))),
    "an open control port without a token": (1, "token", with_file(settings('admin_listen = "0.0.0.0:0"'))),
    "no gateway to ask": (1, "is the gateway running?", lambda _: ["ctl", "-a", FREE, "status"]),
    "no gateway at a socket": (1, "none.sock", lambda folder: ["ctl", "-a", f"unix:{folder}/none.sock", "status"]),
    "a missing token file to ask with": (1, "token", lambda _: ["ctl", "--token-file", "/none/token", "status"]),
    "a bad control address": (1, "nonsense", lambda _: ["ctl", "-a", "nonsense", "status"]),
    "a missing event log": (1, "cannot replay", lambda folder: ["replay", str(folder / "none.jsonl")]),
    "no event log": (1, "cannot replay", lambda folder: ["replay", with_file("hello\n")(folder)[-1]]),
    "a fault found by check": (1, "strategi", lambda folder: ["check", WRONG(folder)[-1]]),
    "an unknown command": (2, "No such command 'rnu'", lambda _: ["rnu"]),
    "an unknown option": (2, "--quiet", lambda _: ["run", "--quiet"]),
    "a missing option": (2, "--config", lambda _: ["run"]),
}  # fmt: skip


def test_every_mistake_ends_with_its_status_and_one_clear_line(tmp_path: Path) -> None:
    """Nobody should need a traceback to learn what they mistyped. All at once, since each is a start of its own."""
    children = {}
    for number, (mistake, (_, _, arguments)) in enumerate(MISTAKES.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        children[mistake] = subprocess.Popen(
            [*SNIFFGATE, *arguments(folder)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
        )
    told = {mistake: child.communicate(timeout=2 * LIMIT) for mistake, child in children.items()}

    assert {mistake: status for mistake, (status, _, _) in MISTAKES.items()} == {
        mistake: child.returncode for mistake, child in children.items()
    }
    for mistake, (_, words, _) in MISTAKES.items():
        stdout, stderr = told[mistake]
        lines = errors(stderr) or (stderr + stdout).splitlines()  # what `check` finds is its result, not its error
        assert [True] == [words in line for line in lines], (mistake, lines)


def test_a_listener_on_a_port_of_another_program_is_not_tried_for_ever(tmp_path: Path, b: NodeProcess) -> None:
    """A start that waits for a port looks like a start that worked."""
    with socket.socket(type=socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        path = tmp_path / "gateway.toml"
        path.write_text(OFF + LISTENER.replace("tcp", "udp").replace("127.0.0.1:0", address) + node_table(b))

        told = sniffgate("run", "-c", path, limit=10.0)

    assert (3, True) == (told.returncode, address in told.stderr)
