"""Incidents: how long an outage was, as one record per failure of an active endpoint.

A record begins with the first evidence against an active endpoint. If the doubt passes, the record is dropped; if the
route switches away, it goes on to the first good byte from the new active set and to the end of the drain. Times are
gateway seconds. The records decide nothing.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator

import attrs

from ..state.events import Event, ForwardFailed, ProbeFailed, TripwireFired
from ..state.health import passive_failures
from ..state.model import Endpoint, RouteKey, RouteMode, State, Switch, SwitchReason, Verdict
from ..state.verdict import follows, spoken_for
from .transitions import names_in_words

log = logging.getLogger("sniffgate")

REMEMBERED = 100  # incidents that are over, and as many under way
_FORCED = (SwitchReason.FAILOVER, SwitchReason.FAIL_OPEN)


@attrs.define(eq=False, kw_only=True)
class Incident:
    """One failure of an active endpoint, as far as it has been seen."""

    route: RouteKey
    node: str
    source: Endpoint  # whom the evidence is about: the sibling, for one that follows it
    evidence: str  # the first, in words
    evidence_at: float
    wall_ms: int
    verdict_at: float | None = None
    switched_at: float | None = None
    epoch: int | None = None
    after: tuple[str, ...] = ()  # the active set it switched to
    answering: tuple[str, ...] = ()  # whose byte ends the outage: that set, or what took its place
    good_at: float | None = None  # the first byte of a node of that set to a client
    drained_at: float | None = None  # the last flow at the failed endpoint ended
    slow: int = 0  # client requests that were served, but not by the first node tried
    lost: int = 0  # client requests that were not served, or broken off

    @property
    def outage(self) -> float | None:
        """Seconds from the first evidence to the first good byte; None while it lasts."""
        return None if self.good_at is None else self.good_at - self.evidence_at

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to come."""
        return self.good_at is not None and self.drained_at is not None


