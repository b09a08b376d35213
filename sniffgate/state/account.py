"""The sentences of `why`: what keeps one endpoint in or out, and what is to happen next."""

import enum

import attrs

from ..config.schema import Endpoint, Failback, Member, NodeConfig, Strategy
from .model import Cause, Health, Mark, Route, RouteMode, State, SwitchReason, Verdict
from .routing import failback_due, waiting_for_failback
from .verdict import culprits, follows, may_join, may_serve, override_of, spoken_for

NEVER = float("inf")


class Outcome(enum.Enum):
    """What a moment brings if nothing but time passes."""

    PROBATION = "probation"
    HEALTHY = "healthy"
    ACTIVE = "active"
    INACTIVE = "inactive"


@attrs.frozen
class Due:
    """At `at` (seconds since the start) `endpoint` becomes so by itself. An even better tier may be there before it."""

    at: float
    endpoint: Endpoint
    outcome: Outcome


@attrs.frozen
class Clock:
    """Says times as an operator reads them: in seconds from now, and on the wall where that is known."""

    state: State
    now: float

    def until(self, at: float) -> str:
        """`in 0.8 s (14:03:22Z)`."""
        words = f"in {max(at - self.now, 0.0):.1f} s"
        if not self.state.wall_ms:
            return words
        of_the_day = int(self.state.wall_ms / 1000 + at - self.state.now) % 86400
        return f"{words} ({of_the_day // 3600:02}:{of_the_day // 60 % 60:02}:{of_the_day % 60:02}Z)"

    def since(self, at: float) -> str:
        """`for 12.3 s`."""
        return f"for {max(self.now - at, 0.0):.1f} s"


class Account:
    """Gathers what is said of one endpoint."""

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.changes: list[str] = []
        self.dues: list[Due] = []

    def say(self, reason: str, *changes: str) -> None:
        """One more reason, and what would undo it."""
        self.reasons.append(reason)
        self.changes += changes


# --- not usable -----------------------------------------------------------------------------------


def tell_unusable(state: State, member: Member, route: Route, clock: Clock, account: Account) -> None:
    """Enabled, and not usable: whose evidence it is, and the way back."""
    node, endpoint, _ = member
    for each in culprits(state, node, endpoint):
        if each != endpoint:
            tie = "it follows" if follows(node, endpoint) and each == endpoint.sibling else "it moves together with"
            account.say(f"{tie} {each}")
        _evidence(state, node, each, clock, account)
    account.changes.append(_afterwards(state, member, route))
    if route.mode is RouteMode.FAIL_OPEN:
        account.say("has traffic all the same: nothing is usable, and the pool fails open")
    elif route.mode is RouteMode.CLOSED:
        account.say("nothing is usable, and fail_open is off: new traffic is refused")
    if route.trial == node.name:
        account.say("on trial: it gets the next new flow")


def _evidence(state: State, node: NodeConfig, endpoint: Endpoint, clock: Clock, account: Account) -> None:
    health, needed = state.health[endpoint], state.config.globals.success_threshold
    error = f": {health.last_error}" if health.last_error else ""
    if health.verdict is Verdict.PROBATION:
        account.say(
            f"{endpoint} is on probation {clock.since(health.since)}",
            f"{endpoint} is healthy after one live flow that succeeds; one that fails ejects it again",
        )
        return
    blame = "failed probes"
    if health.cause is Cause.TRAFFIC:
        blame = "ejected by live traffic" if health.is_ejected else "live traffic failed"
    account.say(f"{endpoint} is unhealthy {clock.since(health.since)} ({blame}{error})")
    until, missing = health.ejected_until, max(needed - health.good_streak, 0)
    if not node.is_probed:
        assert until is not None  # an unprobed endpoint only ever falls by ejection
        account.changes.append(f"{endpoint} is on probation {clock.until(until)}, when its ejection ends")
        account.dues.append(Due(until, endpoint, Outcome.PROBATION))
    elif until is not None and not missing:
        account.changes.append(f"{endpoint} is healthy {clock.until(until)}, when its ejection ends")
        account.dues.append(Due(until, endpoint, Outcome.HEALTHY))
    else:
        probes = f"{missing} more good probe{'s' * (missing != 1)}{_by_whom(node, endpoint)}"
        not_before = until is not None and until > clock.now
        ending = f", not before its ejection ends {clock.until(until)}" if until is not None and not_before else ""
        account.changes.append(f"{endpoint} is healthy after {probes}{ending}")


def _by_whom(node: NodeConfig, endpoint: Endpoint) -> str:
    return "" if spoken_for(node, endpoint) else f" of {endpoint.sibling}"


