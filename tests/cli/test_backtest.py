"""`sniffgate replay --config` shows two columns, what they rest on, and what the log cannot say."""

import json
from pathlib import Path

import attrs
import pytest
from click.testing import CliRunner, Result

from sniffgate.cli.replay import replay
from sniffgate.config.load import load_text
from sniffgate.config.schema import Config, Transport
from sniffgate.state.events import Event, OperatorSwitched, ProbeFailed, ProbeSucceeded
from sniffgate.state.log_lines import gap_to_json
from sniffgate.state.model import Endpoint
from sniffgate.state.reducer import initial_state, reduce
from sniffgate.state.serial import event_to_json
from tests.cli.test_flow_spans import FLOW
from tests.state.test_backtest import recording

OLD = """
[global]
drain_timeout_ms = 1000
success_threshold = 2
failure_threshold = 3
{settings}
[[listeners]]
name = "web"
protocol = "tcp"
listen = "127.0.0.1:8080"

[[nodes]]
name = "node-a"
priority = 2
tcp = "10.0.0.1:80"

[[nodes]]
name = "{second}"
priority = 1
tcp = "10.0.0.2:80"
"""
A = Endpoint("node-a", Transport.TCP)
OUTAGE: list[Event] = [
    *(ProbeSucceeded(at=at, endpoint=Endpoint("node-b", Transport.TCP), latency=0.001) for at in (0.5, 0.75)),
    *(ProbeFailed(at=at, endpoint=A, error="connection refused") for at in (1.0, 2.0, 3.0)),
    *(ProbeSucceeded(at=at, endpoint=A, latency=0.001) for at in (5.0, 6.0, 9.0)),
]


def text(settings: str = "", second: str = "node-b") -> str:
    return OLD.format(settings=settings, second=second)


def config(settings: str = "") -> Config:
    return load_text(text(settings), file="old.toml")


def tried(tmp_path: Path, lines: list[str], new: str, *options: str) -> Result:
    log, other = tmp_path / "events", tmp_path / "new.toml"
    log.write_text("".join(f"{line}\n" for line in lines))
    other.write_text(new)
    return CliRunner().invoke(replay, [str(log), "--config", str(other), *options])


def flow_log(tmp_path: Path) -> str:
    """Two flows since the epoch, at node-a until 2.5 s and 4 s: the gateway cut the second."""
    path = tmp_path / "gateway.log"
    cut = FLOW.replace("complete", "drained")
    lines = [
        f"1970-01-01T00:00:02.500Z info sniffgate.flow: {FLOW.replace('150.5', '2000.0')}",
        f"1970-01-01T00:00:04.000Z info sniffgate.flow: {cut.replace('150.5', '3500.0')}",
        f"1970-01-01T00:00:04.000Z info sniffgate.flow: {FLOW.replace('=tcp', '=udp')}",
    ]
    path.write_text("\n".join(lines))
    return str(path)


def test_the_page_shows_both_columns_and_what_the_log_cannot_say(tmp_path: Path) -> None:
    """This is what somebody reads before they change a threshold."""
    lines = recording(config('flow_log = "all"'), *OUTAGE)
    new = text('failure_threshold = 2\nfailback_delay_ms = 1500\nprobe_interval_ms = 500\nflow_log = "all"').replace(
        "failure_threshold = 3\n", ""
    )
    result = tried(tmp_path, lines, new, "--flows", flow_log(tmp_path))

    assert [
        "lines 1 to 9: 9.000 s of a run, 8 pieces of evidence",
        "NEW differs in:",
        "  [global] probe_interval_ms 1000 -> 500",
        "  [global] failure_threshold 3 -> 2",
        "  [global] failback_delay_ms 0 -> 1500",
        "switches:",
        "  0.000 s  line 1        default/tcp  nothing -> node-a  start     both",
        "  2.000 s  line 5        default/tcp  node-a -> node-b   failover  only with NEW",
        "  3.000 s  line 6        default/tcp  node-a -> node-b   failover  only recorded",
        "  6.000 s  line 8        default/tcp  node-b -> node-a   failback  only recorded",
        "  7.500 s  after line 8  default/tcp  node-b -> node-a   failback  only with NEW",
        "routes:",
        "                                          recorded  with NEW",
        "  default/tcp  switches                   3         3",
        "               nothing usable             0.000 s   0.000 s",
        "               only failing nodes in use  2.000 s   1.000 s",
        "flows: 2 over TCP, of which 1 were cut at a drain deadline; by the estimate:",
        "                              recorded  with NEW",
        "  cut                         1         1",
        "  at another node             0         0",
        "  without a node or listener  0         0",
        "what the log cannot say:",
        "  not judged: probe_interval_ms. The log holds what was seen with the recorded values; with others, other "
        "things would have been seen, sooner or later",
        "  live traffic was seen only at the nodes that were in use in the recording; of the others only probes tell",
        "  flows: 1 of UDP: sessions move, and are not counted here",
        "  flows: those still open when the log ended are not in it",
    ] == result.stdout.splitlines()
    assert 0 == result.exit_code


