"""The sentences of `why`, word by word, in the situations that differ by one condition only."""

import attrs
import pytest

from sniffgate.config.schema import Failback, ProbeKind, Strategy
from sniffgate.state.account import Clock, Due, Outcome
from sniffgate.state.model import Cause, Mark, State
from sniffgate.state.why import EndpointStory, as_json, as_text, explain
from tests.state.build import TCP, UDP, Story, both_node, tcp, tcp_node, udp

A, B, C = tcp("a"), tcp("b"), tcp("c")
TIERS = tcp_node("a", priority=1), tcp_node("b")
WORDY = {"udp_probe_payload": b"ping", "udp_probe_expect": b"pong"}  # so that UDP has a verdict of its own


def told(story: Story, node: str, transport: object = TCP, now: float | None = None) -> EndpointStory:
    found = explain(story.state, node, now=story.now if now is None else now)
    return next(each for each in found.endpoints if each.endpoint.transport is transport)


def walled(state: State, wall_ms: int) -> State:
    return attrs.evolve(state, wall_ms=wall_ms)


# --- times ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wall_ms", "at", "words"),
    [
        (1_700_000_000_000, 0.0, "in 0.0 s (22:13:20Z)"),
        (1_700_000_000_000, 45.5, "in 45.5 s (22:14:05Z)"),
        (1_700_000_000_000, 6400.0, "in 6400.0 s (00:00:00Z)"),
        (1_700_000_000_000, -1.0, "in 0.0 s (22:13:19Z)"),
        (0, 45.5, "in 45.5 s"),
    ],
)
def test_a_moment_is_told_in_seconds_from_now_and_on_the_wall(wall_ms: int, at: float, words: str) -> None:
    """People compare it with a clock, at any hour of any day."""
    assert words == Clock(walled(Story(*TIERS).state, wall_ms), 0.0).until(at)


def test_the_wall_is_the_states_and_the_seconds_are_the_askers() -> None:
    """Who asks some seconds after the last event is told less to wait, and the same hour."""
    state = walled(Story(*TIERS).at(10.0).bad(A).state, 1_700_000_000_000)

    assert "in 3.0 s (22:13:30Z)" == Clock(state, 17.0).until(20.0)
    assert ("for 17.0 s", "for 0.0 s") == (Clock(state, 17.0).since(0.0), Clock(state, 17.0).since(18.0))


def test_nobody_asks_from_before_the_last_event() -> None:
    """A clock that was read before the event came must not make the past longer than it is."""
    story = Story(*TIERS).at(1.0).bad(A, 3).at(13.5).bad(A)

    assert "a/tcp is unhealthy for 12.5 s (failed probes: connection refused)" == told(story, "a", now=2.0).reasons[0]
    assert (
        "a/tcp is unhealthy for 12.5 s (failed probes: connection refused)"
        == (explain(story.state, "a").endpoints[0].reasons[0])
    )


def test_the_lines_of_a_person_hold_what_would_change_it_too() -> None:
    """One line for each endpoint, and what is to happen below it."""
    assert [
        "a/tcp is active: the only usable one",
        "  3 more failed probes in a row or 3 failures of live traffic within 5 s would take it out",
        "a/udp is not active: a has no udp address",
    ] == as_text(explain(Story(tcp_node("a")).state, "a")).splitlines()


# --- not usable -----------------------------------------------------------------------------------


def test_a_missing_transport_is_not_active() -> None:
    """And has nothing that could change it."""
    assert EndpointStory(udp("a"), False, ("a has no udp address",)) == told(Story(*TIERS), "a", UDP)
    assert {"active": False, "reasons": ["a has no udp address"], "changes": [], "due": []} == (
        as_json(explain(Story(*TIERS).state, "a"))["endpoints"]["a/udp"]
    )


def test_the_failures_of_clients_alone_are_told_as_such() -> None:
    """No ejection: three refused clients, each further from the last than a probe may take."""
    story = Story(*TIERS, passive_eject_threshold=9).refused(A).at(1.0).refused(A).at(2.0).refused(A)

    assert EndpointStory(
        A,
        False,
        ("a/tcp is unhealthy for 0.0 s (live traffic failed: refused)",),
        ("a/tcp is healthy after 2 more good probes", "then it takes over at once (failback auto)"),
    ) == told(story, "a")


