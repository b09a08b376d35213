"""`reduce(state, event) -> state`: the one place where a gateway's state changes.

Pure: no clock, no I/O, no dice. The same events always give the same states. When an event changes nothing, the very
same object comes back and nothing is published.

The life of an event: it is folded into health, wishes or configuration (`_fold`); if that touched what routes are made
from, the routes of the pools concerned are made anew (`_reroute`); what changed decides whether the epoch or only the
revision goes up.
"""

from collections.abc import Mapping
from typing import assert_never

import attrs

from ..config.schema import Config, NodeConfig, Transport
from . import health as rules
from .events import (
    ConfigApplied,
    Event,
    ForwardFailed,
    ForwardSucceeded,
    OperatorDisabled,
    OperatorDrained,
    OperatorEnabled,
    OperatorMarked,
    OperatorReleased,
    OperatorSwitched,
    ProbeFailed,
    ProbeSilent,
    ProbeSucceeded,
    TimePassed,
    TripwireFired,
)
from .health import Moment
from .model import Endpoint, Health, PassiveFailure, RouteKey, State, Verdict
from .reload import apply_config, first_health, route_keys
from .routing import failback_due, route_for, usable_nodes, waiting_for_failback
from .switches import record_switches
from .verdict import NO_OVERRIDE, follows, is_usable, override_of, verdict_of
from .wishes import pins_after_switch, refusal

NEVER = float("inf")


def initial_state(config: Config, *, wall_ms: int = 0) -> State:
    """The state of a gateway that has seen nothing yet: every endpoint unknown, which counts as usable."""
    state = State(config=config, wall_ms=wall_ms, health=first_health(config), pins={}, overrides={}, routes={})
    return _reroute(state, state, TimePassed(at=0.0, wall_ms=wall_ms), route_keys(config))


def reduce(state: State, event: Event) -> State:
    """The state after `event`; `state` itself when nothing changed. An event about an unknown node changes nothing."""
    when = Moment(max(state.now, event.at), event.wall_ms or state.wall_ms)
    folded = _fold(state, event, when)
    if folded is state and not isinstance(event, OperatorReleased | TimePassed):
        return state
    folded = attrs.evolve(folded, now=when.now, wall_ms=when.wall_ms)
    after = _reroute(state, folded, event, _touched(state, folded, event))
    return state if _same(state, after) else after


def next_wakeup(state: State) -> float:
    """When a `TimePassed` would next change the state, in seconds; inf when never."""
    times = [NEVER]
    for endpoint, health in state.health.items():
        if health.ejected_until is not None:
            node = _node_of(state, endpoint)
            due = rules.wakeup(health, state.config.globals, probed=node.is_probed)
            times.append(NEVER if due is None else due)
    for route in state.routes.values():
        times += [failback_due(state, node, route.key) for node in waiting_for_failback(state, route)]
    return min(times)


def forward_success_matters(state: State, endpoint: Endpoint) -> bool:
    """Whether a `ForwardSucceeded` about `endpoint` would change its published health."""
    node, health = state.config.node(endpoint.node), state.health.get(endpoint)
    return node is not None and health is not None and rules.forward_matters(health, probed=node.is_probed)


# --- folding an event -----------------------------------------------------------------------------


def _fold(state: State, event: Event, when: Moment) -> State:
    match event:
        case ProbeSucceeded() | ProbeFailed() | ProbeSilent():
            return _with_health(state, _probe_verdicts(state, event, when))
        case ForwardSucceeded() | ForwardFailed() | TripwireFired():
            return _with_health(state, _traffic_verdict(state, event, when))
        case OperatorSwitched() | OperatorReleased():
            return _with_pins(state, event)
        case OperatorEnabled() | OperatorDisabled() | OperatorDrained() | OperatorMarked():
            return _with_override(state, event, when)
        case ConfigApplied():
            return apply_config(state, event.config, when)
        case TimePassed():
            return _with_health(state, _due(state, when))
        case _:
            assert_never(event)


