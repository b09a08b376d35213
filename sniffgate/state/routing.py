"""From health and wishes to routes: who is active, who stands by, and which member a new flow gets.

`route_for` is level-triggered: it looks at what is and at the route before, and names no effects. `choose` picks a
member of an active set; its counts and cursor live outside the state, because they change with every flow.
"""

from collections.abc import Collection, Mapping
from itertools import takewhile
from typing import assert_never

import attrs

from ..config.schema import Failback, Member, PoolConfig, Strategy
from .model import Mark, Route, RouteKey, RouteMode, State, Verdict
from .verdict import healthy_since, is_enabled, is_joining, may_join, may_serve, override_of, verdict_of


def candidates(state: State, key: RouteKey) -> list[Member]:
    """The enabled members of a route, best first: by priority, then by name."""
    return [member for member in state.config.members(key) if is_enabled(state, member.node)]


def usable_members(state: State, key: RouteKey) -> list[Member]:
    """The candidates that may have new traffic, best first."""
    return [member for member in state.config.members(key) if may_serve(state, member)]


def proven_first(state: State, usable: list[Member]) -> tuple[list[Member], list[Member]]:
    """`usable` in two: who may be active now, and newcomers, which a reload brought and no probe has found healthy yet.

    With nobody else usable, newcomers may be active at once.
    """
    joining = {endpoint for endpoint, health in state.health.items() if health.joining}
    if not joining:
        return usable, []
    proven: list[Member] = []
    newcomers: list[Member] = []
    for member in usable:
        is_new = not joining.isdisjoint(member.grounds) and not may_join(state, member.node, member.endpoint)
        (newcomers if is_new else proven).append(member)
    return (proven, newcomers) if proven else (newcomers, [])


def route_for(state: State, before: Route | None, key: RouteKey, *, released: bool = False) -> Route:
    """The route that follows from `state`, given the one before it.

    `released`: an operator asked for automatic choice, so a better tier need not wait.
    """
    pool = state.config.pool(key.pool)
    usable = usable_members(state, key)
    if not usable:
        return _without_usable(state, pool, key)
    pin = state.pins.get(key)
    pinned = [member for member in usable if member.node.name == pin] if pin is not None else []
    usable, newcomers = proven_first(state, usable)
    tier: int | None = None
    if pinned:
        active = pinned
    elif pool.strategy is Strategy.PRIORITY:
        tier = _tier(state, usable, None if released else before)
        active = [member for member in usable if member.node.priority == tier]
    else:
        active = usable
    chosen = {member.node.name for member in active}
    return Route(
        key=key,
        mode=RouteMode.NORMAL,
        strategy=pool.strategy,
        active=tuple([member.node.name for member in active]),
        weights=tuple([member.node.weight for member in active]),
        standbys=tuple([each.node.name for each in usable + newcomers if each.node.name not in chosen]),
        trial=_trial(state, key),
        pin=pin if pinned else None,
        tier=tier,
    )


def failback_due(state: State, member: Member) -> float:
    """When the tier of a usable `member` may take over from a worse one; inf when only an operator may say so.

    Who was brought by a reload does not come back, it comes: there is nothing to wait for. An operator's mark is a
    word, not a recovery: under it nothing has to prove that it lasts.
    """
    pool = state.config.pool(member.node.pool)
    if is_joining(state, member.node, member.endpoint):
        return state.now
    if pool.failback is Failback.MANUAL:
        return float("inf")
    if override_of(state, member.node.name).mark is Mark.UP:
        return state.now
    return healthy_since(state, member.node, member.endpoint) + pool.failback_delay


def waiting_for_failback(state: State, route: Route) -> list[Member]:
    """Usable members of better tiers than the one in use: they wait for their delay or for an operator."""
    if route.tier is None:
        return []
    tier = route.tier
    better = takewhile(lambda member: member.node.priority > tier, state.config.members(route.key))
    return [each for each in better if may_serve(state, each) and may_join(state, each.node, each.endpoint)]


def _tier(state: State, usable: list[Member], before: Route | None) -> int:
    """The priority in use: the best one, unless a better tier than the one in use has to wait."""
    best = usable[0].node.priority
    if before is None or before.mode is not RouteMode.NORMAL:
        return best
    active = set(before.active)
    in_use = next((member.node.priority for member in usable if member.node.name in active), None)
    if in_use is None:
        return best
    better = takewhile(lambda member: member.node.priority > in_use, usable)
    return next((each.node.priority for each in better if failback_due(state, each) <= state.now), in_use)


def _without_usable(state: State, pool: PoolConfig, key: RouteKey) -> Route:
    nodes = [member.node for member in candidates(state, key)]
    if not nodes or not pool.fail_open:
        return Route(key=key, strategy=pool.strategy, trial=_trial(state, key))
    pin = state.pins.get(key)
    nodes.sort(key=lambda node: node.name != pin)  # stable: a pinned node first, then the order as it was
    return Route(
        key=key,
        mode=RouteMode.FAIL_OPEN,
        strategy=pool.strategy,
        active=tuple(node.name for node in nodes),
        weights=tuple(node.weight for node in nodes),
        trial=_trial(state, key),
        pin=pin if any(node.name == pin for node in nodes) else None,
    )


def _trial(state: State, key: RouteKey) -> str | None:
    for node, endpoint, _ in state.config.members(key):
        if (
            state.health[endpoint].verdict is Verdict.PROBATION
            and verdict_of(state, node, endpoint) is Verdict.PROBATION
            and is_enabled(state, node)
        ):
            return node.name
    return None


# --- which member a new flow gets -----------------------------------------------------------------


@attrs.frozen
class Cursor:
    """Where the rotation of a route stands. It outlives changes of the active set, so that they favour no member."""

    last: str = ""
    credits: Mapping[str, int] = attrs.field(factory=dict)


def choose(
    route: Route, counts: Mapping[str, int], cursor: Cursor, tried: Collection[str] = ()
) -> tuple[str | None, Cursor]:
    """The node for a new flow and the cursor after it; None when every node of the route has been tried.

    `counts` holds the flows in progress per node. A retry passes what it tried; then the rest of the active set comes
    before the standbys. `priority`: fewest flows first, then name. `weighted`: smooth weighted round-robin (as nginx
    does it).
    """
    free = [name for name in route.active if name not in tried]
    if not free:
        return next((name for name in route.standbys if name not in tried), None), cursor
    if route.mode is RouteMode.FAIL_OPEN or len(free) == 1:
        return free[0], cursor
    match route.strategy:
        case Strategy.PRIORITY:
            return min(free, key=lambda name: (counts.get(name, 0), name)), cursor
        case Strategy.ROUND_ROBIN:
            following = sorted(free)
            name = next((name for name in following if name > cursor.last), following[0])
            return name, Cursor(last=name)
        case Strategy.WEIGHTED:
            return _smooth(route, free, cursor)
        case _:
            assert_never(route.strategy)


def _smooth(route: Route, free: list[str], cursor: Cursor) -> tuple[str, Cursor]:
    weights = {name: weight for name, weight in zip(route.active, route.weights, strict=True) if name in free}
    if not any(weights.values()):
        weights = dict.fromkeys(weights, 1)
    weights = {name: weight for name, weight in weights.items() if weight}
    credits = {name: credit for name, credit in cursor.credits.items() if name in route.active}
    for name, weight in weights.items():
        credits[name] = credits.get(name, 0) + weight
    chosen = max(sorted(weights), key=lambda name: credits[name])
    credits[chosen] -= sum(weights.values())
    return chosen, Cursor(last=chosen, credits=credits)
