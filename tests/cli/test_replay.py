"""`sniffgate replay` prints what a log proves, says where it proves nothing, and never shows a traceback."""

import os
import subprocess
from pathlib import Path

import attrs
import pytest
from click.testing import CliRunner, Result

from sniffgate.cli.replay import replay
from sniffgate.config.schema import NodeConfig
from sniffgate.state.events import ConfigApplied, OperatorSwitched, ProbeFailed
from sniffgate.state.log_lines import gap_to_json
from sniffgate.state.serial import event_to_json
from tests.cli.process import COMMAND, SOON
from tests.state.test_replay import FAILURES, START, A, a_part, numbered

TRIED = NodeConfig(name="c", enabled=False)


def replayed(path: Path, lines: list[str]) -> Result:
    path.write_text("".join(f"{line}\n" for line in lines))
    return CliRunner().invoke(replay, [str(path)])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events"


def test_a_whole_log_ends_with_zero_and_tells_the_story(path: Path) -> None:
    """This is the page an operator reads the morning after."""
    result = replayed(path, a_part(START, FAILURES))

    assert [
        "line 1: a run begins, 1970-01-01T00:00:00.005Z, 0.000 s epoch 1 revision 1",
        "line 4: 3.000 s epoch 2 default/tcp: a -> b (failover: a/tcp unhealthy by probes (connection refused))",
        '    line 2: 1.000 s probe_failed endpoint=a/tcp error="connection refused"',
        '    line 3: 2.000 s probe_failed endpoint=a/tcp error="connection refused"',
        '    line 4: 3.000 s probe_failed endpoint=a/tcp error="connection refused"',
        "line 4: end, 1970-01-01T00:00:00.000Z, 3.000 s epoch 2 revision 4, 3 events, 1 switches",
        "    default/tcp: b [normal]",
    ] == result.stdout.splitlines()
    assert 0 == result.exit_code


def test_a_gap_is_said_and_ends_with_one(path: Path) -> None:
    """A script that asks for a proof must not take half of one."""
    result = replayed(path, [*a_part(START, FAILURES[:1]), gap_to_json(3), event_to_json(FAILURES[1])])

    assert "not provable past line 2 (3 lost after it)" in result.stdout.splitlines()
    assert 1 == result.exit_code


def test_a_line_that_was_taken_out_is_named_by_file_and_line(path: Path) -> None:
    """Whoever shortens a log does not leave a proof behind."""
    lines = numbered(START, FAILURES)
    result = replayed(path, [*lines[:2], *lines[3:]])

    assert f"{path}, line 3: 1 event is missing before it; not provable past line 2" in result.stdout.splitlines()
    assert "->" not in result.stdout
    assert 1 == result.exit_code
    assert (
        f"{path}, line 2: 3 events are missing before it; not provable past line 1"
        in replayed(path, [lines[0], *numbered(START, [], after=3)]).stdout.splitlines()
    )


def test_lines_that_were_moved_are_damage(path: Path) -> None:
    """An order that somebody made proves nothing either."""
    lines = numbered(START, FAILURES)
    result = replayed(path, [lines[0], lines[2], lines[1]])

    assert f"{path}, line 2: 1 event is missing before it; not provable past line 1" in result.stdout.splitlines()
    result = replayed(path, [*lines[:3], lines[2]])
    assert (
        f"Error: cannot replay {path}: line 4: event 2 comes after event 2: lines were repeated or moved\n"
        == result.stderr
    )
    assert 1 == result.exit_code


def test_a_torn_last_line_is_said_and_ends_with_zero(path: Path) -> None:
    """A crash is no damage."""
    result = replayed(path, [*a_part(START, []), '{"type":"tim'])

    assert "line 2: torn, as by a crash; not counted" in result.stdout.splitlines()
    assert 0 == result.exit_code


def test_damage_is_one_sentence_on_stderr_and_ends_with_one(path: Path) -> None:
    """What was proven up to there is still shown."""
    result = replayed(path, [*a_part(START, FAILURES), '{"type":"dream"}'])

    assert f"Error: cannot replay {path}: line 5: unknown type 'dream'\n" == result.stderr
    assert "a -> b" in result.stdout
    assert 1 == result.exit_code


@pytest.mark.parametrize("name", ["nothing-there", "."])
def test_an_unreadable_file_is_one_sentence_and_ends_with_one(tmp_path: Path, name: str) -> None:
    """A wrong path is a failed command, not a crash."""
    result = CliRunner().invoke(replay, [str(tmp_path / name)])

    assert result.stderr.startswith("Error: cannot replay ")
    assert 1 == len(result.stderr.splitlines())
    assert 1 == result.exit_code


def test_a_binary_file_is_one_sentence(path: Path) -> None:
    """Whatever was given by mistake."""
    path.write_bytes(bytes(range(256)) * 10)
    result = CliRunner().invoke(replay, [str(path)])

    assert 1 == len(result.stderr.splitlines())
    assert 1 == result.exit_code


def test_standard_input_is_a_dash() -> None:
    """For logs that are compressed, or filtered."""
    result = CliRunner().invoke(replay, ["-"], input="\n".join(a_part(START, [])))

    assert result.stdout.startswith("line 1: a run begins")
    assert 0 == result.exit_code


def test_what_peers_said_cannot_steer_the_terminal(path: Path) -> None:
    """An error text comes from the network."""
    evil = ProbeFailed(at=0.5, endpoint=A, error="\x1b[2J\nline 9: forged")
    result = replayed(path, a_part(START, [evil, OperatorSwitched(at=1.0, node="b")]))

    assert '    line 2: 0.500 s probe_failed endpoint=a/tcp error="\\x1b[2J\\nline 9: forged"' in result.stdout
    assert "\x1b" not in result.stdout


def test_the_end_tells_each_route_whole(path: Path) -> None:
    """Standbys, a pin, and an odd clock: all that decides where traffic goes now."""
    pinned = OperatorSwitched(at=1.0, wall_ms=10**18, node="b")
    applied = ConfigApplied(at=0.5, config=attrs.evolve(START.config, nodes=(*START.config.nodes, TRIED)))
    result = replayed(path, a_part(START, [applied, pinned]))

    assert "    line 3: 1.000 s operator_switched node=b" in result.stdout.splitlines()
    assert [
        "line 3: end, wall time 1000000000000000000 ms, 1.000 s epoch 2 revision 3, 2 events, 1 switches",
        "    default/tcp: b, then a, pinned to b [normal]",
    ] == result.stdout.splitlines()[-2:]


@pytest.mark.e2e
@pytest.mark.parametrize("target", ["closed pipe", "/dev/full"])
def test_what_cannot_be_printed_is_not_the_logs_fault(path: Path, target: str) -> None:
    """`replay FILE | head` is no damage of FILE."""
    path.write_text("".join(f"{line}\n" for line in a_part(START, FAILURES)))
    if target == "closed pipe":
        reading, writing = os.pipe()
        os.close(reading)
    else:
        writing = os.open(target, os.O_WRONLY)
    told = subprocess.run(
        [*COMMAND, "replay", str(path)], stdout=writing, stderr=subprocess.PIPE, text=True, timeout=SOON, check=False
    )
    os.close(writing)

    assert 1 == told.returncode
    assert "cannot replay" not in told.stderr