def _probe_verdicts(
    state: State, event: ProbeSucceeded | ProbeFailed | ProbeSilent, when: Moment
) -> Mapping[Endpoint, Health]:
    """A probe's result, for every endpoint that it speaks for."""
    node = state.config.node(event.endpoint.node)
    if node is None or event.endpoint not in state.health:
        return {}
    after = {}
    for endpoint in spoken_for(node, event.endpoint):
        health = state.health[endpoint]
        match event:
            case ProbeSucceeded():
                after[endpoint] = rules.probe_succeeded(health, state.config.globals, when, event.latency)
            case ProbeFailed():
                after[endpoint] = rules.probe_failed(health, state.config.globals, when, event.error)
            case ProbeSilent():
                health = rules.silent_probe(health, when)
                if _silence_heals(state, node, endpoint):
                    health = rules.good_step(health, state.config.globals, when)
                after[endpoint] = health
    return after


def spoken_for(node: NodeConfig, endpoint: Endpoint) -> tuple[Endpoint, ...]:
    """The endpoints whose health a probe of `endpoint` decides."""
    if node.spokesman is endpoint.transport:
        return tuple(Endpoint(node.name, transport) for transport in node.transports)
    return (endpoint,)


def _silence_heals(state: State, node: NodeConfig, endpoint: Endpoint) -> bool:
    """While unhealthy by refusal, a probe no longer refused is a success, unless the TCP sibling is unhealthy."""
    if state.health[endpoint].verdict is not Verdict.UNHEALTHY:
        return False
    if not follows(node, endpoint):
        return True
    return verdict_of(state, node, endpoint.sibling) is not Verdict.UNHEALTHY


def _traffic_verdict(
    state: State, event: ForwardSucceeded | ForwardFailed | TripwireFired, when: Moment
) -> Mapping[Endpoint, Health]:
    endpoint = event.endpoint
    node, health = state.config.node(endpoint.node), state.health.get(endpoint)
    if node is None or health is None:
        return {}
    match event:
        case ForwardSucceeded():
            return {endpoint: rules.forward_succeeded(health, when, probed=node.is_probed)}
        case TripwireFired():
            return {endpoint: rules.suspect(health, "connection broken by the node")}
        case ForwardFailed():
            return {endpoint: _forward_failed(state, node, health, event, when)}


def _forward_failed(state: State, node: NodeConfig, health: Health, event: ForwardFailed, when: Moment) -> Health:
    settings = state.config.globals
    client: str | None = None
    if event.client_spoke:
        # Garbage from a client makes an honest node reset it: with probes that is suspicion only; without them it
        # counts, once per client, so that one client alone cannot eject a node.
        if node.is_probed or not rules.counts_once(health, settings, when.now, event.client):
            return rules.suspect(health, event.kind.value)
        client = event.client
    failures = (PassiveFailure(when.now, client),) * (1 if client is not None else 1 + event.more)
    return rules.forward_failed(
        health,
        settings,
        when,
        failures,
        event.kind.value,
        probed=node.is_probed,
        is_connect=rules.is_connect_failure(event.kind),
        may_fall=event.kind in rules.CONCLUSIVE or _has_alternative(state, node, event.endpoint),
    )


def _has_alternative(state: State, node: NodeConfig, endpoint: Endpoint) -> bool:
    usable = usable_nodes(state, RouteKey(node.pool, endpoint.transport))
    return any(other.name != node.name for other in usable)


def _due(state: State, when: Moment) -> Mapping[Endpoint, Health]:
    return {
        endpoint: rules.time_passed(health, state.config.globals, when, probed=_node_of(state, endpoint).is_probed)
        for endpoint, health in state.health.items()
        if health.ejected_until is not None
    }


def _with_pins(state: State, event: OperatorSwitched | OperatorReleased) -> State:
    if isinstance(event, OperatorReleased):
        kept = {key: node for key, node in state.pins.items() if event.transport not in (None, key.transport)}
        return state if kept == state.pins else attrs.evolve(state, pins=kept)
    if refusal(state, event) is not None:
        return state
    pins = pins_after_switch(state, event)
    return state if pins == state.pins else attrs.evolve(state, pins=pins)


def _with_override(
    state: State, event: OperatorEnabled | OperatorDisabled | OperatorDrained | OperatorMarked, when: Moment
) -> State:
    if refusal(state, event) is not None:
        return state
    before = override_of(state, event.node)
    match event:
        case OperatorEnabled():
            wish = attrs.evolve(before, enabled=True, drain=None, drain_at=0.0)
        case OperatorDisabled():
            wish = attrs.evolve(before, enabled=False, drain=None, drain_at=0.0)
        case OperatorDrained():
            wish = attrs.evolve(before, enabled=False, drain=event.timeout, drain_at=when.now)
        case OperatorMarked():
            wish = attrs.evolve(before, mark=event.mark)
    if wish == before:
        return state
    overrides = {node: each for node, each in state.overrides.items() if node != event.node}
    if wish != NO_OVERRIDE:
        overrides[event.node] = wish
    return attrs.evolve(state, overrides=overrides)