class Incidents:
    """The incidents of a gateway: those under way, and the last ones."""

    def __init__(self, now: Callable[[], float], flows: Callable[[Endpoint], int]) -> None:
        """`now` gives gateway seconds, `flows` the flows in progress at an endpoint."""
        self.on_good: Callable[[Incident], None] | None = None  # the outage has a length; it may be over by that
        self.on_over: Callable[[Incident], None] | None = None  # nothing more is to come
        self._now = now
        self._flows = flows
        self._doubted: dict[tuple[RouteKey, str], Incident] = {}  # not switched away from (yet)
        self._under_way: list[Incident] = []  # switched, and something is still to come
        self._over: deque[Incident] = deque(maxlen=REMEMBERED)
        # A flow tells of its end before the hub has heard of the evidence that the flow gave in the same moment.
        self._unclaimed: deque[tuple[float, RouteKey, bool]] = deque(maxlen=1024)  # (when, route, whether lost)

    def __iter__(self) -> Iterator[Incident]:
        """Those that led to a switch, oldest first."""
        return iter(sorted((*self._over, *self._under_way), key=lambda incident: incident.evidence_at))

    def observe(self, before: State, event: Event, after: State) -> None:
        """Takes note of what an event did; an observer of the hub."""
        if isinstance(event, ProbeFailed | ForwardFailed | TripwireFired):
            self._begin(before, event, after)
        if self._doubted and after is not before:
            self._follow_doubts(after)
        if after.switches is not before.switches:
            last = before.switches[-1].epoch if before.switches else 0
            for switch in after.switches:
                if switch.epoch > last:
                    self._switched(switch)

    def _begin(self, before: State, event: ProbeFailed | ForwardFailed | TripwireFired, after: State) -> None:
        node = before.config.node(event.endpoint.node)
        if node is None:
            return
        endpoints = set(spoken_for(node, event.endpoint)) if isinstance(event, ProbeFailed) else {event.endpoint}
        endpoints |= {endpoint.sibling for endpoint in endpoints if follows(node, endpoint.sibling)}
        for endpoint in endpoints:
            key = RouteKey(node.pool, endpoint.transport)
            route = before.routes.get(key)
            if route is None or route.mode is not RouteMode.NORMAL or node.name not in route.active:
                continue
            if (key, node.name) not in self._doubted:
                incident = self._doubted[key, node.name] = Incident(
                    route=key,
                    node=node.name,
                    source=event.endpoint,
                    evidence=_in_words(event),
                    evidence_at=max(before.now, event.at),
                    wall_ms=event.wall_ms,
                )
                self._claim(incident)

    def _claim(self, incident: Incident) -> None:
        """Counts what befell clients in the moment that gave the first evidence."""
        for when, route, was_lost in self._unclaimed:
            if route == incident.route and when >= incident.evidence_at:
                incident.lost += was_lost
                incident.slow += not was_lost

    def _follow_doubts(self, state: State) -> None:
        for key, incident in list(self._doubted.items()):
            health = state.health.get(incident.source)
            if health is None or _is_cleared(state, incident.source):
                del self._doubted[key]
            elif health.verdict is Verdict.UNHEALTHY and incident.verdict_at is None:
                incident.verdict_at = state.now

    def _switched(self, switch: Switch) -> None:
        for each in self._under_way:
            if each.route == switch.route and each.good_at is None:
                each.answering = switch.after
        for name in switch.before:
            incident = self._doubted.pop((switch.route, name), None)
            if incident is None or name in switch.after or switch.reason not in _FORCED:
                continue
            incident.switched_at, incident.epoch = switch.at, switch.epoch
            incident.after = incident.answering = switch.after
            self._under_way.append(incident)
            if len(self._under_way) > REMEMBERED:  # a node that flaps on a route that nobody uses
                self._over.append(self._under_way.pop(0))
            self.flow_ended(Endpoint(name, switch.route.transport))

    # --- what flows tell ------------------------------------------------------------------------------

    def good_byte(self, route: RouteKey, node: str) -> None:
        """A byte of `node` goes to a client."""
        if not self._under_way:
            return
        for incident in list(self._under_way):
            if incident.route == route and incident.good_at is None and node in incident.answering:
                incident.good_at = self._now()
                log.warning("%s", in_words(incident))
                if self.on_good is not None:
                    self.on_good(incident)
                self._close_if_over(incident)

    def flow_ended(self, endpoint: Endpoint) -> None:
        """A flow at `endpoint` ended, or may have."""
        if not self._under_way:
            return
        for incident in list(self._under_way):
            is_its = incident.node == endpoint.node and incident.route.transport is endpoint.transport
            if is_its and incident.drained_at is None and not self._flows(endpoint):
                incident.drained_at = self._now()
                self._close_if_over(incident)

    def slow(self, route: RouteKey) -> None:
        """A client of `route` was served, but not by the first node tried."""
        self._befell(route, was_lost=False)

    def lost(self, route: RouteKey) -> None:
        """A client of `route` was not served, or broken off by its node."""
        self._befell(route, was_lost=True)

    def _befell(self, route: RouteKey, *, was_lost: bool) -> None:
        incidents = self._open(route)
        if not incidents:
            self._unclaimed.append((self._now(), route, was_lost))
        for incident in incidents:
            incident.lost += was_lost
            incident.slow += not was_lost

    def _open(self, route: RouteKey) -> list[Incident]:
        doubted = [incident for (key, _), incident in self._doubted.items() if key == route]
        return doubted + [each for each in self._under_way if each.route == route and each.good_at is None]

    def _close_if_over(self, incident: Incident) -> None:
        if incident.is_over:
            self._under_way.remove(incident)
            self._over.append(incident)
            if self.on_over is not None:
                self.on_over(incident)


def in_words(incident: Incident) -> str:
    """One line: what happened, in milliseconds after the first evidence."""
    words = [f"incident: {incident.route} {incident.node}: {incident.evidence}"]
    for what, when in (
        ("unhealthy", incident.verdict_at),
        (f"switched to {names_in_words(incident.after)}", incident.switched_at),
        ("first good byte", incident.good_at),
        ("drained", incident.drained_at),
    ):
        if when is not None:
            words.append(f"{what} after {(when - incident.evidence_at) * 1000:.0f} ms")
    words.append(f"{incident.slow} slow, {incident.lost} lost")
    return ", ".join(words)


def _in_words(event: ProbeFailed | ForwardFailed | TripwireFired) -> str:
    match event:
        case ProbeFailed():
            return f"probe: {event.error}"
        case ForwardFailed():
            return f"traffic: {event.kind.value}"
        case TripwireFired():
            return "connection broken by the node"


def _is_cleared(state: State, endpoint: Endpoint) -> bool:
    """Whether nothing speaks against the endpoint any more."""
    health = state.health[endpoint]
    usable = health.verdict in (Verdict.HEALTHY, Verdict.UNKNOWN)
    doubted = health.suspected or health.bad_streak or passive_failures(health, state.config.globals, state.now)
    return usable and not doubted
