"""A replay ends in the very state that the gateway was in, shows why each switch happened, and claims no more."""

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sniffgate.address import Address
from sniffgate.config.schema import Config, ListenerConfig, NodeConfig, Transport
from sniffgate.state.events import (
    ConfigApplied,
    Event,
    FailureKind,
    ForwardFailed,
    OperatorDisabled,
    OperatorDrained,
    OperatorEnabled,
    OperatorMarked,
    OperatorReleased,
    OperatorSwitched,
    ProbeFailed,
    ProbeSucceeded,
    TimePassed,
)
from sniffgate.state.log_lines import gap_to_json, header_to_json
from sniffgate.state.model import Endpoint, Mark, State, SwitchReason
from sniffgate.state.reducer import initial_state, reduce
from sniffgate.state.replay import (
    GapFound,
    LinesMissing,
    LogDamaged,
    PartBegan,
    PartEnded,
    Switched,
    TornLine,
    Witness,
    replay_lines,
)
from sniffgate.state.serial import event_to_json

TCP = Transport.TCP
A, B = Endpoint("a", TCP), Endpoint("b", TCP)
CONFIG = Config(
    listeners=(ListenerConfig(name="web", protocol=TCP, listen=Address("127.0.0.1", 80)),),
    nodes=(
        NodeConfig(name="a", tcp=Address("10.0.0.1", 80), priority=2),
        NodeConfig(name="b", tcp=Address("10.0.0.2", 80), priority=1),
    ),
)
START = initial_state(CONFIG)
FAILURES: list[Event] = [ProbeFailed(at=float(at), endpoint=A, error="connection refused") for at in (1, 2, 3)]


CONTRADICTION = (  # an ejected endpoint of a node that does not exist
    header_to_json(START, 0).replace('"name":"a"', '"name":"z"').replace('"ejected_until":null', '"ejected_until":0.0')
)

NUMBERED = [header_to_json(START, 0, 0), event_to_json(FAILURES[0], 1)]


def folded(state: State, events: list[Event]) -> State:
    for event in events:
        state = reduce(state, event)
    return state


def a_part(state: State, events: list[Event]) -> list[str]:
    return [header_to_json(state, wall_ms=5), *map(event_to_json, events)]


def test_a_switch_is_shown_with_the_evidence_behind_it() -> None:
    """The operator's question after a bad night is "why did it move"."""
    noise = ProbeSucceeded(at=0.5, endpoint=B, latency=0.001)
    findings = list(replay_lines(a_part(START, [noise, *FAILURES])))

    began, switched, ended = findings
    assert isinstance(began, PartBegan)
    assert isinstance(switched, Switched)
    assert (5, START, False) == (began.header.wall_ms, began.header.state, began.follows)
    assert (("a",), ("b",), SwitchReason.FAILOVER) == (
        switched.switch.before,
        switched.switch.after,
        switched.switch.reason,
    )
    assert [Witness(line, event) for line, event in enumerate([noise, *FAILURES], 2)] == list(switched.evidence)
    assert 5 == switched.line
    assert PartEnded(5, folded(START, [noise, *FAILURES]), events=4, switches=1, is_proven=True) == ended


def test_evidence_is_about_the_nodes_that_left_or_joined() -> None:
    """The others' health would only be in the way."""
    config = Config(
        listeners=CONFIG.listeners, nodes=(*CONFIG.nodes, NodeConfig(name="c", tcp=Address("10.0.0.3", 80)))
    )
    noise = [ProbeSucceeded(at=0.5, endpoint=Endpoint("c", TCP), latency=0.001)]
    findings = list(replay_lines(a_part(initial_state(config), [*noise, *FAILURES])))

    (switched,) = [each for each in findings if isinstance(each, Switched)]
    assert FAILURES == [witness.event for witness in switched.evidence]


def test_an_operators_switch_has_the_operator_as_its_evidence() -> None:
    """Nothing failed: somebody wished it so."""
    events: list[Event] = [OperatorSwitched(at=1.0, node="b"), OperatorReleased(at=2.0)]
    findings = list(replay_lines(a_part(START, events)))

    assert [OperatorSwitched(at=1.0, node="b"), OperatorReleased(at=2.0)] == [
        each.evidence[-1].event for each in findings if isinstance(each, Switched)
    ]