def _with_health(state: State, after: Mapping[Endpoint, Health]) -> State:
    changed = {endpoint: health for endpoint, health in after.items() if health != state.health[endpoint]}
    return attrs.evolve(state, health={**state.health, **changed}) if changed else state


# --- making routes anew ---------------------------------------------------------------------------


def _touched(before: State, after: State, event: Event) -> tuple[RouteKey, ...]:
    """The routes the fold may have changed: all after a switch, a reload or a timer, else those of one node's pool."""
    match event:
        case ConfigApplied():
            return route_keys(after.config)
        case TimePassed() | OperatorSwitched() | OperatorReleased():
            return tuple(after.routes)
        case OperatorEnabled() | OperatorDisabled() | OperatorDrained() | OperatorMarked():
            name = event.node
        case _:
            name = event.endpoint.node
            if not _verdicts_differ(before, after, name):
                return ()
    pool = _named(after, name).pool
    return tuple(key for key in (RouteKey(pool, transport) for transport in Transport) if key in after.routes)


def _verdicts_differ(before: State, after: State, name: str) -> bool:
    endpoints = [Endpoint(name, transport) for transport in _named(after, name).transports]
    return any(before.health[each].verdict is not after.health[each].verdict for each in endpoints)


def _reroute(before: State, folded: State, event: Event, keys: tuple[RouteKey, ...]) -> State:
    """`folded` with the routes of `keys` made anew, void pins released, and epoch and revision counted."""
    folded = attrs.evolve(folded, revision=before.revision + 1)
    if not keys:
        return folded
    folded = _release_pins(folded)
    # a reload and the start make every route: what is not among `keys` then has no pool any more
    routes = {} if isinstance(event, ConfigApplied) else dict(folded.routes)
    for key in keys:
        released = isinstance(event, OperatorReleased) and event.transport in (None, key.transport)
        routes[key] = route_for(folded, folded.routes.get(key), key, released=released)
    folded = attrs.evolve(_clear_joined(folded), routes=routes)
    if routes == before.routes and folded.pins == before.pins and folded.config.listeners == before.config.listeners:
        return folded
    return record_switches(before, attrs.evolve(folded, epoch=before.epoch + 1), event)


def _release_pins(state: State) -> State:
    """Drops the pins whose node may not be used while another may. With nothing usable at all, pins stay."""
    dropped = {key for key, name in state.pins.items() if _is_pin_void(state, key, name)}
    for key in list(dropped):
        other = RouteKey(key.pool, key.transport.sibling)
        if state.config.pool(key.pool).move_together and state.pins.get(other) == state.pins[key]:
            dropped.add(other)
    if not dropped:
        return state
    return attrs.evolve(state, pins={key: name for key, name in state.pins.items() if key not in dropped})


def _is_pin_void(state: State, key: RouteKey, name: str) -> bool:
    usable = usable_nodes(state, key)
    return bool(usable) and all(node.name != name for node in usable)


def _clear_joined(state: State) -> State:
    """A newcomer that has been found healthy (or is never probed) is a newcomer no more."""
    joined = {}
    for endpoint, health in state.health.items():
        if health.joining:
            node = _node_of(state, endpoint)
            if not node.is_probed or (
                verdict_of(state, node, endpoint) is Verdict.HEALTHY and is_usable(state, node, endpoint)
            ):
                joined[endpoint] = attrs.evolve(health, joining=False)
    return _with_health(state, joined)


def _same(before: State, after: State) -> bool:
    """True when nothing differs but the time and the counting."""
    return (
        before.health == after.health
        and before.routes == after.routes
        and before.pins == after.pins
        and before.overrides == after.overrides
        and before.config is after.config
    )


def _node_of(state: State, endpoint: Endpoint) -> NodeConfig:
    return _named(state, endpoint.node)


def _named(state: State, name: str) -> NodeConfig:
    node = state.config.node(name)
    assert node is not None, name  # every endpoint of the state belongs to a node of its configuration
    return node
