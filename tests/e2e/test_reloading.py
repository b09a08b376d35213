"""However a file is changed, and however broken it is: traffic goes on, and the next good one takes effect."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.load import Load, echo, held
from tests.e2e.program import LIMIT, NodeProcess, Program, node_table, until

pytestmark = pytest.mark.e2e


@pytest.fixture
def nodes() -> Iterator[tuple[NodeProcess, NodeProcess]]:
    """Two backends."""
    with NodeProcess("node-a") as a, NodeProcess("node-b") as b:
        yield a, b


@pytest.fixture
def program(tmp_path: Path, nodes: tuple[NodeProcess, NodeProcess]) -> Iterator[Program]:
    """The program with node-a preferred, both found healthy."""
    a, b = nodes
    with Program(tmp_path / "gateway.toml", node_table(a, 10) + node_table(b, 5)) as program:
        program.wait_healthy("node-a", "node-b")
        yield program


def edit_with_sed(path: Path, text: str) -> None:
    """What `sed -i` does, with `sed -i`."""
    priority = text.partition("priority = ")[2].split()[0]
    subprocess.run(["sed", "-i", f"0,/priority = .*/s//priority = {priority}/", str(path)], check=True, timeout=LIMIT)


def replace(path: Path, text: str) -> None:
    """What most editors do."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.rename(path)


def remove_and_recreate(path: Path, text: str) -> None:
    """What careless scripts do; meanwhile there is no file."""
    path.unlink()
    time.sleep(0.5)
    path.write_text(text)


