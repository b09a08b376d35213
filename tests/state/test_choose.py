"""Which member of an active set a new flow gets."""

from collections import Counter

import attrs

from sniffgate.config.schema import Strategy
from sniffgate.state.model import Route, RouteKey, RouteMode
from sniffgate.state.routing import Cursor, choose
from tests.state.build import TCP


def route(strategy: Strategy, active: str, weights: tuple[int, ...] = (), standbys: str = "") -> Route:
    return Route(
        key=RouteKey("default", TCP),
        mode=RouteMode.NORMAL,
        strategy=strategy,
        active=tuple(active),
        weights=weights or (1,) * len(active),
        standbys=tuple(standbys),
    )


def chosen(of: Route, times: int, cursor: Cursor | None = None) -> str:
    """The names in the order they are chosen."""
    names, cursor = "", cursor or Cursor()
    for _ in range(times):
        name, cursor = choose(of, {}, cursor)
        names += name or "-"
    return names


def test_priority_takes_the_one_with_the_fewest_flows_then_by_name() -> None:
    """Equals share the load."""
    equals = route(Strategy.PRIORITY, "abc")

    assert "b" == choose(equals, {"a": 2, "b": 1, "c": 1}, Cursor())[0]
    assert "a" == choose(equals, {}, Cursor())[0]


def test_round_robin_goes_round() -> None:
    """By name, and from the start again."""
    assert "abcabc" == chosen(route(Strategy.ROUND_ROBIN, "cab"), 6)


def test_round_robin_goes_on_where_it_was_when_the_set_changes() -> None:
    """Otherwise each change would favour the first name."""
    _, cursor = choose(route(Strategy.ROUND_ROBIN, "abc"), {}, Cursor(last="a"))

    assert "ca" == chosen(route(Strategy.ROUND_ROBIN, "abc"), 2, cursor)


def test_weighted_is_exact_and_smooth() -> None:
    """Five to one means no five in a row where it can be helped (nginx's order)."""
    assert "aabacaa" == chosen(route(Strategy.WEIGHTED, "abc", (5, 1, 1)), 7)


def test_weight_zero_gets_new_traffic_only_if_all_are_zero() -> None:
    """It is the usual way to take a node out gently."""
    assert {"a": 6} == Counter(chosen(route(Strategy.WEIGHTED, "abc", (2, 0, 0)), 6))
    assert {"a": 2, "b": 2} == Counter(chosen(route(Strategy.WEIGHTED, "ab", (0, 0)), 4))


def test_a_retry_takes_the_rest_of_the_active_set_then_the_standbys_then_gives_up() -> None:
    """No node is tried twice."""
    standing = route(Strategy.PRIORITY, "ab", standbys="cd")

    assert ["b", "c", "d", None] == [choose(standing, {}, Cursor(), tried)[0] for tried in ("a", "ab", "abc", "abcd")]


def test_under_fail_open_the_order_decides() -> None:
    """Sharing among broken nodes helps nobody."""
    broken = attrs.evolve(route(Strategy.ROUND_ROBIN, "ba"), mode=RouteMode.FAIL_OPEN)

    assert "bbb" == chosen(broken, 3)
