"""Measuring for real, with tiny numbers: real processes, real sockets."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import attrs
import pytest

from sniffgate.measure.overhead import Outcome, measure_overhead
from sniffgate.measure.processes import RoundFailed, environment
from sniffgate.measure.targets import Kind, Ports, Sniffgate
from sniffgate.measure.trials import GROUPS, Settings
from tests.e2e.program import until

pytestmark = [
    pytest.mark.realnet,
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="measuring reads /proc"),
]

TINY = Settings(rounds=1, seconds=0.02, idle=20)
ANSWERS_ONCE = """
import socket, sys
door = socket.create_server(("127.0.0.1", int(sys.argv[1])))
conn = door.accept()[0]
conn.sendall(conn.recv(1))
while True:
    door.accept()[0].close()
"""
FIGURES_OF = {
    "rtt": {"rtt_us", "p99_us"},
    "bulk": {"bulk_mb_s", "cpu_s_per_gb", "load_s_per_gb"},
    "conn": {"conn_s", "conn4_s"},
    "udp": {"udp_rtt_us", "udp_s"},
    "fairness": {"p99_bulk_us", "p99_storm_us", "p99_reload_us"},
    "start": {"start_ms", "start_mb"},
    "memory": {"idle_kib"},
}


@attrs.define
class Scripted:
    """A peer that is some command."""

    words: list[str]
    absent: str | None = None
    name: str = "peer"
    version: str | None = "1"
    forwards_udp: bool = False

    def command(self, folder: Path, ports: Ports, nodes: Ports, control: int) -> list[str]:
        """See `Kind`."""
        return [*self.words, str(ports.echo)]


def measured(*peers: Kind, groups: tuple[str, ...]) -> Outcome:
    """A tiny run."""
    return measure_overhead([Sniffgate(), *peers], TINY, groups)


def test_every_group_gives_its_figures() -> None:
    """Each measurement works on this machine, directly and through the gateway."""
    outcome = measured(groups=GROUPS)
    only_of_gateways = FIGURES_OF["start"] | FIGURES_OF["memory"] | {"cpu_s_per_gb", "p99_reload_us"}

    assert outcome.troubles == []
    assert outcome.targets == ["direct", "sniffgate"]
    assert set(outcome.raw) == set.union(*FIGURES_OF.values())
    assert {key for key, values in outcome.raw.items() if "direct" not in values} == only_of_gateways
    assert all(len(row) == 1 and row[0] is not None for values in outcome.raw.values() for row in values.values())


def test_a_peer_that_is_not_installed_is_absent() -> None:
    """Its column is not there, and the reason is."""
    outcome = measured(Scripted(["false"], absent="peer is not installed"), groups=("rtt",))

    assert outcome.absent == {"peer": "peer is not installed"}
    assert outcome.targets == ["direct", "sniffgate"]


def test_a_peer_that_does_not_start_is_absent() -> None:
    """A peer's trouble with this machine does not end the measurement of the others."""
    outcome = measured(Scripted(["sh", "-c", "echo no room >&2; exit 1"]), groups=("rtt",))

    assert outcome.absent == {"peer": "peer does not serve: no room"}
    assert outcome.targets == ["direct", "sniffgate"]


def test_a_failed_round_gives_no_figure() -> None:
    """A connection that breaks off is no short round trip."""
    outcome = measured(Scripted([sys.executable, "-c", ANSWERS_ONCE]), groups=("rtt", "conn"))

    assert {(each.target, each.measurement) for each in outcome.troubles} == {
        ("peer", "tcp round trip"),
        ("peer", "connections"),
        ("peer", "connections of four"),
    }
    assert all("peer" not in values for values in outcome.raw.values())
    assert all("sniffgate" in values for values in outcome.raw.values())


class Broken(Sniffgate):
    """This gateway, if it did not start."""

    def command(self, folder: Path, ports: Ports, nodes: Ports, control: int) -> list[str]:
        """See `Kind`."""
        return ["/nowhere/python"]


def test_without_the_gateway_itself_there_is_nothing_to_measure() -> None:
    """A table of peers only would look like a result."""
    with pytest.raises(RoundFailed, match="/nowhere/python cannot be started: No such file"):
        measure_overhead([Broken()], TINY, ("rtt",))


def command(*words: str | Path) -> list[str]:
    """`sniffgate measure overhead` with these words."""
    return [sys.executable, "-m", "sniffgate", "measure", "overhead", *map(str, words)]


def test_the_command_prints_a_table_and_writes_json(tmp_path: Path) -> None:
    """One run gives both: what people read and what later runs are compared with."""
    path = tmp_path / "overhead.json"
    done = subprocess.run(
        command("--quick", "--rounds", "1", "--only", "rtt,start", "--json", path),
        capture_output=True, text=True, timeout=60, env=environment(),
    )  # fmt: skip
    written = json.loads(path.read_text())

    assert (done.returncode, done.stderr) == (0, "")
    assert [line.partition("  ")[0] for line in done.stdout.splitlines()[1:5]] == [
        "TCP round trip, 64 B", "TCP round trip p99, alone", "exec to first answer", "resident at start",
    ]  # fmt: skip
    assert {"rtt_us", "p99_us", "start_ms", "start_mb"} == set(written["figures"])
    assert {"kernel", "python", "commit", "processors"} <= set(written["host"])
    assert written["settings"]["rounds"] == 1


def test_the_command_knows_what_it_can_measure() -> None:
    """A misspelt word must not measure nothing for two minutes."""
    done = subprocess.run(command("--only", "rtt,bulck"), capture_output=True, text=True, timeout=60, env=environment())

    assert done.returncode == 2
    assert "'bulck' is none of rtt, bulk, conn, udp, fairness, start, memory." in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_whatever_ends_the_command_ends_its_children(number: signal.Signals, tmp_path: Path) -> None:
    """Ctrl-C tidies up; even kill -9 leaves no gateway or client behind."""
    process = subprocess.Popen(
        command("--only", "rtt", "--rounds", "50"),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**environment(), "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    try:
        children = until(lambda: found if len(found := children_of(process.pid)) >= 4 else None, "nodes and gateway")
        process.send_signal(number)
        status = process.wait(20)
    finally:
        process.kill()
        process.wait(20)

    assert status == (-number if number is signal.SIGKILL else 130)
    assert number is signal.SIGKILL or [] == [*tmp_path.iterdir()]
    until(lambda: not any(is_running(pid) for pid in children), "the end of all children")


def children_of(pid: int) -> list[int]:
    """Of a process."""
    return [*map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]


def is_running(pid: int) -> bool:
    """Whether it is there and not just waiting to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