def overwrite(path: Path, text: str) -> None:
    """What `cat > file` does: the same file, emptied and filled, here in two halves."""
    with path.open("w") as file:
        file.write(text[: len(text) // 2])
        file.flush()
        time.sleep(0.02)
        file.write(text[len(text) // 2 :])


def turn_link(path: Path, text: str) -> None:
    """What configuration management and orchestrators do: another version, and a link that is turned to it."""
    version = path.with_name(f"version-{time.monotonic_ns()}")
    version.mkdir()
    (version / path.name).write_text(text)
    link = path.with_suffix(".link")
    link.symlink_to(version / path.name)
    link.rename(path)


def test_every_way_to_change_the_file_takes_effect_and_disturbs_no_client(
    program: Program, nodes: tuple[NodeProcess, NodeProcess]
) -> None:
    """A watch that is bound to the first file sees one change, or none."""
    a, b = nodes
    edits = [edit_with_sed, replace, replace, remove_and_recreate, edit_with_sed, overwrite, turn_link, turn_link]
    with Load(program, per_second=50, clients=2) as load:
        for number, edit in enumerate(edits):
            wanted, priority = ("node-b", 1) if number % 2 == 0 else ("node-a", 10)
            edit(program.path, program.content(node_table(a, priority) + node_table(b, 5)))
            until(lambda wanted=wanted: program.active() == wanted, f"{edit.__name__} (number {number})", 10.0)
        with program.path.open("a") as file, NodeProcess("node-c") as c:
            file.write(node_table(c, 20))
            file.flush()
            until(lambda: program.active() == "node-c", "a line more", 10.0)
            load.stop()

    assert [] == load.failures
    assert program.control("status")["reload"]["ok"]


def test_a_hangup_and_a_change_at_the_same_moment_end_in_the_last_content(
    program: Program, nodes: tuple[NodeProcess, NodeProcess]
) -> None:
    """Two reasons to reload are one reload or two, never a lock and never an old file."""
    a, b = nodes
    with held(program) as conn:
        for number in range(20):
            program.write(node_table(a, 10) + node_table(b, number % 9, f"weight = {number + 1}"))
            program.signal(signal.SIGHUP)
            if number % 3 == 0:
                program.signal(signal.SIGHUP)
        until(lambda: 20 == program.node("node-b")["weight"], "the last content")
        echo(conn)

    assert 0 == program.control("stats")["crashes"]
    assert program.control("reload")["ok"]


class Refusals:
    """What a program says of one bad file after another."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._last = ""

    def next(self, fault: str) -> str:
        """Waits until the file is refused for something new; the report."""

        def report() -> str:
            found = self._program.control("status")["reload"]
            return "" if found is None or found["ok"] or found["message"] == self._last else str(found["message"])

        self._last = until(report, f"the refusal of {fault}")
        return self._last


def test_no_broken_file_touches_traffic_and_each_is_named(
    program: Program, nodes: tuple[NodeProcess, NodeProcess]
) -> None:
    """A typo that is saved while clients are served costs none of them anything; the mended file is taken."""
    a, b = nodes
    good = program.content(node_table(a, 10) + node_table(b, 5))
    broken = {
        "an open string": (good.replace('name = "node-b"', 'name = "node-b'), "not valid TOML"),
        "a port that is none": (good.replace(f":{b.port}", ":99999"), "99999"),
        "a negative weight": (good + "weight = -1\n", "weight"),
        "a weight that is no number": (good + "weight = nan\n", "weight"),
        "an unknown strategy": (good.replace("[global]", '[global]\nstrategy = "fastest"'), "fastest"),
        "a key twice": (good.replace("[global]", "[global]\nfail_open = true\nfail_open = true"), "fail_open"),
        "a listener's name twice": (good.replace('name = "udp"', 'name = "tcp"'), "'tcp' is already taken"),
        "a port twice": (good.replace('protocol = "udp"', 'protocol = "tcp"'), str(program.port)),
        "no node": (program.content(""), "node"),
        "a misspelt key": (good.replace("priority", "priorty"), "priorty"),
        "a strange encoding": (good.encode("utf-16"), "UTF-16"),
        "a binary file": (bytes(range(256)) * 20, "binary"),
        "nothing": ("", "listener"),
    }
    refusals = Refusals(program)
    with Load(program) as load, held(program) as conn:
        for fault, (content, words) in broken.items():
            program.path.write_bytes(content.encode() if isinstance(content, str) else content)
            message = refusals.next(fault)
            assert words in message, (fault, message)
            assert str(program.path) in message, (fault, message)
        program.path.unlink()
        program.path.mkdir()
        assert "directory" in refusals.next("a directory")
        program.path.rmdir()
        if os.geteuid():  # root may read everything
            program.path.write_text(good)
            program.path.chmod(0)
            assert "Permission" in refusals.next("a file that may not be read")
            program.path.chmod(0o600)

        with NodeProcess("node-c") as c:
            program.path.write_text(good + node_table(c, 20))
            until(lambda: program.active() == "node-c", "the mended file")
            assert program.control("status")["reload"]["ok"]
            echo(conn)
            load.stop()

    assert [] == load.failures
    assert load.answered > 100
    assert 0 == program.control("stats")["crashes"]


def test_the_wish_of_an_operator_outlives_reloads_and_what_the_node_does(
    program: Program, nodes: tuple[NodeProcess, NodeProcess]
) -> None:
    """A node that is drained for maintenance must not be back after an unrelated edit, nor after its own restart."""
    a, b = nodes
    program.control("drain node-a 0")
    assert b"node-b:hi" == program.ask()
    total = program.node("node-a")["stats"]["tcp_conns_total"]

    program.write(node_table(a, 10) + node_table(b, 5, "weight = 7"))
    assert program.control("reload")["ok"]
    a.kill()
    until(lambda: program.node("node-a")["endpoints"]["tcp"]["own_verdict"] == "unhealthy")
    a.start()
    until(lambda: program.node("node-a")["endpoints"]["tcp"]["own_verdict"] == "healthy")

    assert [b"node-b:hi"] * 10 == [program.ask() for _ in range(10)]
    assert ("disabled", total) == (
        program.node("node-a")["state"],
        program.node("node-a")["stats"]["tcp_conns_total"],
    )

    program.write(node_table(b, 5))
    assert program.control("reload")["ok"]
    program.write(node_table(a, 10) + node_table(b, 5))
    until(lambda: program.active() == "node-a", "the node that was removed and put back")


def test_a_listener_put_back_after_its_removal_forwards(
    program: Program, nodes: tuple[NodeProcess, NodeProcess]
) -> None:
    """Ports opened and closed by reloads are those of the file, each time."""
    a, _ = nodes
    both, nodes_text = program.listeners, node_table(a, 10)
    tcp, udp = both.partition("[[listeners]]\nname = \"udp\"")[0], "[[listeners]]" + both.rpartition("[[listeners]]")[2]
    for number in range(8):
        program.listeners = (both, tcp, udp)[number % 3]
        program.write(nodes_text)
        assert program.control("reload")["ok"]
        expected = {"tcp": number % 3 != 2, "udp": number % 3 != 1}
        until(lambda expected=expected: expected == open_ports(program), f"the ports of round {number}")
    program.listeners = both
    program.write(nodes_text)
    assert program.control("reload")["ok"]

    assert b"node-a:hi" == program.ask()
    with program.udp() as port:
        port.send(b"x")
        assert b"node-a:x" == port.recv(100)


def open_ports(program: Program) -> dict[str, bool]:
    """By transport, whether the program's public port is open."""
    return {each: is_open(program.child.pid, each, program.port) for each in ("tcp", "udp")}


def is_open(pid: int, transport: str, port: int) -> bool:
    """Whether the kernel has a socket bound there that takes clients."""
    state = {"tcp": "0A", "udp": "07"}[transport]
    lines = Path(f"/proc/{pid}/net/{transport}").read_text().splitlines()[1:]
    return any(line.split()[1] == f"0100007F:{port:04X}" and line.split()[3] == state for line in lines)


