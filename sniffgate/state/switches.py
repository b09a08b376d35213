"""Naming what happened: each change of an active set becomes one `Switch` with its reason and the evidence in words."""

import attrs

from ..config.schema import Strategy
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
from .model import RECENT_SWITCHES, Endpoint, Route, RouteKey, RouteMode, State, Switch, SwitchReason, Verdict
from .verdict import culprits, healthy_since, is_usable, verdict_of

MOST_TOLD = 8  # endpoints in the detail of one switch


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
                detail=_detail(before, after, key, was, now, reason),
                at=after.now,
                wall_ms=after.wall_ms,
            )
        )
    if not switches:
        return after
    health = dict(after.health)
    for switch in switches:
        for name in set(switch.after).difference(switch.before):
            endpoint = Endpoint(name, switch.route.transport)
            health[endpoint] = attrs.evolve(health[endpoint], promotions=health[endpoint].promotions + 1)
    return attrs.evolve(after, switches=(*after.switches, *switches)[-RECENT_SWITCHES:], health=health)


def _reason(before: State, after: State, event: Event, old: Route | None, new: Route | None) -> SwitchReason:
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
        return SwitchReason.START  # only the first table and a reload make or end routes
    if new.mode is not RouteMode.NORMAL:
        return SwitchReason.FAIL_OPEN if new.mode is RouteMode.FAIL_OPEN else SwitchReason.FAILOVER
    if old.mode is not RouteMode.NORMAL:
        return SwitchReason.RECOVERY
    if any(not _still_usable(after, left) for left in _only_in(old, new)):
        return SwitchReason.FAILOVER
    if any(before.health[each].joining for each in _only_in(new, old)):
        return SwitchReason.RELOAD  # it brought them; they were only waiting to be found healthy
    if new.tier is not None and old.tier is not None and new.tier > old.tier:
        return SwitchReason.FAILBACK
    return SwitchReason.REJOIN


def _only_in(one: Route, other: Route) -> list[Endpoint]:
    """Who is active in the one and not in the other."""
    others = set(other.active)
    return [Endpoint(name, one.key.transport) for name in one.active if name not in others]


def _still_usable(state: State, endpoint: Endpoint) -> bool:
    return is_usable(state, state.config.member(endpoint).node, endpoint)


def _detail(
    before: State, state: State, key: RouteKey, was: tuple[str, ...], now: tuple[str, ...], reason: SwitchReason
) -> str:
    """Who came back and by what right; else what is known of those that left (or, if none did, of those that joined).

    After a reload: what the file says of those that left and joined that it did not say before.

    Bounded: the state and its event log keep a hundred of these, and hundreds of nodes may fall together.
    """
    if reason in (SwitchReason.START, SwitchReason.OPERATOR):
        return ""
    left, joined = set(was) - set(now), set(now) - set(was)
    if reason is SwitchReason.RELOAD:
        names = [name for name in (*was, *now) if name in left or name in joined]
        news = [told for name in names if (told := _news(before, state, Endpoint(name, key.transport))) is not None]
        return _told(news, len(news))
    names = [name for name in was if name in left] or [name for name in now if name in joined] or list(now)
    is_return = bool(joined) and reason in (SwitchReason.FAILBACK, SwitchReason.REJOIN)
    if is_return:
        names = [name for name in now if name in joined]
    words = []
    for name in names[:MOST_TOLD]:
        endpoint = Endpoint(name, key.transport)
        words.append(_right(state, endpoint, reason) if is_return else _evidence(state, endpoint))
    return _told(words, len(names))


def _told(words: list[str], count: int) -> str:
    return "; ".join(words[:MOST_TOLD]) + (f"; and {count - MOST_TOLD} more" if count > MOST_TOLD else "")


def _news(before: State, after: State, endpoint: Endpoint) -> str | None:
    """What a reload changed about an endpoint that it made leave or join; None when it changed only others."""
    old, new = before.config.node(endpoint.node), after.config.node(endpoint.node)
    if new is None or old is None:
        return f"{endpoint} {'removed' if new is None else 'added'}"
    if before.config is after.config:  # a newcomer joins on its first good probe
        brought = f"{endpoint} {verdict_of(after, new, endpoint).value} since a reload brought it"
        return brought if before.health[endpoint].joining else None
    was, now = old.address(endpoint.transport), new.address(endpoint.transport)
    changes = []
    if old.pool != new.pool:
        changes.append(f"pool {old.pool} -> {new.pool}")
    if was != now:
        changes.append(f"address {was or 'none'} -> {now or 'none'}")
    if old.enabled != new.enabled:
        changes.append("enabled" if new.enabled else "disabled")
    if old.priority != new.priority:
        changes.append(f"priority {old.priority} -> {new.priority}")
    return f"{endpoint} {', '.join(changes)}" if changes else None


def _right(state: State, endpoint: Endpoint, reason: SwitchReason) -> str:
    """Why an endpoint may be active again."""
    node = state.config.member(endpoint).node
    pool = state.config.pool(node.pool)
    since = max(state.now - healthy_since(state, node, endpoint), 0.0)
    words = f"{endpoint} {verdict_of(state, node, endpoint).value} for {since:.1f} s"
    if reason is SwitchReason.FAILBACK:
        return f"{words}, failback {pool.failback.value}"
    return f"{words}, of the tier in use" if pool.strategy is Strategy.PRIORITY else words


def _evidence(state: State, endpoint: Endpoint) -> str:
    node = state.config.member(endpoint).node
    words = []
    for each in culprits(state, node, endpoint) or (endpoint,):
        health = state.health[each]
        error = f" ({health.last_error})" if health.last_error and health.verdict is not Verdict.HEALTHY else ""
        words.append(f"{each} {health.verdict.value} by {health.cause.value}{error}")
    return ", ".join(words)
