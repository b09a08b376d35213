"""What a new configuration does to the state: what survives, what starts anew, which wishes lapse."""

from collections.abc import Mapping

import attrs

from ..config.schema import Config, NodeConfig, Transport
from .health import Moment
from .model import Endpoint, Health, Override, RouteKey, State, Verdict
from .verdict import NO_OVERRIDE, is_enabled


def route_keys(config: Config) -> tuple[RouteKey, ...]:
    """Every route of a configuration: a pool and a transport that a node or a listener gives it."""
    used = {RouteKey(listener.pool, listener.protocol) for listener in config.listeners}
    used |= {RouteKey(node.pool, transport) for node in config.nodes for transport in node.transports}
    return tuple(sorted(used, key=str))


def first_health(config: Config) -> Mapping[Endpoint, Health]:
    """Every endpoint of a configuration, unknown."""
    return {Endpoint(node.name, transport): Health() for node in config.nodes for transport in node.transports}


def apply_config(state: State, config: Config, when: Moment) -> State:
    """The state under `config`, routes not made yet.

    Health survives unless the endpoint's address changed; then it starts unknown. Nodes that are new, readdressed or
    raised join when healthy. A disable, drain or switch survives unless the node's own `enabled` changed; a mark
    survives unless the node changed at all.
    """
    if config == state.config:
        return state
    health = {
        Endpoint(node.name, transport): _health_after(state, node, transport, config, when)
        for node in config.nodes
        for transport in node.transports
    }
    overrides = {
        name: after for name, wish in state.overrides.items() if (after := _wish_after(state, name, wish, config))
    }
    moved = attrs.evolve(state, config=config, health=health, overrides=overrides)
    return attrs.evolve(moved, pins={key: name for key, name in state.pins.items() if _pin_holds(moved, key, name)})


def _health_after(state: State, node: NodeConfig, transport: Transport, config: Config, when: Moment) -> Health:
    before = state.config.node(node.name)
    if before is None or before.address(transport) != node.address(transport) or before.pool != node.pool:
        return Health(since=when.now, changed_wall_ms=when.wall_ms, joining=True)
    health = state.health[Endpoint(node.name, transport)]
    if node.priority > before.priority:
        health = attrs.evolve(health, joining=True)
    if not node.is_probed and health.verdict is Verdict.UNHEALTHY and not health.is_ejected:
        # nobody would ever find it healthy again: it stays out like an ejected one, and then may prove itself
        return attrs.evolve(health, ejected_until=when.now + config.globals.eject_time)
    if node.is_probed and health.verdict is Verdict.PROBATION:
        return attrs.evolve(health, verdict=Verdict.UNHEALTHY)  # from now on its probes decide
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


def _pin_holds(state: State, key: RouteKey, name: str) -> bool:
    node = state.config.node(name)
    return (
        node is not None
        and node.pool == key.pool
        and node.address(key.transport) is not None
        and is_enabled(state, node)
    )