def numbered(state: State, events: list[Event], after: int = 0) -> list[str]:
    """A part whose lines have numbers, as a gateway writes them."""
    lines = [event_to_json(event, seq) for seq, event in enumerate(events, after + 1)]
    return [header_to_json(state, wall_ms=5, seq=after), *lines]


def test_a_line_that_was_taken_out_is_missed() -> None:
    """A history that somebody shortened would prove a switch without its reason, or none where there was one."""
    lines = numbered(START, FAILURES)
    findings = list(replay_lines([*lines[:2], *lines[3:]]))

    assert [
        LinesMissing(line=2, next_line=3, lost=1),
        PartEnded(2, folded(START, FAILURES[:1]), events=1, switches=0, is_proven=False),
    ] == findings[1:]


def test_lines_that_were_taken_from_the_end_of_a_rotated_file_are_missed() -> None:
    """The file after it knows how far the one before it went."""
    lines = [*numbered(START, FAILURES)[:-2], *numbered(folded(START, FAILURES), [], after=3)]
    findings = list(replay_lines(lines))

    assert ["PartBegan", "LinesMissing", "PartEnded", "PartBegan", "PartEnded"] == [
        type(each).__name__ for each in findings
    ]
    assert LinesMissing(line=2, next_line=3, lost=2) == findings[1]
    assert isinstance(findings[2], PartEnded)
    assert not findings[2].is_proven
    assert isinstance(findings[3], PartBegan)
    assert not findings[3].follows


def test_a_whole_log_with_numbers_has_nothing_missing() -> None:
    """Rotated, restarted, torn or with a gap: what the gateway itself did to its log is no theft."""
    middle = folded(START, FAILURES)
    rotated = [*numbered(START, FAILURES), *numbered(middle, FAILURES, after=3)]
    with_gap = [*numbered(START, FAILURES[:1]), gap_to_json(1), event_to_json(FAILURES[2], 3), *numbered(middle, [], 3)]

    for lines in (rotated, [*rotated, *numbered(START, FAILURES)], [*rotated, "{", *numbered(START, [])], with_gap):
        assert not [each for each in replay_lines(lines) if isinstance(each, LinesMissing)]


def test_a_log_without_numbers_still_replays() -> None:
    """Older logs have none, and a header of the first schema."""
    older = [line.replace('"schema":2', '"schema":1') for line in a_part(START, FAILURES)]
    *_, ended = replay_lines(older)

    assert '"seq"' not in "".join(older)
    assert PartEnded(4, folded(START, FAILURES), events=3, switches=1, is_proven=True) == ended


def test_nothing_is_provable_past_a_gap() -> None:
    """The lost lines may have held anything."""
    lines = [*a_part(START, FAILURES[:2]), gap_to_json(7), *map(event_to_json, FAILURES)]
    findings = list(replay_lines(lines))

    assert [GapFound(line=3, lost=7)] == findings[1:2]
    assert PartEnded(3, folded(START, FAILURES[:2]), events=2, switches=0, is_proven=False) == findings[2]
    assert 3 == len(findings)


def test_a_header_after_a_gap_is_a_new_beginning() -> None:
    """It holds the whole state, so what came before does not matter."""
    middle = folded(START, FAILURES)
    recovery: list[Event] = [OperatorSwitched(at=9.0, node="b")]
    lines = [*a_part(START, []), gap_to_json(3), *a_part(middle, recovery)]
    findings = list(replay_lines(lines))

    assert ["PartBegan", "GapFound", "PartEnded", "PartBegan", "PartEnded"] == [
        type(each).__name__ for each in findings
    ]
    assert isinstance(findings[3], PartBegan)
    assert not findings[3].follows
    assert isinstance(findings[-1], PartEnded)
    assert folded(middle, recovery) == findings[-1].state


