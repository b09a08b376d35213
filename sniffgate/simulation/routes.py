"""What must be true of every routing table, whatever led to it."""

from collections.abc import Iterator

from ..config.schema import Strategy
from ..state.model import Mark, RouteMode, State, Verdict
from ..state.verdict import override_of


def wrong_routes(state: State) -> Iterator[str]:
    """One tier per route, and nobody unusable in use except under fail-open or an operator's mark."""
    for key, route in state.routes.items():
        members = {member.node.name: member for member in state.config.members(key)}
        if set(route.active) - members.keys():
            yield f"{key}: {route.active} are not all members"
        if route.mode is not RouteMode.NORMAL:
            continue
        if (pin := state.pins.get(key)) is not None and route.active != (pin,):
            yield f"{key}: {pin} is pinned, and {route.active} in use"
        tiers = {members[name].node.priority for name in route.active if name in members}
        if route.strategy is Strategy.PRIORITY and len(tiers) > 1:
            yield f"{key}: {route.active} are of several tiers"
        for name in route.active:
            wish = override_of(state, name)
            bad = state.health[members[name].endpoint].verdict in (Verdict.UNHEALTHY, Verdict.PROBATION)
            if wish.mark is Mark.DOWN or (bad and wish.mark is not Mark.UP):
                yield f"{key}: {name} is in use and not usable"
