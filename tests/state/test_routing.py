"""From health and wishes to active sets."""

from sniffgate.config.schema import Failback, ProbeKind, Strategy
from sniffgate.state.model import RouteMode, Verdict
from sniffgate.state.reducer import next_wakeup
from sniffgate.state.verdict import wants_probe
from tests.state.build import UDP, Story, both_node, tcp, tcp_node, udp, udp_node

A, B, C = tcp("a"), tcp("b"), tcp("c")
NEVER = float("inf")


def test_the_best_usable_tier_is_active_and_the_rest_stand_by_in_order() -> None:
    """Retries and hedges take the standbys as they come."""
    story = Story(tcp_node("d"), tcp_node("c", priority=1), tcp_node("b", priority=1), tcp_node("a"))

    assert ("bc", "ad") == (story.active(), story.standbys())


def test_failover_and_rejoining_the_same_tier_are_immediate() -> None:
    """Failback delay is for tiers."""
    story = Story(tcp_node("a"), tcp_node("b"), failback=Failback.MANUAL).bad(A, 3)
    assert "b" == story.active()

    assert "ab" == story.good(A, 2).active()


def test_a_recovered_better_tier_takes_over_at_once_without_a_delay() -> None:
    """The default."""
    story = Story(tcp_node("a", priority=1), tcp_node("b")).bad(A, 3)
    assert "b" == story.active()

    assert "a" == story.good(A, 2).active()


def test_a_recovered_better_tier_takes_over_after_being_healthy_for_the_delay() -> None:
    """A flapping node must not drag all traffic to and fro."""
    story = Story(tcp_node("a", priority=1), tcp_node("b"), failback_delay=30.0).bad(A, 3).at(10.0).good(A, 2)
    assert 40.0 == next_wakeup(story.state)
    assert "b" == story.at(39.0).active()

    assert "a" == story.at(40.0).active()
    assert NEVER == next_wakeup(story.state)


def test_a_relapse_starts_the_delay_anew() -> None:
    """Healthy that long means without a break."""
    story = Story(tcp_node("a", priority=1), tcp_node("b"), failback_delay=30.0).bad(A, 3).at(10.0).good(A, 2)
    story.at(20.0).bad(A, 3).at(25.0).good(A, 2)

    assert 55.0 == next_wakeup(story.state)


def test_under_manual_failback_only_an_operator_brings_the_better_tier_back() -> None:
    """Some prefer one interruption to two."""
    story = Story(tcp_node("a", priority=1), tcp_node("b"), failback=Failback.MANUAL).bad(A, 3).good(A, 2)
    assert ("b", NEVER) == (story.at(9999.0).active(), next_wakeup(story.state))

    assert "a" == story.auto().active()


def test_under_manual_failback_a_dead_tier_still_fails_over_to_the_best() -> None:
    """Manual is about coming back, not about getting away."""
    story = Story(tcp_node("a", priority=2), tcp_node("b", priority=1), tcp_node("c"), failback=Failback.MANUAL)
    story.bad(A, 3).bad(B, 3)
    assert "c" == story.active()

    assert "a" == story.good(B, 2).good(A, 2).bad(C, 3).active()


def test_the_best_of_several_ready_tiers_takes_over() -> None:
    """One move, not two."""
    story = Story(tcp_node("a", priority=2), tcp_node("b", priority=1), tcp_node("c"), failback_delay=1.0)
    story.bad(A, 3).bad(B, 3).good(B, 2).good(A, 2)

    assert "a" == story.at(1.0).active()


def test_nothing_usable_fails_open_to_all_candidates_in_order() -> None:
    """A wrong probe must not end all service."""
    story = Story(tcp_node("a"), tcp_node("b", priority=1), tcp_node("c", enabled=False)).bad(A, 3).bad(B, 3)

    assert (RouteMode.FAIL_OPEN, "ba", "") == (story.route().mode, story.active(), story.standbys())


def test_nothing_usable_closes_the_route_where_fail_open_is_off() -> None:
    """Some would rather refuse."""
    story = Story(tcp_node("a"), fail_open=False).bad(A, 3)

    assert (RouteMode.CLOSED, "") == (story.route().mode, story.active())


def test_whoever_recovers_first_from_fail_open_is_active_and_its_betters_are_failback() -> None:
    """The first good one is worth more than order."""
    story = Story(tcp_node("a", priority=1), tcp_node("b"), failback_delay=5.0).bad(A, 3).bad(B, 3).at(1.0)
    assert "b" == story.good(B, 2).active()

    assert "b" == story.at(2.0).good(A, 2).active()
    assert "a" == story.at(7.0).active()


def test_round_robin_and_weighted_use_whatever_is_usable() -> None:
    """Priorities are for the other strategy."""
    for strategy in (Strategy.ROUND_ROBIN, Strategy.WEIGHTED):
        story = Story(tcp_node("a", priority=9), tcp_node("b", weight=0), tcp_node("c"), strategy=strategy).bad(C, 3)
        assert ("ab", (1, 0), None) == (story.active(), story.route().weights, story.route().tier)


def test_a_node_without_the_address_is_no_candidate() -> None:
    """Each transport has its own route."""
    story = Story(tcp_node("a"), udp_node("b"))

    assert ("a", "b") == (story.active(), story.active(UDP))


def test_together_a_node_is_usable_only_if_both_its_endpoints_are() -> None:
    """Protocols that use both need the same machine."""
    story = Story(both_node("a", priority=1), both_node("b"), move_together=True).refused(udp("a"), 3)

    assert ("b", "b") == (story.active(), story.active(UDP))


def test_together_both_transports_fail_back_at_the_same_time() -> None:
    """The delay counts from the later of the two."""
    story = Story(both_node("a", priority=1), both_node("b"), move_together=True, failback_delay=10.0)
    story.refused(udp("a"), 3).bad(A, 3).at(2.0).good(A, 2).at(5.0).good(udp("a"), 2)
    assert ("b", "b") == (story.at(14.0).active(), story.active(UDP))

    assert ("a", "a") == (story.at(15.0).active(), story.active(UDP))


def test_the_best_endpoint_on_probation_is_on_trial() -> None:
    """One at a time, best first; not one that the operator has taken away."""
    nodes = [tcp_node(name, probe=ProbeKind.NONE) for name in "abc"]
    story = Story(*nodes).refused(A, 3).refused(B, 3).at(1.0)
    assert "a" == story.route().trial

    assert "b" == story.disable("a").route().trial


def test_a_follower_is_probed_only_while_it_is_in_doubt() -> None:
    """A stray byte every second annoys VPN, SIP and game servers."""
    node = both_node("a")
    story = Story(node)

    def wanted() -> bool:
        return wants_probe(node, udp("a"), story.health(udp("a")))

    assert not wanted()
    story.tripped(udp("a"))
    assert wanted()
    story.silent(udp("a"))
    assert not wanted()
    story.bad(udp("a"))
    assert wanted()
    story.bad(udp("a"), 2)
    assert Verdict.UNHEALTHY is story.verdict(udp("a"))
    assert wanted()


def test_who_speaks_is_probed_and_who_is_spoken_for_is_not() -> None:
    """Its probes would count for nothing."""
    health = Story(both_node("a")).health(A)

    assert wants_probe(both_node("a"), A, health)
    assert wants_probe(both_node("a", probe=ProbeKind.UDP), udp("a"), health)
    assert not wants_probe(both_node("a", probe=ProbeKind.UDP), A, health)
    assert not wants_probe(both_node("a", probe=ProbeKind.NONE), A, health)
