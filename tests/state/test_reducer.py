"""What the reducer itself writes down: its two times, its counters, and when it looks again."""

import attrs

from sniffgate.config.schema import ProbeKind, Transport
from sniffgate.state.events import OperatorReleased, ProbeFailed, ProbeSucceeded, TimePassed
from sniffgate.state.model import RouteKey, SwitchReason
from sniffgate.state.reducer import NEVER, forward_success_matters, initial_state, next_wakeup, reduce
from tests.state.build import Story, config_of, tcp, tcp_node, udp

A, B = tcp_node("a", priority=2), tcp_node("b", priority=1)
CONFIG = config_of(A, B, failure_threshold=1, success_threshold=1)


def test_the_first_state_has_the_wall_time_of_the_start() -> None:
    """People read it in the first switch."""
    state = initial_state(CONFIG, wall_ms=777)
    (switch,) = state.switches

    assert (0.0, 777, 1, 1) == (state.now, state.wall_ms, state.epoch, state.revision)
    assert (0.0, 777, 1, SwitchReason.START) == (switch.at, switch.wall_ms, switch.epoch, switch.reason)


def test_an_event_brings_its_wall_time_and_one_without_leaves_the_last() -> None:
    """Tests and embedders may know no wall; then the last one known is better than 1970."""
    state = reduce(initial_state(CONFIG, wall_ms=777), ProbeFailed(at=1.0, wall_ms=1777, endpoint=tcp("a"), error="x"))
    assert (1777, 1777, 1777) == (state.wall_ms, state.switches[-1].wall_ms, state.health[tcp("a")].changed_wall_ms)

    state = reduce(state, ProbeSucceeded(at=2.0, endpoint=tcp("a"), latency=0.1))
    assert (1777, 2.0) == (state.wall_ms, state.now)
    assert 500 == reduce(state, ProbeFailed(at=3.0, wall_ms=500, endpoint=tcp("a"), error="x")).wall_ms


def test_an_event_that_was_seen_earlier_turns_no_time_back() -> None:
    """Reports wait in a queue; what came before in time may come after in order."""
    state = reduce(initial_state(CONFIG), ProbeFailed(at=5.0, endpoint=tcp("a"), error="x"))
    state = reduce(state, ProbeFailed(at=4.0, endpoint=tcp("b"), error="x"))

    assert (5.0, 5.0) == (state.now, state.health[tcp("b")].since)


def test_a_tick_or_a_release_that_changes_nothing_gives_the_same_state() -> None:
    """Nothing is published, and no revision is used up."""
    state = initial_state(CONFIG)

    assert state is reduce(state, TimePassed(at=1.0))
    assert state is reduce(state, OperatorReleased(at=1.0))


def test_the_next_wake_up_is_the_first_of_all_that_is_due() -> None:
    """An ejection here, a failback there: the ticker has one alarm."""
    story = Story(A, B, tcp_node("c", priority=0, probe=ProbeKind.NONE), failure_threshold=1, success_threshold=1,
                  failback_delay=4.0, eject_time=2.0)  # fmt: skip
    assert NEVER == next_wakeup(story.state)

    story.at(1.0).bad(tcp("a"))
    story.at(2.0).good(tcp("a"))
    assert 6.0 == next_wakeup(story.state)
    story.at(3.0).refused(tcp("c"), times=3)
    assert 5.0 == next_wakeup(story.state)
    story.at(5.0)
    assert 6.0 == next_wakeup(story.state)
    story.at(6.0)
    assert NEVER == next_wakeup(story.state)


def test_a_probed_endpoint_wakes_nobody_before_its_probes_are_good() -> None:
    """An alarm that changes nothing would ring for ever."""
    story = Story(A, B, passive_eject_threshold=1, success_threshold=2, eject_time=10.0)
    story.at(1.0).refused(tcp("a"))
    assert NEVER == next_wakeup(story.state)

    story.at(2.0).good(tcp("a"), times=2)
    assert 11.0 == next_wakeup(story.state)


def test_each_change_is_one_revision_and_each_new_table_one_epoch() -> None:
    """Whoever waits compares numbers."""
    first = initial_state(CONFIG)
    second = reduce(first, ProbeSucceeded(at=1.0, endpoint=tcp("b"), latency=0.1))
    third = reduce(second, ProbeFailed(at=2.0, endpoint=tcp("a"), error="x"))

    assert [(1, 1), (1, 2), (2, 3)] == [(each.epoch, each.revision) for each in (first, second, third)]
    assert attrs.evolve(second.health[tcp("b")], promotions=1) == third.health[tcp("b")]


def test_evidence_that_says_nothing_new_gives_the_same_state() -> None:
    """A hundred flows that meet a node that is out already are no hundred revisions."""
    story = Story(A, B).at(1.0).refused(tcp("a"), times=3)
    before = story.state

    assert before is story.at(1.1).refused(tcp("a")).state


def test_a_success_at_an_address_that_the_node_lacks_matters_to_nobody() -> None:
    """A reload may take a transport away while a flow of it connects."""
    assert not forward_success_matters(initial_state(CONFIG), udp("a"))
    assert not forward_success_matters(initial_state(CONFIG), tcp("z"))


def test_of_two_that_wait_to_fail_back_the_first_that_is_due_takes_over() -> None:
    """The best one may have longer to wait; nobody waits for it."""
    nodes = tcp_node("a", priority=2), tcp_node("b", priority=1), tcp_node("c")
    story = Story(*nodes, failure_threshold=1, success_threshold=1, failback_delay=10.0)
    story.at(1.0).bad(tcp("a")).bad(tcp("b")).at(2.0).good(tcp("b")).at(7.0).good(tcp("a"))

    assert ["c", "b", "b", "a"] == [story.at(now).active() for now in (11.0, 12.0, 16.0, 17.0)]


def test_a_pin_that_goes_is_a_new_table_even_where_no_route_shows_it() -> None:
    """A closed route names no pin; `status` does."""
    story = Story(A, B, failure_threshold=1, fail_open=False).switch("b").bad(tcp("a")).bad(tcp("b"))
    before = story.state
    assert {RouteKey("default", Transport.TCP): "b"} == before.pins

    assert ({}, before.epoch + 1, before.routes) == (
        story.auto().state.pins, story.state.epoch, story.state.routes,
    )  # fmt: skip
