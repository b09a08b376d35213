"""Routes as whole values: every field of each kind of route, and the cursor of a rotation to the last credit."""

from typing import Any

import attrs
import pytest

from sniffgate.config.schema import Failback, ProbeKind, RouteKey, Strategy
from sniffgate.state.model import Mark, Route, RouteMode
from sniffgate.state.routing import Cursor, choose, route_for
from tests.state.build import TCP, Story, both_node, tcp, tcp_node

KEY = RouteKey("default", TCP)
A, B, C = (tcp_node(name, priority=priority, weight=weight) for name, priority, weight in
           (("a", 2, 5), ("b", 1, 3), ("c", 1, 1)))  # fmt: skip
FAST = {"failure_threshold": 1, "success_threshold": 1}


def test_a_route_of_tiers() -> None:
    """The best tier is active, the others stand by, best first."""
    story = Story(A, B, C, **FAST)
    expected = Route(key=KEY, mode=RouteMode.NORMAL, active=("a",), weights=(5,), standbys=("b", "c"), tier=2)

    assert expected == story.route()
    assert attrs.evolve(expected, active=("b", "c"), weights=(3, 1), standbys=(), tier=1) == story.bad(tcp("a")).route()


@pytest.mark.parametrize("strategy", [Strategy.ROUND_ROBIN, Strategy.WEIGHTED])
def test_a_route_of_all(strategy: Strategy) -> None:
    """Everybody usable is active, and there is no tier."""
    story = Story(A, B, C, strategy=strategy, **FAST).bad(tcp("b"))

    assert Route(
        key=KEY, mode=RouteMode.NORMAL, strategy=strategy, active=("a", "c"), weights=(5, 1)
    ) == story.route()  # fmt: skip


@pytest.mark.parametrize("strategy", list(Strategy))
def test_a_pinned_route(strategy: Strategy) -> None:
    """The pin alone is active and no tier is in use; when it falls, the route is as if there were none."""
    story = Story(A, B, C, strategy=strategy, **FAST).switch("b")
    pinned = Route(key=KEY, mode=RouteMode.NORMAL, strategy=strategy, active=("b",), weights=(3,),
                   standbys=("a", "c"), pin="b")  # fmt: skip

    assert pinned == story.route()
    assert None is story.bad(tcp("b")).route().pin


@pytest.mark.parametrize("strategy", list(Strategy))
def test_a_route_with_nothing_usable(strategy: Strategy) -> None:
    """Open, all of them in their order; closed, none. Who is on probation is told of either way."""
    nodes = (A, B, attrs.evolve(C, probe=ProbeKind.NONE))
    for fail_open in (True, False):
        story = Story(*nodes, strategy=strategy, fail_open=fail_open, eject_time=1.0, **FAST).at(1.0)
        story.bad(tcp("a")).bad(tcp("b")).refused(tcp("c"), times=3)
        bare = Route(key=KEY, strategy=strategy)
        every: dict[str, Any] = {"mode": RouteMode.FAIL_OPEN, "active": ("a", "b", "c"), "weights": (5, 3, 1)}
        expected = attrs.evolve(bare, **every) if fail_open else bare

        assert expected == story.route()
        assert attrs.evolve(expected, trial="c") == story.at(2.0).route()
        assert expected == story.mark("c", Mark.DOWN).route()


def test_a_route_without_any_candidate_is_closed() -> None:
    """There is nobody to fail open to."""
    assert Route(key=KEY) == Story(A).disable("a").route()


def test_a_disabled_node_on_probation_has_no_trial() -> None:
    """The operator wants no traffic there."""
    unprobed = attrs.evolve(A, probe=ProbeKind.NONE)
    story = Story(unprobed, B, eject_time=1.0, **FAST).at(1.0).refused(tcp("a"), times=3).at(2.0)

    assert "a" == story.route().trial
    assert None is story.disable("a").route().trial
    assert "a" == story.enable("a").route().trial
    assert None is story.mark("a", Mark.UP).route().trial


def test_an_automatic_failback_waits_from_the_recovery_and_a_mark_does_not() -> None:
    """The word of an operator is no recovery that has to prove itself."""
    story = Story(A, B, failback_delay=5.0, **FAST).at(1.0).bad(tcp("a")).at(2.0).good(tcp("a"))

    assert "b" == story.at(6.75).active()
    assert "a" == story.at(7.0).active()
    story.at(8.0).bad(tcp("a"))
    assert "b" == story.active()
    assert "a" == story.mark("a", Mark.UP).active()
    manual = Story(A, B, failback=Failback.MANUAL, **FAST).at(1.0).bad(tcp("a")).good(tcp("a")).at(999.0)
    assert "b" == manual.active()
    assert "b" == manual.mark("a", Mark.UP).active()
    assert "a" == manual.auto().active()


def route_of(*active: str, weights: tuple[int, ...] = (), strategy: Strategy = Strategy.WEIGHTED) -> Route:
    return Route(
        key=KEY, mode=RouteMode.NORMAL, strategy=strategy, active=active, weights=weights or (1,) * len(active)
    )


