"""Naming what happened: each change of an active set becomes one `Switch` with its reason and the evidence in words."""

import attrs

from .events import (
    ConfigApplied,
    Event,
    OperatorDisabled,
    OperatorDrained,
    OperatorEnabled,
    OperatorMarked,
    OperatorReleased,
    OperatorSwitched,
)
from .model import RECENT_SWITCHES, Endpoint, Route, RouteMode, State, Switch, SwitchReason
from .verdict import is_usable


def record_switches(before: State, after: State, event: Event) -> State:
    """`after` with a `Switch` for every active set that differs from `before`, and promotions counted."""
    switches = []
    for key in sorted(before.routes.keys() | after.routes.keys(), key=str):
        old, new = before.routes.get(key), after.routes.get(key)
        was, now = old.active if old else (), new.active if new else ()
        if was == now:
            continue
        reason = _reason(before, after, event, old, new)
        switches.append(
            Switch(
                epoch=after.epoch,
                route=key,
                before=was,
                after=now,
                reason=reason,
                detail=_detail(after, key.transport.value, was, now, reason),
                at=after.now,
                wall_ms=after.wall_ms,
            )
        )
    if not switches:
        return after
    health = dict(after.health)
    for switch in switches:
        for name in set(switch.after) - set(switch.before):
            endpoint = Endpoint(name, switch.route.transport)
            health[endpoint] = attrs.evolve(health[endpoint], promotions=health[endpoint].promotions + 1)
    return attrs.evolve(after, switches=(*after.switches, *switches)[-RECENT_SWITCHES:], health=health)


def _reason(before: State, after: State, event: Event, old: Route | None, new: Route | None) -> SwitchReason:
    if not before.routes:
        return SwitchReason.START
    match event:
        case ConfigApplied():
            return SwitchReason.RELOAD
        case (
            OperatorSwitched()
            | OperatorReleased()
            | OperatorEnabled()
            | OperatorDisabled()
            | OperatorDrained()
            | OperatorMarked()
        ):
            return SwitchReason.OPERATOR
        case _:
            pass
    if old is None or new is None:
        return SwitchReason.RELOAD
    if new.mode is not RouteMode.NORMAL:
        return SwitchReason.FAIL_OPEN if new.mode is RouteMode.FAIL_OPEN else SwitchReason.FAILOVER
    if old.mode is not RouteMode.NORMAL:
        return SwitchReason.RECOVERY
    if any(not _still_usable(after, new, name) for name in old.active):
        return SwitchReason.FAILOVER
    if new.tier is not None and old.tier is not None and new.tier > old.tier:
        return SwitchReason.FAILBACK
    return SwitchReason.REJOIN


def _still_usable(state: State, route: Route, name: str) -> bool:
    node = state.config.node(name)
    return node is not None and is_usable(state, node, Endpoint(name, route.key.transport))


def _detail(state: State, transport: str, was: tuple[str, ...], now: tuple[str, ...], reason: SwitchReason) -> str:
    """What is known of the endpoints that left (or, if none did, of those that joined)."""
    if reason in (SwitchReason.START, SwitchReason.RELOAD, SwitchReason.OPERATOR):
        return ""
    names = [name for name in was if name not in now] or [name for name in now if name not in was]
    words = []
    for name in names or list(now):
        for endpoint, health in state.health.items():
            if endpoint.node == name and endpoint.transport.value == transport:
                error = f" ({health.last_error})" if health.last_error and health.verdict.value != "healthy" else ""
                words.append(f"{endpoint} {health.verdict.value} by {health.cause.value}{error}")
    return "; ".join(words)
