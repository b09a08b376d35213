"""What `why` says is what the gateway does."""

import attrs
import pytest
from hypothesis import given

from sniffgate.config.schema import Config, Failback, ProbeKind, Strategy
from sniffgate.errors import CommandRefused
from sniffgate.state.account import Due, Outcome
from sniffgate.state.events import Event, TimePassed
from sniffgate.state.model import Endpoint, Mark, RouteKey, State, Verdict
from sniffgate.state.reducer import initial_state, reduce
from sniffgate.state.why import EndpointStory, as_json, as_text, explain
from tests.state.build import TCP, UDP, Story, both_node, tcp, tcp_node, udp
from tests.state.strategies import histories
from tests.state.test_oracle import with_timers


def told(story: Story, endpoint: Endpoint) -> EndpointStory:
    """What is said of one endpoint."""
    explanation = explain(story.state, endpoint.node, now=story.now)
    return next(each for each in explanation.endpoints if each.endpoint == endpoint)


@given(history=histories(max_size=15))
def test_what_it_says_of_every_reachable_state_is_true(history: tuple[Config, tuple[Event, ...]]) -> None:
    """An operator acts on these words at three in the morning."""
    first, events = history
    state = initial_state(first)
    for what in events:
        for event in with_timers(state, what):
            state = reduce(state, event)
        for node in state.config.nodes:
            explanation = explain(state, node.name)
            as_text(explanation)
            as_json(explanation)
            for each in explanation.endpoints:
                route = state.routes.get(RouteKey(node.pool, each.endpoint.transport))
                assert each.active == (route is not None and node.name in route.active)
                assert each.reasons
                for due in each.dues:
                    assert_comes_true(state, due)


def assert_comes_true(state: State, due: Due) -> None:
    for event in with_timers(state, TimePassed(at=due.at)):
        state = reduce(state, event)
    member = state.config.member(due.endpoint)
    route = state.routes[RouteKey(member.node.pool, due.endpoint.transport)]
    verdict = state.health[due.endpoint].verdict
    match due.outcome:
        case Outcome.PROBATION:
            assert Verdict.PROBATION is verdict
        case Outcome.HEALTHY:
            assert Verdict.HEALTHY is verdict
        case Outcome.ACTIVE:
            outdone = route.tier is not None and route.tier > member.node.priority
            assert outdone or due.endpoint.node in route.active
        case Outcome.INACTIVE:
            assert due.endpoint.node not in route.active


def test_an_unknown_node_is_refused_with_a_suggestion() -> None:
    """A typo must not read like an answer."""
    with pytest.raises(CommandRefused, match="no node is named 'node-aa'; did you mean 'node-a'"):
        explain(Story(tcp_node("node-a")).state, "node-aa")


def test_a_missing_transport_is_said_to_have_no_address() -> None:
    """So that nobody looks for a fault in health."""
    assert ("a has no udp address",) == told(Story(tcp_node("a")), udp("a")).reasons


def test_a_node_that_failed_its_probes_says_what_it_takes_to_come_back() -> None:
    """The two questions of every outage: since when, and until when."""
    story = Story(tcp_node("a", priority=1), tcp_node("b")).at(1.0).bad(tcp("a"), 3).at(13.5)

    assert EndpointStory(
        tcp("a"),
        False,
        ("a/tcp is unhealthy for 12.5 s (failed probes: connection refused)",),
        ("a/tcp is healthy after 2 more good probes", "then it takes over at once (failback auto)"),
    ) == told(story, tcp("a"))


def test_an_ejected_node_names_the_end_of_its_ejection() -> None:
    """Good probes alone do not bring it back before."""
    story = Story(tcp_node("a"), tcp_node("b")).at(1.0).refused(tcp("a"), 3).good(tcp("a")).at(1.25)

    said = told(story, tcp("a"))
    assert ("a/tcp is unhealthy for 0.2 s (ejected by live traffic: refused)",) == said.reasons
    assert "a/tcp is healthy after 1 more good probe, not before its ejection ends in 0.8 s" == said.changes[0]
    assert (Due(2.0, tcp("a"), Outcome.HEALTHY),) == told(story.good(tcp("a")), tcp("a")).dues