def test_a_fall_without_an_error_is_told_without_one() -> None:
    """No colon before nothing."""
    assert ("a/tcp is unhealthy for 0.0 s (failed probes)",) == told(Story(*TIERS).bad(A, 3, error=""), "a").reasons


def test_an_ejection_that_is_over_is_not_waited_for() -> None:
    """From the moment it ends, only good probes are missing."""
    story = Story(*TIERS).at(1.0).refused(A, 3)

    assert (
        "a/tcp is healthy after 2 more good probes, not before its ejection ends in 0.5 s"
        == (told(story.at(1.5), "a").changes[0])
    )
    for now in (2.0, 3.0):
        assert ("a/tcp is healthy after 2 more good probes",) == told(story.at(now), "a").changes[:1]
        assert () == told(story, "a").dues


def test_more_good_probes_than_are_needed_are_enough() -> None:
    """A reload may ask for fewer while they are counted."""
    story = Story(*TIERS, success_threshold=3).at(1.0).refused(A, 3).good(A, 3)
    story.reload(*TIERS, success_threshold=1)

    said = told(story, "a")
    assert "a/tcp is healthy in 1.0 s, when its ejection ends" == said.changes[0]
    assert (Due(2.0, A, Outcome.HEALTHY),) == said.dues


def test_an_unprobed_node_that_is_out_and_then_on_trial_says_all_of_it() -> None:
    """First the end of its ejection, then the flow that decides."""
    nodes = tcp_node("a", priority=1, probe=ProbeKind.NONE), tcp_node("b")
    story = Story(*nodes).at(1.0).refused(A, 3)
    assert EndpointStory(
        A,
        False,
        ("a/tcp is unhealthy for 0.0 s (ejected by live traffic: refused)",),
        ("a/tcp is on probation in 1.0 s, when its ejection ends", "then it takes over at once (failback auto)"),
        (Due(2.0, A, Outcome.PROBATION),),
    ) == told(story, "a")

    assert EndpointStory(
        A,
        False,
        ("a/tcp is on probation for 1.0 s", "on trial: it gets the next new flow"),
        (
            "a/tcp is healthy after one live flow that succeeds; one that fails ejects it again",
            "then it takes over at once (failback auto)",
        ),
    ) == told(story.at(3.0), "a")


def test_who_follows_is_told_of_whom_and_who_fails_itself_of_nobody_else() -> None:
    """Under `move_together` a node with words of its own follows nobody, and goes along all the same."""
    follower = Story(both_node("a", priority=1), both_node("b")).bad(A, 3)
    assert EndpointStory(
        udp("a"),
        False,
        ("it follows a/tcp", "a/tcp is unhealthy for 0.0 s (failed probes: connection refused)"),
        ("a/tcp is healthy after 2 more good probes", "then it takes over at once (failback auto)"),
    ) == told(follower, "a", UDP)

    nodes = both_node("a", priority=1, **WORDY), both_node("b", **WORDY)
    together = Story(*nodes, move_together=True).bad(A, 3)
    assert ("it moves together with a/tcp", "a/tcp is unhealthy for 0.0 s (failed probes: connection refused)") == (
        told(together, "a", UDP).reasons
    )
    assert ("a/tcp is unhealthy for 0.0 s (failed probes: connection refused)",) == told(together, "a").reasons


