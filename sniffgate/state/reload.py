"""What a new configuration does to the state: what survives, what starts anew, which wishes lapse."""

from collections.abc import Mapping
from typing import NamedTuple

import attrs

from ..config.schema import Config, Endpoint, NodeConfig, RouteKey
from .health import Moment, flip
from .model import Cause, Health, Override, Route, RouteMode, State, Verdict
from .verdict import NO_OVERRIDE


def first_health(config: Config) -> Mapping[Endpoint, Health]:
    """Every endpoint of a configuration, unknown."""
    return {endpoint: Health() for endpoint in config.endpoints}


def apply_config(state: State, config: Config, when: Moment) -> State:
    """The state under `config`, routes not made yet and void pins not released yet.

    Health survives unless the endpoint's address changed; then it starts unknown. Nodes that are new, readdressed,
    moved to another pool or raised above the tier in use join when healthy. A disable, drain or switch survives unless
    the node's own `enabled` changed; a mark survives unless the node changed at all.
    """
    if config == state.config:
        return state
    tiers = {key: _tier_in_use(state, config, route) for key, route in state.routes.items()}
    shifted = {key for key, tier in tiers.items() if tier is not None and tier.then != tier.now}
    newcomer = Health(since=when.now, changed_wall_ms=when.wall_ms, joining=True)  # one value for however many
    health = {}
    for key in config.route_keys:
        tier, is_shifted = tiers.get(key), key in shifted
        for node, endpoint, _ in config.members(key):
            before = state.config.node(endpoint.node)
            if before is None:
                health[endpoint] = newcomer
            elif not is_shifted and (node is before or node == before):
                health[endpoint] = state.health[endpoint]
            else:
                raised = _is_raised(state, before, node, key, tier)
                health[endpoint] = _health_after(state, before, node, endpoint, config, when, newcomer, raised=raised)
    overrides = {
        name: after for name, wish in state.overrides.items() if (after := _wish_after(state, name, wish, config))
    }
    return attrs.evolve(state, config=config, health=health, overrides=overrides)


class _Tier(NamedTuple):
    """The priority that a route used, by the old configuration and by the new one."""

    then: int
    now: int


def _tier_in_use(state: State, config: Config, route: Route) -> _Tier | None:
    if route.mode is not RouteMode.NORMAL:
        return None
    before = [node.priority for name in route.active if (node := state.config.node(name))]
    after = [node.priority for name in route.active if (node := config.node(name))]
    return _Tier(max(before), max(after)) if after else None


def _is_raised(state: State, before: NodeConfig, node: NodeConfig, key: RouteKey, tier: _Tier | None) -> bool:
    """Whether the file put the node above the tier in use, be it by raising the one or by lowering the other."""
    if tier is None or node.name in state.routes[key].active:
        return False
    return node.priority > tier.now and node.priority - tier.now > before.priority - tier.then


def _health_after(
    state: State,
    before: NodeConfig,
    node: NodeConfig,
    endpoint: Endpoint,
    config: Config,
    when: Moment,
    newcomer: Health,
    *,
    raised: bool,
) -> Health:
    if before.address(endpoint.transport) != node.address(endpoint.transport):
        return newcomer
    health = state.health[endpoint]
    if raised or before.pool != node.pool:
        health = attrs.evolve(health, joining=True)
    if not node.is_probed and health.verdict is Verdict.UNHEALTHY and not health.is_ejected:
        # nobody would ever find it healthy again: it stays out like an ejected one, and then may prove itself
        return attrs.evolve(health, ejected_until=when.now + config.globals.eject_time)
    if node.is_probed and health.verdict is Verdict.PROBATION:
        return flip(health, Verdict.UNHEALTHY, Cause.TRAFFIC, when)  # from now on its probes decide
    return health


def _wish_after(state: State, name: str, wish: Override, config: Config) -> Override | None:
    before, node = state.config.node(name), config.node(name)
    if before is None or node is None:
        return None
    if node.enabled != before.enabled:
        wish = attrs.evolve(wish, enabled=None, drain=None, drain_at=0.0)
    if node != before:
        wish = attrs.evolve(wish, mark=None)
    return wish if wish != NO_OVERRIDE else None