def test_a_wall_time_stands_beside_the_seconds_where_one_is_known() -> None:
    """People compare with their logs."""
    story = Story(tcp_node("a"), tcp_node("b")).at(1.0).refused(tcp("a"), 3).good(tcp("a"), 2)
    story.state = attrs.evolve(story.state, wall_ms=43_200_000)

    assert "a/tcp is healthy in 1.0 s (12:00:01Z), when its ejection ends" == told(story, tcp("a")).changes[0]


def test_an_unprobed_node_tells_of_its_probation_and_its_trial() -> None:
    """Only live traffic brings it back."""
    story = Story(tcp_node("a", probe=ProbeKind.NONE), tcp_node("b")).at(1.0).refused(tcp("a"), 3)

    assert (Due(2.0, tcp("a"), Outcome.PROBATION),) == told(story, tcp("a")).dues
    fresh = Story(tcp_node("a", probe=ProbeKind.NONE))
    assert ("3 failures of live traffic within 5 s would eject it",) == told(fresh, tcp("a")).changes
    assert ("a/tcp is on probation for 1.0 s", "on trial: it gets the next new flow") == told(
        story.at(3.0), tcp("a")
    ).reasons


def test_a_follower_names_whom_it_follows() -> None:
    """The fault is at the other transport."""
    story = Story(both_node("a"), both_node("b")).bad(tcp("a"), 3)

    assert "it follows a/tcp" == told(story, udp("a")).reasons[0]


def test_a_node_that_moves_together_names_its_other_transport() -> None:
    """Its own evidence is good."""
    story = Story(both_node("a"), both_node("b"), move_together=True).refused(udp("a"), 3)

    assert "it moves together with a/udp" == told(story, tcp("a")).reasons[0]


def test_who_is_spoken_for_names_the_prober() -> None:
    """Nobody probes UDP there, so nobody should wait for it."""
    story = Story(both_node("a", probe=ProbeKind.TCP), both_node("b")).bad(tcp("a"), 3)

    assert "a/udp is healthy after 2 more good probes of a/tcp" == told(story, udp("a")).changes[0]


def test_disabled_says_by_whom() -> None:
    """The file and the operator are different people."""
    assert ("disabled by the configuration file",) == told(Story(tcp_node("a", enabled=False)), tcp("a")).reasons
    assert ("disabled by the operator",) == told(Story(tcp_node("a")).disable("a"), tcp("a")).reasons


def test_a_mark_is_named_first() -> None:
    """It stands above all evidence."""
    story = Story(tcp_node("a"), tcp_node("b"))

    assert "marked down by the operator" == told(story.mark("a", Mark.DOWN), tcp("a")).reasons[0]
    up = told(story.mark("a", Mark.UP), tcp("a"))
    assert ("marked up by the operator", "of the tier in use, priority 0") == up.reasons
    assert "only `health a down`, `health a auto` or `disable a` takes it out" == up.changes[-1]


def test_pins_are_named_on_both_sides() -> None:
    """Who is pinned, and who is kept out by it."""
    story = Story(tcp_node("a", priority=1), tcp_node("b"), tcp_node("c", priority=2)).switch("b")

    assert ("pinned by the operator",) == told(story, tcp("b")).reasons
    assert ("b is pinned by the operator",) == told(story, tcp("a")).reasons
    assert "then it stands by: b is pinned" == told(story.bad(tcp("c"), 3), tcp("c")).changes[-1]


def test_fail_open_and_fail_closed_are_told_apart() -> None:
    """Traffic to a broken node looks like a bug otherwise."""
    story = Story(tcp_node("a")).bad(tcp("a"), 3)
    closed = Story(tcp_node("a"), fail_open=False).bad(tcp("a"), 3)

    assert "has traffic all the same: nothing is usable, and the pool fails open" == told(story, tcp("a")).reasons[-1]
    said = told(closed, tcp("a"))
    assert "nothing is usable, and fail_open is off: new traffic is refused" == said.reasons[-1]
    assert "then it is active at once" == said.changes[-1]


