"""`reduce(state, event) -> state`: the one place where a gateway's state changes.

Pure: no clock, no I/O, no dice. The same events always give the same states. When an event changes nothing, the very
same object comes back and nothing is published.

The life of an event: it is folded into health, wishes or configuration (`_fold`); if that touched what routes are made
from, the routes of the pools concerned are made anew (`_reroute`); what changed decides whether the epoch or only the
revision goes up.
"""

from collections.abc import Collection, Mapping
from typing import assert_never

import attrs

from ..config.schema import Config, Endpoint, NodeConfig, RouteKey, Transport
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
from .evidence import after_probe, after_traffic
from .health import Moment
from .model import Health, Route, RouteMode, State
from .reload import apply_config, first_health
from .routing import failback_due, route_for, waiting_for_failback
from .switches import record_switches
from .verdict import endpoints_that_decide, may_join, may_serve
from .verdict import spoken_for as spoken_for
from .wishes import overrides_after, pins_after, releases, without_void_pins

NEVER = float("inf")


def initial_state(config: Config, *, wall_ms: int = 0) -> State:
    """The state of a gateway that has seen nothing yet: every endpoint unknown, which counts as usable."""
    state = State(config=config, wall_ms=wall_ms, health=first_health(config), pins={}, overrides={}, routes={})
    return _reroute(state, state, TimePassed(at=0.0, wall_ms=wall_ms), config.route_keys)


def reduce(state: State, event: Event) -> State:
    """The state after `event`; `state` itself when nothing changed. An event about an unknown node changes nothing."""
    when = Moment(max(state.now, event.at), event.wall_ms or state.wall_ms)
    folded = _fold(state, event, when)
    if folded is state and not isinstance(event, OperatorReleased | TimePassed):
        return state
    moved = attrs.evolve(folded, now=when.now, wall_ms=when.wall_ms)
    after = _reroute(state, moved, event, _touched(state, moved, event))
    return state if folded is state and after.epoch == state.epoch else after


def next_wakeup(state: State) -> float:
    """When a `TimePassed` would next change the state, in seconds; inf when never."""
    times = [NEVER]
    for endpoint, health in state.health.items():
        if health.ejected_until is not None:
            due = rules.wakeup(health, state.config.globals, probed=_is_probed(state, endpoint))
            times.append(NEVER if due is None else due)
    times += [
        failback_due(state, member) for route in state.routes.values() for member in waiting_for_failback(state, route)
    ]
    return min(times)


def forward_success_matters(state: State, endpoint: Endpoint) -> bool:
    """Whether a `ForwardSucceeded` about `endpoint` would change its published health."""
    node, health = state.config.node(endpoint.node), state.health.get(endpoint)
    return node is not None and health is not None and rules.forward_matters(health, probed=node.is_probed)


# --- folding an event -----------------------------------------------------------------------------


def _fold(state: State, event: Event, when: Moment) -> State:
    match event:
        case ProbeSucceeded() | ProbeFailed() | ProbeSilent():
            return _with_health(state, after_probe(state, event, when))
        case ForwardSucceeded() | ForwardFailed() | TripwireFired():
            return _with_health(state, after_traffic(state, event, when))
        case OperatorSwitched() | OperatorReleased():
            return _with_pins(state, pins_after(state, event))
        case OperatorEnabled() | OperatorDisabled() | OperatorDrained() | OperatorMarked():
            overrides = overrides_after(state, event, when.now)
            return state if overrides == state.overrides else attrs.evolve(state, overrides=overrides)
        case ConfigApplied():
            moved = apply_config(state, event.config, when)
            # other thresholds, or another way to be probed, may end an ejection that was only waiting
            return moved if moved is state else _with_health(moved, _due(moved, when))
        case TimePassed():
            return _with_health(state, _due(state, when))
        case _:
            assert_never(event)


def _due(state: State, when: Moment) -> Mapping[Endpoint, Health]:
    return {
        endpoint: rules.time_passed(health, state.config.globals, when, probed=_is_probed(state, endpoint))
        for endpoint, health in state.health.items()
        if health.ejected_until is not None
    }


def _with_health(state: State, after: Mapping[Endpoint, Health]) -> State:
    before = state.health
    changed = {each: now for each, now in after.items() if now is not before[each] and now != before[each]}
    return attrs.evolve(state, health={**state.health, **changed}) if changed else state


