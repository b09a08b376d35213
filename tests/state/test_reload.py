"""What a new configuration changes, and what survives it."""

import attrs

from sniffgate.address import Address
from sniffgate.config.schema import Config, Failback, ListenerConfig, ProbeKind, Strategy
from sniffgate.state.model import Mark, RouteKey, Verdict
from sniffgate.state.reducer import initial_state, next_wakeup
from tests.state.build import TCP, UDP, Story, both_node, config_of, pool_named, tcp, tcp_node, udp, udp_node

A, B = tcp("a"), tcp("b")


def test_an_equal_configuration_changes_nothing() -> None:
    """A file that was only touched is no reload."""
    story = Story(tcp_node("a"))
    before = story.state

    assert story.reload(tcp_node("a")).state is before


def test_health_survives() -> None:
    """A comment in the file must not cost a failover."""
    story = Story(tcp_node("a"), tcp_node("b")).bad(A, 3)
    health = story.health(A)
    story.at(5.0).reload(tcp_node("a", remark="old"), tcp_node("b"))

    assert (health, "b") == (story.health(A), story.active())


def test_a_readdressed_endpoint_starts_unknown_and_joins_when_healthy() -> None:
    """It is another machine, and nobody has looked at it."""
    story = Story(tcp_node("a", priority=1), tcp_node("b")).good(A, 2).good(B, 2)
    story.reload(tcp_node("a", priority=1, tcp=Address("new.example", 80)), tcp_node("b"))
    assert (Verdict.UNKNOWN, "b", "a") == (story.verdict(A), story.active(), story.standbys())

    assert "a" == story.good(A, 2).active()


def test_added_and_raised_nodes_are_no_failback() -> None:
    """Whoever edits the file wants it to happen."""
    manual = {"failback": Failback.MANUAL}
    story = Story(tcp_node("b"), tcp_node("c", priority=-1), **manual).good(B, 2).good(tcp("c"), 2)

    story.reload(tcp_node("a", priority=1), tcp_node("b"), tcp_node("c", priority=-1), **manual)
    assert "b" == story.active()
    assert "a" == story.good(A, 2).active()
    assert "c" == story.reload(tcp_node("a"), tcp_node("c", priority=3), **manual).active()


def test_lowering_the_tier_in_use_raises_the_others() -> None:
    """It is the same wish, written in another line."""
    manual = {"failback": Failback.MANUAL}
    story = Story(tcp_node("a", priority=9), tcp_node("b", priority=5), **manual).good(A, 2).good(B, 2)

    assert "b" == story.reload(tcp_node("a"), tcp_node("b", priority=5), **manual).active()


def test_raising_the_node_in_use_does_not_put_it_on_hold() -> None:
    """It has the traffic already."""
    story = Story(tcp_node("a", priority=1), tcp_node("b")).good(B, 2)

    assert "a" == story.reload(tcp_node("a", priority=2), tcp_node("b")).active()


def test_a_recovered_tier_that_waits_goes_on_waiting() -> None:
    """`healthy since` survives, and so does the operator's say."""
    nodes = tcp_node("a", priority=1), tcp_node("b")
    story = Story(*nodes, failback_delay=30.0).bad(A, 3).at(10.0).good(A, 2).at(20.0)
    story.reload(*nodes, tcp_node("z"), failback_delay=30.0)

    assert 40.0 == next_wakeup(story.state)


def test_newcomers_are_active_at_once_if_nothing_else_is_usable() -> None:
    """And are not displaced when the first of them is found healthy."""
    story = Story(tcp_node("z")).reload(tcp_node("a", priority=1), tcp_node("b"))
    assert "a" == story.active()

    assert "a" == story.good(B, 2).active()


def test_unprobed_newcomers_join_at_once() -> None:
    """Nobody would ever find them healthy."""
    story = Story(tcp_node("b")).good(B, 2).reload(tcp_node("a", probe=ProbeKind.NONE, priority=1), tcp_node("b"))

    assert "a" == story.active()


def test_together_a_newcomer_waits_for_both_its_transports() -> None:
    """Half a node is none."""
    together = {"move_together": True, "failback": Failback.MANUAL}
    new = both_node("a", priority=1, udp=Address("new.example", 53), udp_probe_payload=b"ping")
    story = Story(both_node("a", priority=1, udp_probe_payload=b"ping"), both_node("b"), **together)
    for endpoint in (A, udp("a"), B, udp("b")):
        story.good(endpoint, 2)
    story.reload(new, both_node("b"), **together)
    assert ("b", "b") == (story.active(), story.active(UDP))

    assert ("a", "a") == (story.good(udp("a"), 2).active(), story.active(UDP))


def test_a_node_moved_to_another_pool_keeps_its_health_and_is_no_failback_there() -> None:
    """The machine is the same."""
    other = pool_named("other", failback=Failback.MANUAL)
    story = Story(tcp_node("a")).good(A, 2)
    story.apply(Config(nodes=(tcp_node("a"), tcp_node("c", pool="other")), pools=(other,)))
    story.good(tcp("c"), 2).apply(
        Config(nodes=(tcp_node("a", pool="other", priority=1), tcp_node("c", pool="other")), pools=(other,))
    )

    assert (Verdict.HEALTHY, "a") == (story.verdict(A), story.active(pool="other"))