def test_a_lower_tier_says_who_would_have_to_fail() -> None:
    """Not the whole file: those that are usable now."""
    story = Story(tcp_node("a", priority=2), tcp_node("b", priority=1), tcp_node("c")).bad(tcp("b"), 3)

    assert ("it takes over when none of a is usable",) == told(story, tcp("c")).changes
    assert "then it stands by: priority 2 is in use, its own is 1" == told(story, tcp("b")).changes[-1]


def test_failback_says_when_or_who() -> None:
    """A better tier that waits is the commonest question of all."""
    nodes = tcp_node("a", priority=1), tcp_node("b")
    delayed = Story(*nodes, failback_delay=30.0).bad(tcp("a"), 3)
    manual = Story(*nodes, failback=Failback.MANUAL).bad(tcp("a"), 3)

    assert "then it takes over after 30 s (failback auto)" == told(delayed, tcp("a")).changes[-1]
    assert "then it waits for `auto` or `switch a` (failback manual)" == told(manual, tcp("a")).changes[-1]
    for story in (delayed, manual):
        story.at(10.0).good(tcp("a"), 2).at(20.0)
    assert (Due(40.0, tcp("a"), Outcome.ACTIVE),) == told(delayed, tcp("a")).dues
    assert (Due(40.0, tcp("b"), Outcome.INACTIVE),) == told(delayed, tcp("b")).dues
    assert ("`auto` or `switch a` brings it back",) == told(manual, tcp("a")).changes
    assert "a, of a better tier, waits for `auto` or `switch a` (failback manual)" == told(manual, tcp("b")).changes[-1]


def test_newcomers_say_what_they_wait_for() -> None:
    """A node just added is not broken."""
    story = Story(tcp_node("b")).good(tcp("b"), 2).reload(tcp_node("b"), tcp_node("a", priority=1))

    assert ("a reload brought it, and no probe has found it healthy yet",) == told(story, tcp("a")).reasons
    assert "then it takes over at once: a reload brought it" == told(story.bad(tcp("a"), 3), tcp("a")).changes[-1]


def test_strategies_and_weights_are_named() -> None:
    """Under weights a node may be active and still get nothing."""
    story = Story(tcp_node("a", weight=0), tcp_node("b"), strategy=Strategy.WEIGHTED)

    assert (
        "usable, and strategy weighted uses whatever is",
        "weight 0: new traffic only while no active node weighs more",
    ) == told(story, tcp("a")).reasons
    assert "then it is active at once" == told(story.bad(tcp("a"), 3), tcp("a")).changes[-1]
    assert ("the only usable one",) == told(Story(tcp_node("a")), tcp("a")).reasons


def test_it_reads_as_lines_and_as_plain_values() -> None:
    """For people and for programs."""
    story = Story(tcp_node("a"), tcp_node("b")).refused(tcp("a"), 3).good(tcp("a"), 2)
    explanation = explain(story.state, "a")

    assert (
        "a/tcp is not active: a/tcp is unhealthy for 0.0 s (ejected by live traffic: refused)"
        == (as_text(explanation).splitlines()[0])
    )
    assert [{"at_s": 1.0, "endpoint": "a/tcp", "outcome": "healthy"}] == as_json(explanation)["endpoints"]["a/tcp"][
        "due"
    ]
    assert [TCP, UDP] == [each.endpoint.transport for each in explanation.endpoints]


def test_a_node_that_came_back_by_itself_says_by_what_right() -> None:
    """The other one was well: whoever was moved off it wants to know why."""
    story = Story(tcp_node("a", priority=1), tcp_node("b"), failback_delay=5.0)
    story.bad(tcp("a"), 3).at(7.0).good(tcp("a"), 2).at(20.0)

    assert (
        "of the tier in use, priority 1",
        "since epoch 4 by failback (a/tcp healthy for 5.0 s, failback auto)",
    ) == told(story, tcp("a")).reasons
    assert not [reason for reason in told(story.switch("b"), tcp("b")).reasons if "since epoch" in reason]
