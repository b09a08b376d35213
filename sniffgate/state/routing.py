"""From health and wishes to routes: who is active, who stands by, and which member a new flow gets.

`route_for` is level-triggered: it looks at what is and at the route before, and names no effects. `choose` picks a
member of an active set; its counts and cursor live outside the state, because they change with every flow.
"""

from collections.abc import Collection, Mapping

import attrs

from ..config.schema import Failback, NodeConfig, PoolConfig, Strategy
from .model import Endpoint, Route, RouteKey, RouteMode, State, Verdict
from .verdict import healthy_since, is_enabled, is_joining, is_usable, may_join, verdict_of


def candidates(state: State, key: RouteKey) -> list[NodeConfig]:
    """The enabled nodes of a route with an address on its transport, best first: by priority, then by name."""
    nodes = [
        node
        for node in state.config.nodes
        if node.pool == key.pool and node.address(key.transport) is not None and is_enabled(state, node)
    ]
    return sorted(nodes, key=lambda node: (-node.priority, node.name))


def usable_nodes(state: State, key: RouteKey) -> list[NodeConfig]:
    """The candidates that may have new traffic, best first."""
    return [node for node in candidates(state, key) if is_usable(state, node, Endpoint(node.name, key.transport))]


def without_newcomers(state: State, key: RouteKey, usable: list[NodeConfig]) -> list[NodeConfig]:
    """`usable` less those that a reload brought and no probe has found healthy yet, unless nothing else is usable."""
    proven = [node for node in usable if may_join(state, node, Endpoint(node.name, key.transport))]
    return proven or usable


def route_for(state: State, before: Route | None, key: RouteKey, *, released: bool = False) -> Route:
    """The route that follows from `state`, given the one before it.

    `released`: an operator asked for automatic choice, so a better tier need not wait.
    """
    pool = state.config.pool(key.pool)
    usable = usable_nodes(state, key)
    if not usable:
        return _without_usable(state, pool, key)
    pin = state.pins.get(key)
    pinned = [node for node in usable if node.name == pin]
    usable = without_newcomers(state, key, usable)
    tier: int | None = None
    if pinned:
        active = pinned
    elif pool.strategy is Strategy.PRIORITY:
        tier = _tier(state, pool, key, usable, None if released else before)
        active = [node for node in usable if node.priority == tier]
    else:
        active = usable
    chosen = {node.name for node in active}
    return Route(
        key=key,
        mode=RouteMode.NORMAL,
        strategy=pool.strategy,
        active=tuple(node.name for node in active),
        weights=tuple(node.weight for node in active),
        standbys=tuple(node.name for node in usable if node.name not in chosen),
        trial=_trial(state, key),
        pin=pin if pinned else None,
        tier=tier,
    )


def failback_due(state: State, node: NodeConfig, key: RouteKey) -> float:
    """When the tier of a usable `node` may take over from a worse one; inf when only an operator may say so."""
    pool = state.config.pool(key.pool)
    endpoint = Endpoint(node.name, key.transport)
    if is_joining(state, node, endpoint):
        return state.now
    if pool.failback is Failback.MANUAL:
        return float("inf")
    return healthy_since(state, node, endpoint) + pool.failback_delay


def waiting_for_failback(state: State, route: Route) -> list[NodeConfig]:
    """Usable nodes of better tiers than the one in use: they wait for their delay or for an operator."""
    if route.tier is None:
        return []
    usable = without_newcomers(state, route.key, usable_nodes(state, route.key))
    return [node for node in usable if node.priority > route.tier]


def _tier(state: State, pool: PoolConfig, key: RouteKey, usable: list[NodeConfig], before: Route | None) -> int:
    """The priority in use: the best one, unless a better tier than the one in use has to wait."""
    best = usable[0].priority
    if before is None or before.mode is not RouteMode.NORMAL:
        return best
    still = [node.priority for node in usable if node.name in before.active]
    if not still:
        return best
    in_use = max(still)
    ready = [node.priority for node in usable if node.priority > in_use and failback_due(state, node, key) <= state.now]
    return max(ready, default=in_use)


def _without_usable(state: State, pool: PoolConfig, key: RouteKey) -> Route:
    nodes = candidates(state, key)
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
    for node in candidates(state, key):
        if verdict_of(state, node, Endpoint(node.name, key.transport)) is Verdict.PROBATION:
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