def test_credits_are_exact() -> None:
    """They outlive the table, so an odd one would favour somebody for good."""
    first = choose(route_of("b", "a", weights=(2, 1)), {}, Cursor())
    second = choose(route_of("b", "a", weights=(2, 1)), {}, first[1])

    assert ("b", Cursor(last="b", credits={"b": -1, "a": 1})) == first
    assert ("a", Cursor(last="a", credits={"b": 1, "a": -1})) == second
    assert ("a", Cursor(last="a", credits={"b": 1, "a": -1})) == choose(route_of("b", "a"), {}, Cursor())
    assert ("a", Cursor(last="a", credits={"b": 1, "a": -1})) == choose(
        route_of("b", "a", weights=(0, 0)), {}, Cursor()
    )


def test_a_weight_of_zero_has_no_credit_and_who_left_loses_theirs() -> None:
    """Both come back as strangers."""
    cursor = Cursor(last="x", credits={"x": 9, "a": 2})

    assert ("a", Cursor(last="a", credits={"a": 1, "b": 1})) == choose(
        route_of("a", "b", "c", weights=(1, 1, 0)), {}, cursor
    )
    assert ("b", Cursor(last="b", credits={"a": 2, "b": -1, "c": 1})) == choose(
        route_of("a", "b", "c", weights=(1, 1, 1)), {}, cursor, tried=["a"]
    )


def test_who_is_alone_moves_no_cursor() -> None:
    """A rotation goes on where it was when the others are back."""
    cursor = Cursor(last="a", credits={"a": 1})

    for strategy in Strategy:
        assert ("a", cursor) == choose(route_of("a", strategy=strategy), {}, cursor)
        assert ("b", cursor) == choose(route_of("a", "b", strategy=strategy), {}, cursor, tried=["a"])
    open_to_all = attrs.evolve(route_of("b", "a", strategy=Strategy.ROUND_ROBIN), mode=RouteMode.FAIL_OPEN)
    assert ("b", cursor) == choose(open_to_all, {}, cursor)


def test_who_has_no_flows_yet_has_the_fewest() -> None:
    """A count that is not there is nought."""
    assert "b" == choose(route_of("a", "b", strategy=Strategy.PRIORITY), {"a": 1}, Cursor())[0]
    assert "a" == choose(route_of("b", "a", strategy=Strategy.PRIORITY), {}, Cursor())[0]


def test_a_pin_comes_first_when_nothing_is_usable() -> None:
    """Somebody wanted that node, and no evidence speaks for another."""
    story = Story(A, B, C, **FAST).switch("c").bad(tcp("a")).bad(tcp("b")).bad(tcp("c"))

    assert Route(
        key=KEY, mode=RouteMode.FAIL_OPEN, active=("c", "a", "b"), weights=(1, 5, 3), pin="c"
    ) == story.route()  # fmt: skip
    assert None is Story(A, B, **FAST).bad(tcp("a")).bad(tcp("b")).route().pin


@pytest.mark.parametrize("strategy", list(Strategy))
def test_a_newcomer_stands_by_until_it_is_known(strategy: Strategy) -> None:
    """A reload must not send traffic where nobody has looked yet, while somebody proven is there."""
    story = Story(A, B, strategy=strategy, **FAST).good(tcp("a")).good(tcp("b")).at(1.0)
    story.reload(attrs.evolve(C, priority=9), A, B, strategy=strategy, **FAST)
    proven = ("a",) if strategy is Strategy.PRIORITY else ("a", "b")
    everybody = ("c",) if strategy is Strategy.PRIORITY else ("c", "a", "b")

    assert proven == story.route().active
    assert "c" == story.route().standbys[-1]
    assert everybody == story.at(2.0).good(tcp("c")).route().active


def test_newcomers_alone_serve_at_once() -> None:
    """There is nobody else."""
    story = Story(A, **FAST).at(1.0).reload(B, C, **FAST)

    assert "bc" == story.active()


def test_a_switch_that_an_operator_made_says_so() -> None:
    """Whatever the word was: the log names who did it."""
    story = Story(A, B, **FAST).at(1.0)
    story.switch("b").auto().disable("a").enable("a").drain("a").enable("a").mark("a", Mark.DOWN).mark("a", None)

    assert ["a", *"baba" * 2] == ["".join(each.after) for each in story.state.switches]
    assert {"operator"} == {each.reason.value for each in story.state.switches[1:]}
    assert {""} == {each.detail for each in story.state.switches}


def test_a_pin_on_the_only_node_stays_when_it_falls() -> None:
    """There is nothing else that it could give way to."""
    assert "a" == Story(A, **FAST).switch("a").bad(tcp("a")).route().pin


def test_switches_of_one_moment_stand_in_the_order_of_their_routes() -> None:
    """Two gateways that saw the same must tell the same."""
    story = Story(*(both_node(name, pool=pool) for name, pool in zip("abcdef", "zyxwvu", strict=True)))

    told = [str(each.route) for each in story.state.switches]
    assert 12 == len(told)
    assert sorted(told) == told


def test_a_route_is_made_as_it_is_unless_a_release_is_said() -> None:
    """A better tier that waits for an operator goes on waiting, however often the route is made."""
    story = Story(A, B, failback=Failback.MANUAL, **FAST).bad(tcp("a")).good(tcp("a"))

    assert story.route() == route_for(story.state, story.route(), KEY)
    assert ("a",) == route_for(story.state, story.route(), KEY, released=True).active