def test_the_same_as_one_json_object(tmp_path: Path) -> None:
    """For a script that tries many settings."""
    result = tried(tmp_path, recording(config(), *OUTAGE), text(), "--json", "--flows", flow_log(tmp_path))
    found = json.loads(result.stdout)
    (run,) = found["runs"]

    assert (True, True, []) == (found["ok"], found["proven"], found["notes"])
    assert [("both", 0.0), ("both", 3.0), ("both", 6.0)] == [(each["where"], each["at_s"]) for each in run["switches"]]
    assert {"switches": 3, "unusable_s": 0.0, "failing_s": 2.0} == run["routes"][0]["recorded"]
    assert run["routes"][0]["new"] == run["routes"][0]["recorded"]
    assert {"surely": 1, "at_most": 1, "moved": 0, "unknown": 0} == run["flows"]["new"] == run["flows"]["recorded"]
    assert [] == run["differs"]
    assert 0 == result.exit_code


def test_nodes_without_evidence_and_evidence_without_nodes_are_named(tmp_path: Path) -> None:
    """A node that nothing is known of never fails, which is no merit."""
    result = tried(tmp_path, recording(config(), *OUTAGE), text(second="node-c"))
    said = result.stdout.partition("what the log cannot say:\n")[2].splitlines()

    assert "  node-c/tcp is only in NEW: no evidence, so it counts as usable all along" in said
    assert "  node-b/tcp is not in NEW: 2 events left out" in said
    assert "  flows: the event log holds none; give the program's log with --flows" in said
    moved = tried(tmp_path, recording(config(), *OUTAGE[2:]), text().replace("10.0.0.1:80", "10.0.0.9:80")).stdout
    assert "  node-a/tcp has another address in NEW: the evidence is about the recorded one" in moved.splitlines()
    assert "  node-b/tcp was not looked at: no evidence, so it counts as usable all along" in moved.splitlines()


def test_what_is_left_out_is_named_by_its_line(tmp_path: Path) -> None:
    """Somebody asked for it, and NEW would not have done it."""
    lines = recording(config(), OperatorSwitched(at=0.25, node="node-b"), *OUTAGE)
    said = tried(tmp_path, lines, text(second="node-c")).stdout

    assert "  line 2: operator_switched at 0.250 s is left out: no node is named 'node-b'" in said


def test_an_endpoint_that_nothing_watched_and_a_middle_of_a_run_are_told(tmp_path: Path) -> None:
    """Both bound what may be concluded."""
    unprobed = text().replace('tcp = "10', 'probe = "none"\ntcp = "10')
    state = reduce(initial_state(load_text(unprobed, file="x")), attrs.evolve(OUTAGE[2], at=0.5))
    refused = '{"type":"forward_failed","seq":%d,"at":%d,"endpoint":"node-a/tcp","kind":"refused"}'
    lines = [*recording(load_text(unprobed, file="x"), state=attrs.evolve(state, now=0.25)), refused % (1, 1)]
    said = tried(tmp_path, lines, unprobed.replace("[global]", "[global]\npassive_eject_threshold = 1")).stdout

    assert "  the log begins in the middle of a run: NEW is taken to come as by a reload at its first line" in said
    assert (
        "  line 2: node-a/tcp is out with NEW from 1.000 s on and was not in the recording: nothing looked for its "
        "return, so it may have been back earlier than here"
    ) in said.splitlines()


