"""A better tier takes over once one of its nodes has been healthy for the delay: not sooner, and not later."""

from collections.abc import Iterator

from ..config.schema import Endpoint, Failback, Member, RouteKey, Strategy
from ..state.events import ConfigApplied, Event, OperatorEvent
from ..state.model import Mark, Route, RouteMode, State
from ..state.verdict import is_joining, may_join, may_serve, override_of
from .reach import DUST

NEVER = float("inf")


class FailbackBook:
    """Since when each endpoint has its verdict, and what follows from it for the tiers."""

    def __init__(self) -> None:
        self._changed: dict[Endpoint, float] = {}

    def observe(self, before: State, event: Event, after: State) -> Iterator[str]:
        """Takes note of a new state, and tells which tier took over too soon."""
        if after.health is not before.health:
            for endpoint, now in after.health.items():
                was = before.health.get(endpoint)
                if was is None or was.verdict is not now.verdict:
                    self._changed[endpoint] = after.now
        if after.epoch == before.epoch or isinstance(event, OperatorEvent | ConfigApplied):
            return
        for key, route in after.routes.items():
            old = before.routes.get(key)
            if old is not None and _climbs(old, route) and self._is_too_soon(before, after, key, old, route):
                yield f"{key} went back to {', '.join(route.active)}, and nobody there was healthy for long enough"

    def overdue(self, state: State, now: float) -> Iterator[str]:
        """Tells which tier should have taken over."""
        for key, route in state.routes.items():
            if route.tier is None or route.mode is not RouteMode.NORMAL:
                continue
            for member in state.config.members(key):
                if member.node.priority <= route.tier or not may_serve(state, member):
                    continue
                ready = may_join(state, member.node, member.endpoint)
                if ready and self._due(state, member) < now - DUST:
                    yield f"{key} is still at {', '.join(route.active)}, and {member.endpoint} should be back"

    def _is_too_soon(self, before: State, after: State, key: RouteKey, old: Route, route: Route) -> bool:
        members = after.config.members(key)
        if not any(each.node.name in old.active and may_serve(after, each) for each in members):
            return False  # the tier that was in use has fallen: there is nothing to go back from
        tier = [each for each in members if each.node.priority == route.tier and may_serve(after, each)]
        joins = any(is_joining(before, each.node, each.endpoint) for each in tier)
        return not joins and all(self._due(after, each) > after.now + DUST for each in tier)

    def _due(self, state: State, member: Member) -> float:
        """When the member's tier may take over."""
        pool = state.config.pool(member.node.pool)
        if override_of(state, member.node.name).mark is Mark.UP and pool.failback is Failback.AUTO:
            return 0.0
        if pool.failback is Failback.MANUAL:
            return NEVER
        return max(self._changed.get(each, 0.0) for each in member.grounds) + pool.failback_delay


def _climbs(old: Route, route: Route) -> bool:
    """Whether a route moved to a better tier by itself."""
    if old.mode is not RouteMode.NORMAL or route.mode is not RouteMode.NORMAL:
        return False
    is_plain = old.pin is None and route.pin is None and route.strategy is Strategy.PRIORITY
    return is_plain and old.tier is not None and route.tier is not None and route.tier > old.tier
