"""The flow log tells of each finished flow that is worth it, once, and never grows with trouble."""

import attrs
import pytest

from sniffgate.address import Address
from sniffgate.config.schema import FlowLogMode, Transport
from sniffgate.net.relay import EndReason
from sniffgate.tasks.flow_log import FlowLog, FlowRecord, format_flow, log_flow

COMPLETE = FlowRecord(
    listener="web",
    protocol=Transport.TCP,
    client=Address("10.0.0.9", 51234),
    node="node-a",
    up=512,
    down=10240,
    duration=0.0153,
    reason=EndReason.COMPLETE,
    at=1.0,
)
NO_NODE = attrs.evolve(COMPLETE, node=None, up=0, down=0, reason=EndReason.NO_NODE)


def test_a_line_says_who_where_how_much_how_long_and_why() -> None:
    """One line must do to answer "what became of my connection"."""
    assert (
        "listener=web protocol=tcp client=10.0.0.9:51234 node=node-a up=512 down=10240 ms=15.3 reason=complete"
    ) == format_flow(COMPLETE)


@pytest.mark.parametrize(
    ("node", "shown"),
    [(None, "-"), ("-", '"-"'), ("", '""'), ("two words", '"two words"'), ('a"b=c\\', '"a\\"b=c\\\\"'), ("ü", "ü")],
)
def test_odd_names_stay_one_value(node: str | None, shown: str) -> None:
    """Old files may hold any printable name; a line must still parse."""
    assert f" node={shown} up=" in format_flow(attrs.evolve(COMPLETE, node=node))


def test_a_line_break_in_a_name_forges_no_line() -> None:
    """Names of embedders are not checked by the loader."""
    assert 'listener="a\\nb" ' in format_flow(attrs.evolve(COMPLETE, listener="a\nb"))


NORMAL = {
    Transport.TCP: {EndReason.COMPLETE, EndReason.CLIENT_RESET, EndReason.MOVED},
    Transport.UDP: {EndReason.COMPLETE, EndReason.CLIENT_RESET, EndReason.MOVED, EndReason.IDLE},
}


@pytest.mark.parametrize("reason", EndReason)
@pytest.mark.parametrize("protocol", Transport)
def test_each_mode_tells_of_its_flows(protocol: Transport, reason: EndReason) -> None:
    """The list of endings is closed, and each is either normal or a failure."""
    record = attrs.evolve(COMPLETE, protocol=protocol, reason=reason)
    told: dict[FlowLogMode, list[str]] = {mode: [] for mode in FlowLogMode}
    for mode, lines in told.items():
        FlowLog(mode, lines.append).write(record)

    failed = [] if reason in NORMAL[protocol] else [format_flow(record)]
    assert {FlowLogMode.OFF: [], FlowLogMode.FAILED: failed, FlowLogMode.ALL: [format_flow(record)]} == told


def test_repeats_beyond_twenty_a_second_become_one_line() -> None:
    """A dead backend must not fill the disk."""
    lines: list[str] = []
    flow_log = FlowLog(FlowLogMode.FAILED, lines.append)
    for number in range(332):
        flow_log.write(attrs.evolve(NO_NODE, at=5.0 + number / 332))
    flow_log.write(attrs.evolve(COMPLETE, at=6.0))

    assert [format_flow(NO_NODE)] * 20 == lines[:20]
    assert ["listener=web node=- reason=no_node more=312 within_ms=1000"] == lines[20:]


def test_each_kind_of_failure_has_a_rate_of_its_own() -> None:
    """A storm on one node must not hide the first failure of another."""
    lines: list[str] = []
    flow_log = FlowLog(FlowLogMode.FAILED, lines.append)
    for _ in range(100):
        flow_log.write(NO_NODE)
    other = attrs.evolve(COMPLETE, reason=EndReason.NODE_RESET)
    flow_log.write(other)

    assert format_flow(other) == lines[-1]
    assert 21 == len(lines)


def test_a_new_second_has_a_new_allowance() -> None:
    """Trouble that goes on stays visible."""
    lines: list[str] = []
    flow_log = FlowLog(FlowLogMode.FAILED, lines.append)
    for at in (1.0, 2.0):
        for _ in range(21):
            flow_log.write(attrs.evolve(NO_NODE, at=at))
    flow_log.flush()

    assert [20, 1, 20, 1] == [
        len([line for line in part if line]) for part in (lines[:20], lines[20:21], lines[21:41], lines[41:])
    ]
    assert ["more=1", "more=1"] == [line.split()[3] for line in (lines[20], lines[41])]


def test_normal_flows_are_never_summarised() -> None:
    """`flow_log = "all"` means all."""
    lines: list[str] = []
    flow_log = FlowLog(FlowLogMode.ALL, lines.append)
    for _ in range(100):
        flow_log.write(COMPLETE)

    assert 100 == len(lines)


def test_a_storm_of_different_failures_keeps_a_bounded_memory() -> None:
    """Beyond a thousand kinds of failure in a second nothing more is remembered."""
    flow_log = FlowLog(FlowLogMode.FAILED, lambda _: None)
    for number in range(5000):
        flow_log.write(attrs.evolve(NO_NODE, node=f"node-{number}"))

    assert 1024 == len(flow_log._repeats._seen)


def test_the_usual_sink_is_a_logger(caplog: pytest.LogCaptureFixture) -> None:
    """A percent sign in a name is no format."""
    with caplog.at_level("INFO", "sniffgate.flow"):
        log_flow("listener=100%s")

    assert ["listener=100%s"] == caplog.messages