def test_a_flow_log_that_holds_only_failures_gives_figures_that_are_too_low(tmp_path: Path) -> None:
    """The default keeps quiet about flows that ended well."""
    lines = recording(config(), *OUTAGE)
    said = tried(tmp_path, lines, text(), "--flows", flow_log(tmp_path)).stdout

    assert '  flows: flow_log was "failed", so not every flow is in the log, and the figures are too low' in said


def test_a_gap_is_said_and_ends_with_one(tmp_path: Path) -> None:
    """What was lost may have held anything, under any settings."""
    lines = recording(config(), *OUTAGE)
    result = tried(tmp_path, [*lines[:4], gap_to_json(2), *lines[6:]], text())

    assert "not provable past line 4 (2 lost after it)" == result.stdout.splitlines()[-1]
    assert 1 == result.exit_code
    taken = tried(tmp_path, [*lines[:4], *lines[5:]], text(), "--json")
    note = f"{tmp_path / 'events'}, line 5: 1 event is missing before it; not provable past line 4"
    assert ([note], False, 1) == (
        json.loads(taken.stdout)["notes"], json.loads(taken.stdout)["proven"], taken.exit_code
    )  # fmt: skip


def test_each_run_of_a_log_has_a_page_of_its_own(tmp_path: Path) -> None:
    """A restart forgets, so its switches are others."""
    lines = [*recording(config(), *OUTAGE), *recording(config(), *OUTAGE[:4])]
    said = tried(tmp_path, lines, text()).stdout.splitlines()

    assert [
        "lines 1 to 9: 9.000 s of a run, 8 pieces of evidence",
        "lines 10 to 14: 2.000 s of a run, 4 pieces of evidence",
    ] == [each for each in said if each.startswith("lines ")]


@pytest.mark.parametrize(
    ("new", "options", "complaint"),
    [
        ("[global]\nfailure_treshold = 2\n", (), "failure_treshold"),
        (text(), ("--flows", "/dev/null"), "cannot replay /dev/null: none of its 0 lines is one of the flow log"),
        (text(), ("--flows", "/nowhere"), "cannot replay /nowhere: No such file or directory"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(
    tmp_path: Path, new: str, options: tuple[str, ...], complaint: str
) -> None:
    """Three files may be wrong: the sentence names the one."""
    result = tried(tmp_path, recording(config(), *OUTAGE), new, *options)

    assert complaint in result.stderr
    assert "Traceback" not in result.stderr
    assert "" == result.stdout
    assert 1 == result.exit_code


def test_a_damaged_log_and_a_missing_file_of_settings_are_named(tmp_path: Path) -> None:
    """As without --config."""
    damaged = tried(tmp_path, [*recording(config(), *OUTAGE), '{"type":"dream"}'], text())
    missing = CliRunner().invoke(replay, [str(tmp_path / "events"), "--config", str(tmp_path / "nothing.toml")])

    assert f"Error: cannot replay {tmp_path / 'events'}: line 10: unknown type 'dream'\n" == damaged.stderr
    assert "nothing.toml" in missing.stderr
    assert 1 == damaged.exit_code == missing.exit_code


@pytest.mark.parametrize("option", [("--json",), ("--flows", "x")])
def test_options_of_a_backtest_want_the_settings(tmp_path: Path, option: tuple[str, ...]) -> None:
    """Alone they would be ignored, and somebody would wonder."""
    result = CliRunner().invoke(replay, [str(tmp_path), *option])

    assert "--flows and --json go with --config" in result.stderr
    assert 2 == result.exit_code


def test_a_wish_is_written_as_in_the_log() -> None:
    """The page names events by the words that stand in the file."""
    assert '"type":"operator_switched"' in event_to_json(OperatorSwitched(at=0.25, node="node-b"))