def _with_pins(state: State, pins: Mapping[RouteKey, str]) -> State:
    return state if pins == state.pins else attrs.evolve(state, pins=pins)


# --- making routes anew ---------------------------------------------------------------------------


def _touched(before: State, folded: State, event: Event) -> Collection[RouteKey]:
    """The routes that may come out otherwise: all after a reload or a release, else those of some pools."""
    pools: set[str] = set()
    match event:
        case OperatorReleased():
            return folded.config.route_keys
        case TimePassed():
            pools |= {key.pool for key, route in folded.routes.items() if _is_failback_due(folded, route)}
            pools |= {folded.config.member(each).node.pool for each in _flipped(before, folded, tuple(folded.health))}
        case ConfigApplied():
            return folded.config.route_keys
        case OperatorSwitched() | OperatorEnabled() | OperatorDisabled() | OperatorDrained() | OperatorMarked():
            pools |= {node.pool for node in (folded.config.node(event.node),) if node is not None}
        case _:
            about = (event.endpoint, event.endpoint.sibling)
            pools |= {folded.config.member(each).node.pool for each in _flipped(before, folded, about)}
    keys = (RouteKey(pool, transport) for pool in sorted(pools) for transport in Transport)
    return [key for key in keys if key in folded.routes]


def _flipped(before: State, folded: State, endpoints: Collection[Endpoint]) -> list[Endpoint]:
    """Those of `endpoints` whose own verdict is no longer what it was."""
    if before.health is folded.health:
        return []
    return [
        each
        for each in endpoints
        if each in folded.health and folded.health[each].verdict is not before.health[each].verdict
    ]


def _is_failback_due(state: State, route: Route) -> bool:
    return any(failback_due(state, member) <= state.now for member in waiting_for_failback(state, route))


def _reroute(before: State, folded: State, event: Event, keys: Collection[RouteKey]) -> State:
    """`folded` with the routes of `keys` made anew, void pins released, and epoch and revision counted."""
    folded = attrs.evolve(folded, revision=before.revision + 1)
    if not keys and folded.config is before.config:
        return folded
    folded = _with_pins(folded, without_void_pins(folded))
    folded = _routed(folded, event, keys)
    listeners = folded.config.listeners
    if folded.routes == before.routes and folded.pins == before.pins and listeners == before.config.listeners:
        return folded
    return record_switches(before, attrs.evolve(folded, epoch=before.epoch + 1), event)


def _routed(state: State, event: Event, keys: Collection[RouteKey]) -> State:
    # a reload makes every route: what is not among `keys` then has neither nodes nor listeners any more
    kept = {} if isinstance(event, ConfigApplied) else state.routes
    while True:
        made = {key: route_for(state, state.routes.get(key), key, released=releases(state, event, key)) for key in keys}
        state = attrs.evolve(state, routes={**kept, **made})
        joined = _joined(state)
        if not joined:
            return state
        state = _with_health(state, joined)  # who is no newcomer any more may be active elsewhere too


def _joined(state: State) -> Mapping[Endpoint, Health]:
    """Newcomers no more: those in use, and those that were found healthy (or are never probed) and may be."""
    joined: dict[Endpoint, Health] = {}
    known: dict[int, Health] = {}  # newcomers of one reload share one value, and so do those that have joined
    for endpoint, health in [item for item in state.health.items() if item[1].joining]:
        member = state.config.member(endpoint)
        deciding = endpoints_that_decide(state, member.node, endpoint)
        ready = may_serve(state, member) and may_join(state, member.node, endpoint)
        if ready or any(_is_in_use(state, member.node, each) for each in deciding):
            if id(health) not in known:
                known[id(health)] = attrs.evolve(health, joining=False)
            joined[endpoint] = known[id(health)]
    return joined


def _is_in_use(state: State, node: NodeConfig, endpoint: Endpoint) -> bool:
    route = state.routes[RouteKey(node.pool, endpoint.transport)]
    return route.mode is RouteMode.NORMAL and node.name in route.active


def _is_probed(state: State, endpoint: Endpoint) -> bool:
    return state.config.member(endpoint).node.is_probed