def test_a_node_that_is_gone_takes_health_pins_and_wishes_with_it() -> None:
    """A new node of that name is another node."""
    story = Story(tcp_node("a"), tcp_node("b")).switch("a").disable("b").reload(tcp_node("c"))

    assert ({}, {}, [tcp("c")]) == (story.state.pins, story.state.overrides, list(story.state.health))


def test_a_node_that_lost_a_transport_lost_its_pin_there() -> None:
    """It is a removed endpoint; together, the other pin goes with it."""
    story = Story(both_node("a"), both_node("b")).switch("a").reload(udp_node("a"), both_node("b"))
    assert {RouteKey("default", UDP): "a"} == story.state.pins

    together = Story(both_node("a"), both_node("b"), move_together=True).switch("a")
    assert {} == together.reload(udp_node("a"), both_node("b"), move_together=True).state.pins


def test_a_reload_to_nothing_ends_routes_and_pins() -> None:
    """Nothing is left to be right about."""
    story = Story(tcp_node("a")).switch("a").reload()

    assert ({}, {}) == (story.state.routes, story.state.pins)


def test_wishes_survive_reloads_that_do_not_touch_the_nodes_own_enabled() -> None:
    """A night's maintenance must not end by somebody's comment."""
    story = Story(tcp_node("a"), tcp_node("b")).disable("a").reload(tcp_node("a", weight=5), tcp_node("b"))
    assert "b" == story.active()

    story.reload(tcp_node("a", enabled=False), tcp_node("b")).reload(tcp_node("a"), tcp_node("b"))
    assert "ab" == story.active()


def test_a_mark_holds_until_a_reload_changes_the_node() -> None:
    """It was a word about that node as it was."""
    story = Story(tcp_node("a"), tcp_node("b")).mark("a", Mark.DOWN).reload(tcp_node("a"), tcp_node("b", weight=2))
    assert "b" == story.active()

    assert "ab" == story.reload(tcp_node("a", weight=2), tcp_node("b", weight=2)).active()


def test_a_reload_while_nothing_is_usable_changes_the_order_only() -> None:
    """There is no tier in use to be raised above."""
    story = Story(tcp_node("a"), tcp_node("b")).bad(A, 3).bad(B, 3).reload(tcp_node("a"), tcp_node("b", priority=1))

    assert "ba" == story.active()


def test_raising_everything_alike_raises_nobody() -> None:
    """Who waited for failback still waits."""
    manual = {"failback": Failback.MANUAL}
    story = Story(tcp_node("a", priority=1), tcp_node("b"), **manual).bad(A, 3).good(A, 2)

    assert "b" == story.reload(tcp_node("a", priority=6), tcp_node("b", priority=5), **manual).active()


def test_an_unhealthy_node_that_is_probed_no_more_may_prove_itself() -> None:
    """Nobody would ever find it healthy again."""
    story = Story(tcp_node("a"), tcp_node("b")).bad(A, 3).at(5.0)
    story.reload(tcp_node("a", probe=ProbeKind.NONE), tcp_node("b"))
    assert 6.0 == next_wakeup(story.state)

    assert "a" == story.at(6.0).route().trial


def test_a_node_on_probation_that_is_probed_now_is_left_to_its_probes() -> None:
    """They know better than one flow."""
    story = Story(tcp_node("a", probe=ProbeKind.NONE), tcp_node("b")).refused(A, 3).at(2.0)
    story.reload(tcp_node("a"), tcp_node("b"))
    assert (Verdict.UNHEALTHY, 2.0) == (story.verdict(A), story.health(A).since)

    assert Verdict.HEALTHY is story.good(A, 2).verdict(A)


def test_a_lower_threshold_ends_an_ejection_that_only_waited_for_probes() -> None:
    """The streak it has is the streak it needs."""
    story = Story(tcp_node("a"), tcp_node("b"), success_threshold=3).refused(A, 3).good(A, 2).at(5.0)

    assert Verdict.HEALTHY is story.reload(tcp_node("a"), tcp_node("b"), success_threshold=2).verdict(A)


def test_another_strategy_takes_effect_at_once() -> None:
    """Routes are made from what is, not from what was."""
    story = Story(tcp_node("a", priority=1), tcp_node("b"))

    assert "ab" == story.reload(tcp_node("a", priority=1), tcp_node("b"), strategy=Strategy.ROUND_ROBIN).active()


def test_other_listeners_are_another_table() -> None:
    """The tasks that hold sockets wait for the epoch."""
    listener = ListenerConfig(name="in", protocol=TCP, listen=Address("127.0.0.1", 1))
    story = Story(tcp_node("a"))
    epoch = story.state.epoch
    story.apply(config_of(tcp_node("a"), listeners=(listener,)))
    assert epoch + 1 == story.state.epoch

    story.apply(attrs.evolve(story.state.config, globals=attrs.evolve(story.state.config.globals, log_level="debug")))
    assert epoch + 1 == story.state.epoch


def test_a_listener_alone_makes_a_route_without_anybody() -> None:
    """It has to say that it is closed."""
    listener = ListenerConfig(name="in", protocol=UDP, listen=Address("127.0.0.1", 1))
    state = initial_state(config_of(listeners=(listener,)))

    assert () == state.routes[RouteKey("default", UDP)].active