def test_what_a_node_comes_back_to_is_told_by_tiers() -> None:
    """An equal joins at once; under a pin, or below, it stands by; without tiers it is used at once."""
    equals = Story(tcp_node("a"), tcp_node("b")).bad(A, 3)
    assert "then it is active at once" == told(equals, "a").changes[-1]
    below = Story(tcp_node("a", priority=1), tcp_node("b", priority=2)).bad(A, 3)
    assert "then it stands by: priority 2 is in use, its own is 1" == told(below, "a").changes[-1]
    pinned = Story(*TIERS).switch("b").bad(A, 3)
    assert "then it stands by: b is pinned" == told(pinned, "a").changes[-1]
    turns = Story(*TIERS, strategy=Strategy.ROUND_ROBIN).bad(A, 3)
    assert "then it is active at once" == told(turns, "a").changes[-1]
    fails_open = Story(tcp_node("a", priority=1), tcp_node("b"), failback=Failback.MANUAL).bad(A, 3).bad(B, 3)
    assert "then it is active at once" == told(fails_open, "a").changes[-1]


def test_half_a_newcomer_takes_over_as_one() -> None:
    """Together, one new address makes the whole node new."""
    together = {"move_together": True, "failback": Failback.MANUAL}
    nodes = both_node("a", priority=1, **WORDY), both_node("b", **WORDY)
    story = Story(*nodes, **together)
    for endpoint in (A, udp("a"), B, udp("b")):
        story.good(endpoint, 2)
    moved = attrs.evolve(nodes[0], udp=both_node("new").udp)
    story.reload(moved, nodes[1], **together).bad(udp("a"), 3)

    assert "then it takes over at once: a reload brought it" == told(story, "a", UDP).changes[-1]


# --- usable ---------------------------------------------------------------------------------------


def test_who_serves_says_by_what_right_and_what_would_end_it() -> None:
    """The only one, one of the tier, or one that is in use whatever its tier."""
    ending = "3 more failed probes in a row or 3 failures of live traffic within 5 s would take it out"
    assert EndpointStory(A, True, ("the only usable one",), (ending,)) == told(Story(tcp_node("a")), "a")
    for nodes in (TIERS, (tcp_node("a", priority=1), tcp_node("b", priority=1))):
        assert EndpointStory(A, True, ("of the tier in use, priority 1",), (ending,)) == told(Story(*nodes), "a")
    turns = Story(tcp_node("a", weight=0), tcp_node("b"), strategy=Strategy.ROUND_ROBIN)
    assert ("usable, and strategy round_robin uses whatever is",) == told(turns, "a").reasons
    heavy = Story(tcp_node("a"), tcp_node("b"), strategy=Strategy.WEIGHTED)
    assert ("usable, and strategy weighted uses whatever is",) == told(heavy, "a").reasons
    assert ("the only usable one",) == told(Story(tcp_node("a", weight=0)), "a").reasons


def test_failed_probes_so_far_are_counted() -> None:
    """One more is one, and at least one is always missing."""
    story = Story(*TIERS).bad(A)
    assert "2 more failed probes in a row or" == told(story, "a").changes[-1][:32]
    assert "1 more failed probe in a row or " == told(story.bad(A), "a").changes[-1][:32]
    assert "1 more failed probe in a row or " == told(story.reload(*TIERS, failure_threshold=1), "a").changes[-1][:32]


def test_of_several_that_wait_the_next_is_told_alone() -> None:
    """Who comes after it takes over from it, not from this one."""
    nodes = tcp_node("a", priority=2), tcp_node("b", priority=1), tcp_node("c")
    story = Story(*nodes, failback_delay=30.0).bad(A, 3).bad(B, 3).at(10.0).good(B, 2).at(15.0).good(A, 2)

    said = told(story, "c")
    assert ("b, of a better tier, takes over in 25.0 s (failback auto)",) == said.changes[1:]
    assert (Due(40.0, C, Outcome.INACTIVE),) == said.dues


def test_the_last_return_is_the_one_that_is_told_and_only_on_its_own_route() -> None:
    """A start or a failover is no return, and what UDP did is UDP's."""
    nodes = both_node("a", priority=1, **WORDY), both_node("b", **WORDY)
    story = Story(*nodes)
    for at in (1.0, 2.0, 3.0):
        story.at(at).bad(A, 3).good(A, 2)
    epoch = story.state.epoch
    assert epoch == story.state.switches[-1].epoch

    assert f"since epoch {epoch} by failback (a/tcp healthy for 0.0 s, failback auto)" == told(story, "a").reasons[-1]
    assert ("of the tier in use, priority 1",) == told(story, "a", UDP).reasons
    assert ("the only usable one",) == told(story.bad(A, 3), "b").reasons


