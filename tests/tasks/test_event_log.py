"""The event log holds a header and every event, whatever the disk does, and never troubles the hub."""

import json
import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sniffgate.address import Address
from sniffgate.config.schema import Config, ListenerConfig, NodeConfig, Transport
from sniffgate.state.events import Event, ProbeFailed
from sniffgate.state.log_lines import Gap, Header, line_from_json
from sniffgate.state.model import Endpoint, State
from sniffgate.state.reducer import initial_state, reduce
from sniffgate.state.replay import PartBegan, PartEnded, replay_lines
from sniffgate.state.serial import event_from_json
from sniffgate.tasks.event_log import EventLog

SOON = 10.0  # seconds; waited for in full only when a test fails

CONFIG = Config(
    listeners=(ListenerConfig(name="web", protocol=Transport.TCP, listen=Address("127.0.0.1", 80)),),
    nodes=tuple(NodeConfig(name=name, tcp=Address("10.0.0.1", port)) for port, name in enumerate(("a", "b"), 1)),
)


def failures(count: int) -> list[Event]:
    return [ProbeFailed(at=1.0 + number, endpoint=Endpoint("a", Transport.TCP), error="x") for number in range(count)]


def recorded(event_log: EventLog, state: State, events: list[Event]) -> State:
    """Folds and records, as the hub does; returns the last state."""
    for event in events:
        state = reduce(state, event)
        event_log.record(event, state)
    return state


def a_log(path: Path | str, max_mb: float = 1, depth: int = 4096) -> EventLog:
    return EventLog(path, max_mb, initial_state(CONFIG), wall_ms=lambda: 77, depth=depth)


def held(until: Callable[[], bool]) -> None:
    """Spins until the writer's thread has come as far."""
    while not until():
        os.sched_yield()


def test_a_log_begins_with_the_whole_state_and_replays_to_the_last(tmp_path: Path) -> None:
    """This is what the log is for."""
    path = tmp_path / "events"
    event_log = a_log(path)
    last = recorded(event_log, initial_state(CONFIG), failures(5))

    assert event_log.close(SOON)
    lines = path.read_text().splitlines()
    assert Header(wall_ms=77, state=initial_state(CONFIG), seq=0) == line_from_json(lines[0]).said
    assert failures(5) == [event_from_json(line) for line in lines[1:]]
    *_, ended = replay_lines(lines)
    assert isinstance(ended, PartEnded)
    assert last == ended.state


def test_only_owner_and_group_may_read_it(tmp_path: Path) -> None:
    """Probe payloads may hold passwords."""
    assert a_log(tmp_path / "events").close(SOON)

    assert 0 == (tmp_path / "events").stat().st_mode & 0o007


def test_a_rotated_file_goes_on_with_a_fresh_header(tmp_path: Path) -> None:
    """Each file is provable for itself, and together they are the whole run."""
    path, rotated = tmp_path / "events", tmp_path / "events.1"
    event_log = a_log(path, max_mb=0.005)
    state = initial_state(CONFIG)
    events = failures(102)
    state = recorded(event_log, state, events[:100])
    held(lambda: event_log._writer.over_limit)
    state = recorded(event_log, state, events[100:101])
    held(rotated.exists)
    state = recorded(event_log, state, events[101:])

    assert event_log.close(SOON)
    assert 5000 <= rotated.stat().st_size
    findings = list(replay_lines(rotated.read_text().splitlines() + path.read_text().splitlines()))
    assert [False, True] == [finding.follows for finding in findings if isinstance(finding, PartBegan)][:2]
    assert isinstance(findings[-1], PartEnded)
    assert state == findings[-1].state
    assert 0 == event_log.lost


def test_reopening_after_logrotate_begins_a_new_file_with_a_header(tmp_path: Path) -> None:
    """The old file ends whole, the new one starts provable."""
    path, moved = tmp_path / "events", tmp_path / "events.old"
    event_log = a_log(path)
    state = recorded(event_log, initial_state(CONFIG), failures(2))
    held(lambda: path.exists() and 3 == path.read_text().count("\n"))
    path.rename(moved)
    event_log.reopen(state)
    last = recorded(event_log, state, failures(4)[2:])

    assert event_log.close(SOON)
    assert 3 == len(moved.read_text().splitlines())
    lines = path.read_text().splitlines()
    assert Header(wall_ms=77, state=state, seq=2) == line_from_json(lines[0]).said
    *_, ended = replay_lines(lines)
    assert isinstance(ended, PartEnded)
    assert last == ended.state


def test_a_full_queue_writes_a_gap_line_and_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A loss is visible in the file and in the log, and costs the hub nothing."""
    event_log = a_log(tmp_path / "events", depth=0)
    with caplog.at_level(logging.WARNING):
        recorded(event_log, initial_state(CONFIG), failures(3))

    assert event_log.close(SOON)
    assert 3 == event_log.lost
    header, gap = (tmp_path / "events").read_text().splitlines()
    assert "header" == json.loads(header)["type"]
    assert Gap(lost=3) == line_from_json(gap).said
    assert ["event log is too slow; lines are lost"] == caplog.messages


def test_a_full_disk_costs_lines_and_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    """Traffic does not depend on the disk."""
    with caplog.at_level(logging.WARNING):
        event_log = a_log("/dev/full")
        recorded(event_log, initial_state(CONFIG), failures(100))
        assert not event_log.close(SOON)

    assert 100 == event_log.lost
    assert ["event log cannot be written; lines are lost"] == caplog.messages
    assert "No space left" in str(caplog.records[0].__dict__["error"])


def test_a_restart_appends_a_part_of_its_own(tmp_path: Path) -> None:
    """Yesterday's crash, torn line and all, does not spoil today's log."""
    path = tmp_path / "events"
    first = a_log(path)
    recorded(first, initial_state(CONFIG), failures(1))
    assert first.close(SOON)
    path.write_text(path.read_text()[:-9])
    second = a_log(path)
    last = recorded(second, initial_state(CONFIG), failures(3))

    assert second.close(SOON)
    assert ["PartBegan", "TornLine", "PartEnded", "PartBegan"] == [
        type(finding).__name__ for finding in replay_lines(path.read_text().splitlines())
    ][:4]
    *_, ended = replay_lines(path.read_text().splitlines())
    assert isinstance(ended, PartEnded)
    assert last == ended.state