def _afterwards(state: State, member: Member, route: Route) -> str:
    """What a node that becomes usable again would come back to."""
    node, pool = member.node, state.config.pool(member.node.pool)
    if route.mode is not RouteMode.NORMAL:
        return "then it is active at once"
    if route.pin is not None and route.pin != node.name:
        return f"then it stands by: {route.pin} is pinned"
    if pool.strategy is not Strategy.PRIORITY or route.tier == node.priority:
        return "then it is active at once"
    if route.tier is not None and node.priority < route.tier:
        return f"then it stands by: priority {route.tier} is in use, its own is {node.priority}"
    if any(state.health[each].joining for each in member.grounds):
        return "then it takes over at once: a reload brought it"
    if pool.failback is Failback.MANUAL:
        return f"then it waits for `auto` or `switch {node.name}` (failback manual)"
    delay = f"after {pool.failback_delay:g} s" if pool.failback_delay else "at once"
    return f"then it takes over {delay} (failback auto)"


# --- usable ---------------------------------------------------------------------------------------


def tell_serving(state: State, member: Member, route: Route, clock: Clock, account: Account) -> None:
    """Active by right: by what right, and what would end it."""
    node, endpoint, _ = member
    if route.pin == node.name:
        account.say("pinned by the operator", "`auto` releases the pin; so does its fall, if another is usable")
    elif route.strategy is not Strategy.PRIORITY:
        account.say(f"usable, and strategy {route.strategy.value} uses whatever is")
    elif len(route.active) == 1 and not route.standbys:
        account.say("the only usable one")
    else:
        account.say(f"of the tier in use, priority {node.priority}")
    _came_back(state, member, route, account)
    if route.strategy is Strategy.WEIGHTED and not node.weight:
        account.say("weight 0: new traffic only while no active node weighs more")
    account.changes.append(_fall(state, state.health[endpoint], node))
    dues = [(failback_due(state, each), each.node.name) for each in waiting_for_failback(state, route)]
    for at, name in sorted(dues)[:1]:
        if at == NEVER:
            account.changes.append(f"{name}, of a better tier, waits for `auto` or `switch {name}` (failback manual)")
        else:
            account.changes.append(f"{name}, of a better tier, takes over {clock.until(at)} (failback auto)")
            account.dues.append(Due(at, endpoint, Outcome.INACTIVE))


def _came_back(state: State, member: Member, route: Route, account: Account) -> None:
    """By what right it took over or joined, if it did by itself."""
    name = member.node.name
    joined = [
        switch
        for switch in state.switches
        if switch.route == route.key and name in switch.after and name not in switch.before
    ]
    if joined and joined[-1].reason in (SwitchReason.FAILBACK, SwitchReason.REJOIN):
        account.say(f"since epoch {joined[-1].epoch} by {joined[-1].reason.value} ({joined[-1].detail})")


def _fall(state: State, health: Health, node: NodeConfig) -> str:
    if override_of(state, node.name).mark is Mark.UP:
        return f"only `health {node.name} down`, `health {node.name} auto` or `disable {node.name}` takes it out"
    settings = state.config.globals
    left = max(settings.failure_threshold - health.bad_streak, 1)
    ejecting = f"{settings.passive_eject_threshold} failures of live traffic within {settings.passive_eject_window:g} s"
    if not node.is_probed:
        return f"{ejecting} would eject it"
    return f"{left} more failed probe{'s' * (left != 1)} in a row or {ejecting} would take it out"


def tell_waiting(state: State, member: Member, route: Route, clock: Clock, account: Account) -> None:
    """Usable, and not active: for whom or what it waits."""
    node, endpoint, _ = member
    if route.pin is not None:
        account.say(f"{route.pin} is pinned by the operator", "`auto` releases the pin")
    elif not may_join(state, node, endpoint):
        good = state.config.globals.success_threshold
        account.say(
            "a reload brought it, and no probe has found it healthy yet",
            f"it joins when {good} probes in a row have found it healthy, or when nothing else is usable",
        )
    elif route.tier is not None and node.priority < route.tier:
        above = [
            each.node.name
            for each in state.config.members(route.key)
            if each.node.priority > node.priority and may_serve(state, each)
        ]
        account.say(
            f"priority {route.tier} is in use, its own is {node.priority}",
            f"it takes over when none of {', '.join(above)} is usable",
        )
    else:
        _failing_back(state, member, route, clock, account)


def _failing_back(state: State, member: Member, route: Route, clock: Clock, account: Account) -> None:
    name, at = member.node.name, failback_due(state, member)
    better = f"of a better tier than the one in use ({member.node.priority} over {route.tier})"
    if at == NEVER:
        account.say(f"{better}, but failback is manual", f"`auto` or `switch {name}` brings it back")
        return
    account.say(
        f"{better}, but not healthy long enough",
        f"it takes over {clock.until(at)} (failback auto), unless a still better one is back by then",
    )
    account.dues.append(Due(at, member.endpoint, Outcome.ACTIVE))