def test_a_rejoin_is_told_too() -> None:
    """Without tiers nobody fails back; they join."""
    story = Story(tcp_node("a"), tcp_node("b")).bad(A, 3).good(A, 2)

    assert "since epoch 3 by rejoin (a/tcp healthy for 0.0 s, of the tier in use)" == told(story, "a").reasons[-1]


def test_who_stands_by_names_those_above_it_and_no_equals() -> None:
    """Its equal does not keep it out."""
    story = Story(tcp_node("a", priority=1), tcp_node("b"), tcp_node("c"))

    assert EndpointStory(
        B, False, ("priority 1 is in use, its own is 0",), ("it takes over when none of a is usable",)
    ) == told(story, "b")


def test_who_waits_to_fail_back_says_over_whom_and_until_when() -> None:
    """The delay's end is a moment; `auto` is none."""
    delayed = Story(*TIERS, failback_delay=30.0).bad(A, 3).at(10.0).good(A, 2).at(20.0)
    assert EndpointStory(
        A,
        False,
        ("of a better tier than the one in use (1 over 0), but not healthy long enough",),
        ("it takes over in 20.0 s (failback auto), unless a still better one is back by then",),
        (Due(40.0, A, Outcome.ACTIVE),),
    ) == told(delayed, "a")

    manual = Story(*TIERS, failback=Failback.MANUAL).bad(A, 3).good(A, 2)
    assert EndpointStory(
        A,
        False,
        ("of a better tier than the one in use (1 over 0), but failback is manual",),
        ("`auto` or `switch a` brings it back",),
    ) == told(manual, "a")
    assert () == told(manual, "b").dues


def test_marks_and_pins_and_disables_say_what_undoes_them() -> None:
    """Each by its own command."""
    story = Story(*TIERS)
    assert EndpointStory(
        A, False, ("marked down by the operator",),
        ("`health a auto` gives it back to the evidence", "then it takes over at once (failback auto)"),
    ) == told(story.mark("a", Mark.DOWN), "a")  # fmt: skip
    pinned = told(Story(*TIERS).switch("b"), "b")
    assert (("pinned by the operator",), "`auto` releases the pin; so does its fall, if another is usable") == (
        pinned.reasons, pinned.changes[0],
    )  # fmt: skip
    assert EndpointStory(A, False, ("b is pinned by the operator",), ("`auto` releases the pin",)) == (
        told(Story(*TIERS).switch("b"), "a")
    )
    assert EndpointStory(A, False, ("disabled by the operator",), ("`enable a` lets it have traffic",)) == (
        told(Story(*TIERS).disable("a"), "a")
    )


def test_a_newcomer_says_how_many_probes_it_takes() -> None:
    """And what else lets it in."""
    story = Story(tcp_node("b")).good(B, 2).reload(*TIERS)

    assert EndpointStory(
        A,
        False,
        ("a reload brought it, and no probe has found it healthy yet",),
        ("it joins when 2 probes in a row have found it healthy, or when nothing else is usable",),
    ) == told(story, "a")


def test_routes_without_anybody_usable_tell_how_they_go_on() -> None:
    """Open or closed, and an equal on trial is told apart from its neighbour."""
    opened = Story(*TIERS).bad(A, 3).bad(B, 3)
    assert (True, "has traffic all the same: nothing is usable, and the pool fails open") == (
        told(opened, "b").active, told(opened, "b").reasons[-1],
    )  # fmt: skip
    closed = Story(*TIERS, fail_open=False).bad(A, 3).bad(B, 3)
    assert (False, "nothing is usable, and fail_open is off: new traffic is refused") == (
        told(closed, "b").active, told(closed, "b").reasons[-1],
    )  # fmt: skip
    assert 1 == len(told(Story(*TIERS).bad(A, 3), "a").reasons)
    assert Cause.PROBES is opened.health(A).cause