def test_a_reopened_log_is_seen_to_go_on() -> None:
    """A header that says what the replay had found is a proof of both."""
    middle = folded(START, FAILURES)
    findings = list(replay_lines([*a_part(START, FAILURES), *a_part(middle, []), *a_part(START, [])]))

    assert [False, True, False] == [each.follows for each in findings if isinstance(each, PartBegan)]


def test_a_torn_last_line_is_allowed() -> None:
    """A crash tears the line that was being written, and no other."""
    lines = a_part(START, FAILURES)
    findings = list(replay_lines([*lines[:-1], lines[-1][:-5]]))

    assert [TornLine(4), PartEnded(3, folded(START, FAILURES[:2]), 2, 0, is_proven=True)] == findings[1:]


def test_a_torn_line_before_a_restart_is_allowed() -> None:
    """A restart appends its header after the line that the crash tore."""
    lines = [*a_part(START, FAILURES[:1]), '{"type":"pro', *a_part(START, [])]

    assert ["PartBegan", "TornLine", "PartEnded", "PartBegan", "PartEnded"] == [
        type(each).__name__ for each in replay_lines(lines)
    ]


@settings(max_examples=50, deadline=None)
@given(cut=st.integers(1, 10_000))
def test_a_log_cut_anywhere_behind_its_header_replays(cut: int) -> None:
    """Power fails at any byte."""
    text = "\n".join([*a_part(START, FAILURES), ""])
    header = text.index("\n") + 1
    *_, ended = replay_lines(text[: min(header + cut, len(text))].splitlines(keepends=True))

    assert isinstance(ended, PartEnded)
    assert folded(START, FAILURES[: ended.events]) == ended.state


@pytest.mark.parametrize(
    ("lines", "line", "complaint"),
    [
        ([], 1, "the file is empty"),
        (["", " \n"], 2, "the file is empty"),
        (["hello"], 1, "not a whole JSON line"),
        (["hello", "world"], 1, "not a whole JSON line"),
        ([event_to_json(FAILURES[0])], 1, "no header comes before it"),
        ([gap_to_json(1)], 1, "no header comes before it"),
        ([*a_part(START, FAILURES[:1]), "garbage", event_to_json(FAILURES[1])], 3, "not a whole JSON line"),
        ([*a_part(START, []), "garbage", '{"type":"dream"}'], 2, "not a whole JSON line"),
        ([*a_part(START, []), '{"type":"dream"}'], 2, "unknown type 'dream'"),
        ([header_to_json(START, 0).replace('"schema":2', '"schema":3')], 1, "schema 3 is newer"),
        ([*NUMBERED, event_to_json(FAILURES[1])], 3, "the event has no number, though the log before it has numbers"),
        ([*NUMBERED, event_to_json(FAILURES[1], 1)], 3, "event 1 comes after event 1: lines were repeated or moved"),
        ([NUMBERED[0].replace('"seq":0', '"seq":"0"')], 1, "expected int, found str"),
        ([NUMBERED[0], NUMBERED[1].replace('"seq":1', '"seq":true')], 2, "expected int, found bool"),
        ([CONTRADICTION, event_to_json(TimePassed(at=1.0))], 2, "does not fit"),
    ],
)
def test_damage_is_named_by_its_line(lines: list[str], line: int, complaint: str) -> None:
    """Guessing would be worse than stopping."""
    with pytest.raises(LogDamaged, match=complaint) as caught:
        list(replay_lines(lines))

    assert line == caught.value.line
    assert str(caught.value).startswith(f"line {line}: ")
    assert "\n" not in str(caught.value)


