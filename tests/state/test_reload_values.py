"""What a reload writes down, value by value: who is a newcomer, whose ejection is whose, and which wish lapses."""

import attrs

from sniffgate.address import Address
from sniffgate.config.schema import Config, Failback, ProbeKind, Strategy
from sniffgate.state.model import Cause, Mark, Override, RouteMode, Verdict
from tests.state.build import UDP, Story, both_node, pool_named, tcp, tcp_node, udp, udp_node

A, B, C = tcp("a"), tcp("b"), tcp("c")
RIGHT_AWAY = tcp_node("a", probe=ProbeKind.NONE)


def test_a_newcomer_is_unknown_since_the_reload() -> None:
    """`status` says since when, in both times."""
    story = Story(tcp_node("b")).good(B, 2)
    story.state = attrs.evolve(story.state, wall_ms=777)
    story.at(4.0).reload(tcp_node("b"), tcp_node("a"))

    health = story.health(A)
    assert (Verdict.UNKNOWN, 4.0, 777, True) == (health.verdict, health.since, health.changed_wall_ms, health.joining)


def test_while_nothing_is_usable_there_is_no_tier_to_be_raised_above() -> None:
    """A route that fails open uses everybody, whatever the file says of them."""
    story = Story(tcp_node("a", priority=1), tcp_node("b"), tcp_node("c", enabled=False)).bad(A, 3).bad(B, 3)
    story.reload(tcp_node("a", priority=1), tcp_node("b"), tcp_node("c", enabled=False, priority=9))

    assert (False, "ab") == (story.health(C).joining, story.active())


def test_a_node_is_raised_only_from_below_the_highest_in_use_to_above_it() -> None:
    """Without tiers nodes of several priorities are in use; the best of them is what the others are measured by."""
    for priority, is_raised in ((6, True), (5, False), (4, False)):
        story = Story(tcp_node("a", priority=1), tcp_node("b", priority=5), tcp_node("c", priority=3),
                      strategy=Strategy.ROUND_ROBIN).bad(C, 3)  # fmt: skip
        story.reload(tcp_node("a", priority=1), tcp_node("b", priority=5), tcp_node("c", priority=priority),
                     strategy=Strategy.ROUND_ROBIN)  # fmt: skip
        assert is_raised == story.health(C).joining


def test_a_node_in_another_pool_is_a_newcomer_there_even_below_the_tier_in_use() -> None:
    """It has never been in use there, however well it is known."""
    other = pool_named("other")
    story = Story(tcp_node("a"), tcp_node("b")).bad(A, 3)
    story.apply(Config(nodes=(tcp_node("a", pool="other"), tcp_node("b"), tcp_node("c", pool="other")), pools=(other,)))

    assert (Verdict.UNHEALTHY, True) == (story.verdict(A), story.health(A).joining)


def test_an_unprobed_node_that_is_well_is_not_ejected_by_another_line_of_the_file() -> None:
    """Only who was out already stays out."""
    story = Story(RIGHT_AWAY, tcp_node("b"))
    before = story.health(A)

    assert before == story.at(3.0).reload(attrs.evolve(RIGHT_AWAY, weight=7), tcp_node("b")).health(A)


def test_an_ejection_under_way_ends_when_it_would_have_ended() -> None:
    """Another weight is no evidence."""
    story = Story(RIGHT_AWAY, tcp_node("b"), eject_time=10.0).at(1.0).refused(A, 3)
    story.at(5.0).reload(attrs.evolve(RIGHT_AWAY, weight=7), tcp_node("b"), eject_time=10.0)

    assert 11.0 == story.health(A).ejected_until


def test_a_node_on_probation_stays_there_unless_it_is_probed_from_now_on() -> None:
    """A probe says more than a trial; who was thrown out by traffic is still out for that."""
    story = Story(RIGHT_AWAY, tcp_node("b"), eject_time=10.0).at(1.0).refused(A, 3).at(12.0)
    assert Verdict.PROBATION is story.verdict(A)
    story.reload(attrs.evolve(RIGHT_AWAY, weight=7), tcp_node("b"), eject_time=10.0)
    assert Verdict.PROBATION is story.verdict(A)

    story.reload(tcp_node("a"), tcp_node("b"), eject_time=10.0)
    assert (Verdict.UNHEALTHY, Cause.TRAFFIC, 12.0) == (
        story.verdict(A), story.health(A).cause, story.health(A).since,
    )  # fmt: skip


def test_a_drain_lapses_whole_when_the_file_says_otherwise() -> None:
    """Nothing is left of it that a later order would inherit; the mark goes because the node changed."""
    story = Story(tcp_node("a"), tcp_node("b")).at(1.0).drain("a", 7.0)
    assert {"a": Override(enabled=False, drain=7.0, drain_at=1.0)} == story.state.overrides

    assert {} == story.reload(tcp_node("a", enabled=False), tcp_node("b")).state.overrides


def test_a_mark_lapses_and_a_drain_stays_when_something_else_of_the_node_changed() -> None:
    """The mark was about the node as it was; the drain was about traffic."""
    story = Story(both_node("a"), both_node("b")).at(1.0).drain("a", 7.0).mark("a", Mark.UP)
    story.reload(both_node("a", weight=7), both_node("b"))

    assert {"a": Override(enabled=False, drain=7.0, drain_at=1.0)} == story.state.overrides


def test_a_newcomer_that_is_found_healthy_is_none_any_more_though_it_only_stands_by() -> None:
    """Its next recovery is a recovery like any other."""
    story = Story(tcp_node("b", priority=1)).good(B, 2).reload(tcp_node("b", priority=1), tcp_node("c"))
    assert (True, "b", "c") == (story.health(C).joining, story.active(), story.standbys())

    assert (False, "b", "c") == (story.good(C, 2).health(C).joining, story.active(), story.standbys())


def test_together_a_newcomer_that_is_the_only_one_over_one_transport_joins_over_both() -> None:
    """Half a node is none: what is in use over TCP has arrived over UDP too."""
    words = {"udp_probe_payload": b"ping", "udp_probe_expect": b"pong"}
    other = udp_node("b", **words)
    story = Story(other, move_together=True).good(udp("b"), 2)
    story.reload(both_node("a", priority=1, **words), other, move_together=True)

    assert ("a", "a", False) == (story.active(), story.active(UDP), story.health(udp("a")).joining)


def test_a_newcomer_that_only_had_traffic_under_fail_open_has_not_arrived() -> None:
    """It was in use because nobody was well; when it is well itself it still needs no operator."""
    manual = {"failback": Failback.MANUAL}
    story = Story(tcp_node("b"), **manual).good(B, 2).reload(tcp_node("a", priority=1), tcp_node("b"), **manual)
    story.bad(A, 3).bad(B, 3)
    assert ("ab", True) == (story.active(), story.health(A).joining)

    assert ["b", "a"] == [story.good(B, 2).active(), story.good(A, 2).active()]


def test_after_a_fail_open_the_best_tier_is_in_use_at_once_whatever_had_traffic() -> None:
    """A reload ends it for two nodes together: neither has been in use by right."""
    manual = {"failback": Failback.MANUAL}
    story = Story(tcp_node("a", priority=1, enabled=False), tcp_node("b", probe=ProbeKind.NONE), **manual)
    assert (RouteMode.FAIL_OPEN, "b") == (story.refused(B, 3).route().mode, story.active())
    new = tcp_node("b", probe=ProbeKind.NONE, tcp=Address("new.example", 80))

    assert ("a", "b") == (story.reload(tcp_node("a", priority=1), new, **manual).active(), story.standbys())
