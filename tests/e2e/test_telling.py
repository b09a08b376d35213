"""What the process tells of itself: why, events, stats, and an event log that proves what happened."""

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.load import echo, held
from tests.e2e.program import NodeProcess, Program, node_table, sniffgate, until

pytestmark = pytest.mark.e2e


@pytest.fixture
def nodes() -> Iterator[tuple[NodeProcess, NodeProcess]]:
    """Two backends."""
    with NodeProcess("node-a") as a, NodeProcess("node-b") as b:
        yield a, b


def test_a_failover_can_be_explained_afterwards(tmp_path: Path, nodes: tuple[NodeProcess, NodeProcess]) -> None:
    """Somebody will ask why traffic moved, what would bring it back, and how much it cost."""
    a, b = nodes
    with Program(tmp_path / "gateway.toml", node_table(a, 10) + node_table(b, 5)) as program:
        program.wait_healthy("node-a", "node-b")
        assert program.control("why node-a")["endpoints"]["node-a/tcp"]["active"]
        with held(program):
            a.kill()
            until(lambda: program.active("tcp") == program.active("udp") == "node-b", "the switch")
            assert b"node-b:hi" == program.ask()

            why = program.control("why node-a")["endpoints"]["node-a/tcp"]
            assert not why["active"]
            assert any("unhealthy" in reason for reason in why["reasons"])
            assert why["changes"]
            events = program.control("events 100")["events"]
            verdict = next(each for each in events if each["type"] == "verdict" and each["to"] == "unhealthy")
            switch = next(each for each in events if each["type"] == "switch" and each["to"] == "node-b")
            assert ("node-a", "failover") == (verdict["node"], switch["reason"])
            assert "refused" in verdict["detail"]
            assert [each["ts_ms"] for each in events] == sorted(each["ts_ms"] for each in events)
        stats = program.control("stats")
        assert stats["endings"]["complete"] >= 1
        assert (0, 0) == (stats["crashes"], stats["events_overflowed"])
        assert {"ok", "flows", "sessions", "endings", "dropped_datagrams", "shortages"} <= stats.keys()

        address = f"127.0.0.1:{program.admin}"
        told = sniffgate("ctl", "-a", address, "why", "node-a")
        assert (0, False) == (told.returncode, json.loads(told.stdout)["endpoints"]["node-a/tcp"]["active"])
        refused = sniffgate("ctl", "-a", address, "switch", "node-x")
        assert (1, False) == (refused.returncode, json.loads(refused.stdout)["ok"])


def test_a_replayed_event_log_ends_where_the_gateway_did(
    tmp_path: Path, nodes: tuple[NodeProcess, NodeProcess]
) -> None:
    """The history is proven, not told: the same events give the same epoch and the same routes."""
    a, b = nodes
    events = tmp_path / "events.jsonl"
    settings = f'event_log = "{events}"\n'
    with Program(tmp_path / "gateway.toml", node_table(a, 10) + node_table(b, 5), settings=settings) as program:
        program.wait_healthy("node-a", "node-b")
        a.kill()
        until(lambda: program.ask() == b"node-b:hi")
        until(lambda: program.active("tcp") == program.active("udp") == "node-b", "the failover")
        a.start()
        until(lambda: program.active("tcp") == program.active("udp") == "node-a", "the failback")
        program.write(node_table(a, 10) + node_table(b, 5, "weight = 3"))
        assert program.control("reload")["ok"]
        assert program.control("switch node-b udp")["ok"]
        program.wait_healthy("node-a", "node-b")
        status = program.control("status")
        assert 0 == program.control("stats")["event_log_lines_lost"]
        program.signal(signal.SIGTERM)
        assert 0 == program.wait()

    told = sniffgate("replay", events)
    assert (0, "") == (told.returncode, told.stderr)
    lines = told.stdout.splitlines()
    end = next(number for number, line in enumerate(lines) if ": end, " in line)
    found = re.search(r"epoch (\d+)", lines[end])
    assert found is not None
    assert status["epoch"] == int(found[1])
    for transport in ("tcp", "udp"):
        [active] = status["pools"]["default"][transport]["active"]
        assert any(line.startswith(f"    default/{transport}: {active},") for line in lines[end:])
    switches = sum(1 for line in lines if re.match(r"line \d+: [\d.]+ s epoch \d+ default/", line))
    made = [switch for switch in status["recent_switches"] if switch["reason"] != "start"]  # those stand in the header
    assert len(made) == switches


def test_a_mark_stands_above_probes_and_its_clients_are_spared(
    tmp_path: Path, nodes: tuple[NodeProcess, NodeProcess]
) -> None:
    """A dead node that an operator declares up is tried first, as ordered; a refused client still gets the next one."""
    a, b = nodes
    with Program(tmp_path / "gateway.toml", node_table(a, 10) + node_table(b, 5)) as program:
        program.wait_healthy("node-a", "node-b")
        a.kill()
        until(lambda: program.active() == "node-b", "the switch")
        assert program.control("health node-a up")["ok"]

        endpoint = program.node("node-a")["endpoints"]["tcp"]
        assert (True, "unhealthy") == (endpoint["usable"], endpoint["own_verdict"])  # both are told, apart
        assert "node-a" == program.active()
        failed = program.node("node-a")["stats"]["tcp_conns_failed"]
        assert [b"node-b:hi"] * 10 == [program.ask() for _ in range(10)]
        assert failed + 10 == program.node("node-a")["stats"]["tcp_conns_failed"]
        assert "node-a" == program.active()
        assert program.control("health node-a auto")["ok"]
        assert "node-b" == program.active()


def test_no_success_of_traffic_lifts_a_failing_probe(tmp_path: Path, nodes: tuple[NodeProcess, NodeProcess]) -> None:
    """A node with the wrong answer serves while nothing better is there, and that makes it none the healthier."""
    a, b = nodes
    wrong = 'probe_payload = "ping"\nprobe_expect = "something else"'
    b.kill()
    with Program(tmp_path / "gateway.toml", node_table(a, 10, wrong) + node_table(b, 5)) as program:
        until(lambda: program.control("status")["pools"]["default"]["tcp"]["mode"] == "fail_open", "nothing usable")
        with held(program) as conn:
            assert [b"node-a:hi"] * 20 == [program.ask() for _ in range(20)]
            assert "unhealthy" == program.node("node-a")["endpoints"]["tcp"]["verdict"]
            b.start()
            until(lambda: program.active() == "node-b", "the node that passes its probe")
            assert [b"node-b:hi"] * 5 == [program.ask() for _ in range(5)]
            echo(conn)  # opened under fail-open: no switch was about it


def test_the_printed_example_is_what_check_accepts(tmp_path: Path) -> None:
    """It is where everybody begins."""
    example = sniffgate("init").stdout
    path = tmp_path / "gateway.toml"
    path.write_text(example)

    told = sniffgate("check", path)
    assert 0 == told.returncode
    assert str(path) in told.stdout