ENDPOINTS = st.sampled_from([A, B])
NODES = st.sampled_from(["a", "b"])
HAPPENINGS = st.one_of(
    st.builds(ProbeFailed, at=st.just(0.0), endpoint=ENDPOINTS, error=st.just("x")),
    st.builds(ProbeSucceeded, at=st.just(0.0), endpoint=ENDPOINTS, latency=st.floats(0, 1)),
    st.builds(ForwardFailed, at=st.just(0.0), endpoint=ENDPOINTS, kind=st.sampled_from(FailureKind)),
    st.builds(OperatorSwitched, at=st.just(0.0), node=NODES),
    st.builds(OperatorReleased, at=st.just(0.0)),
    st.builds(OperatorDisabled, at=st.just(0.0), node=NODES),
    st.builds(OperatorEnabled, at=st.just(0.0), node=NODES),
    st.builds(ConfigApplied, at=st.just(0.0), config=st.sampled_from([CONFIG, Config(nodes=CONFIG.nodes[:1])])),
    st.builds(TimePassed, at=st.just(0.0)),
)


@settings(max_examples=60, deadline=None)
@given(happenings=st.lists(st.tuples(st.floats(0, 3), HAPPENINGS), max_size=40), split=st.integers(0, 40))
def test_a_replay_ends_in_the_same_state(happenings: list[tuple[float, Event]], split: int) -> None:
    """Whatever happened, and wherever the log was begun anew, the replayed state is the one the gateway had."""
    state, lines, switches = START, a_part(START, []), 0
    for number, (at, event) in enumerate(happenings):
        timed = attrs.evolve(event, at=state.now + at)
        before, state = state, reduce(state, timed)
        switches += len([each for each in state.switches if each.epoch > before.epoch])
        lines.append(event_to_json(timed))
        if number == split:
            lines += a_part(state, [])
    findings = list(replay_lines(lines))

    ends = [each for each in findings if isinstance(each, PartEnded)]
    assert state == ends[-1].state
    assert switches == sum(end.switches for end in ends)
    assert all(each.follows for each in findings[1:] if isinstance(each, PartBegan))


def test_six_events_of_a_node_are_remembered() -> None:
    """Older ones did not bring it down."""
    noise = [ProbeSucceeded(at=at / 10, endpoint=A, latency=0.001) for at in range(1, 8)]
    (switched,) = [each for each in replay_lines(a_part(START, [*noise, *FAILURES])) if isinstance(each, Switched)]

    assert [*noise[-4:], *FAILURES] == [witness.event for witness in switched.evidence]


def test_who_stays_active_is_no_part_of_the_evidence() -> None:
    """It neither left nor joined."""
    equals = attrs.evolve(CONFIG, nodes=tuple(attrs.evolve(node, priority=1) for node in CONFIG.nodes))
    noise = [ProbeSucceeded(at=0.5, endpoint=B, latency=0.001)]
    findings = replay_lines(a_part(initial_state(equals), [*noise, *FAILURES]))

    assert [FAILURES] == [[each.event for each in found.evidence] for found in findings if isinstance(found, Switched)]


def test_what_an_operator_said_before_is_evidence_too() -> None:
    """A node comes back because somebody took back what somebody had said."""
    events: list[Event] = [
        OperatorDrained(at=1.0, node="a", timeout=5.0), OperatorEnabled(at=2.0, node="a"),
        OperatorMarked(at=3.0, node="a", mark=Mark.DOWN), OperatorMarked(at=4.0, node="a", mark=None),
    ]  # fmt: skip
    found = [each.evidence for each in replay_lines(a_part(START, events)) if isinstance(each, Switched)]

    assert [events[:count] for count in (1, 2, 3, 4)] == [[each.event for each in one] for one in found]


def test_after_a_gap_a_header_follows_nothing() -> None:
    """The states may be equal by chance: what lies between them nobody knows."""
    lines = [header_to_json(START, 5), gap_to_json(3), header_to_json(START, 6)]

    assert [False, False] == [each.follows for each in replay_lines(lines) if isinstance(each, PartBegan)]
    lines = [header_to_json(START, 5), header_to_json(START, 6)]
    assert [False, True] == [each.follows for each in replay_lines(lines) if isinstance(each, PartBegan)]


def test_a_log_without_numbers_may_go_on_with_them() -> None:
    """A gateway was brought up to date between two runs."""
    lines = [header_to_json(START, 5), event_to_json(FAILURES[0]), header_to_json(START, 6, 9)]

    assert [True, True] == [each.is_proven for each in replay_lines(lines) if isinstance(each, PartEnded)]
