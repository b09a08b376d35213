"""The course of a run under one configuration: its switches, how long its routes were without a node, what it drained.

A backtest has two of them beside each other: as it was recorded, and as it would have been.
"""

from collections import defaultdict
from collections.abc import Mapping

import attrs

from ..address import Address
from ..config.schema import Endpoint, RouteKey
from .events import Event, ForwardFailed, ForwardSucceeded, ProbeFailed, ProbeSucceeded
from .health import is_connect_failure
from .model import Route, RouteMode, State, Switch
from .terms import LeaseKind, Subject, Terms, terms_at
from .verdict import spoken_for


@attrs.frozen
class Told:
    """A switch, and the line that brought it: an event's, or for a timer the last one before it."""

    switch: Switch
    line: int
    by_timer: bool = False


@attrs.frozen
class Table:
    """The routes from a moment of the wall clock on (milliseconds since 1970)."""

    from_ms: float
    routes: Mapping[RouteKey, Route]


@attrs.frozen(kw_only=True)
class Retirement:
    """The flows of an endpoint had to end: those opened before `since_ms`, by `deadline_ms` (inf: never)."""

    pool: str
    endpoint: Endpoint
    since_ms: float
    deadline_ms: float


@attrs.define
class Shortage:
    """Seconds in which a route had nothing usable, and in which all it used had failed when last heard of."""

    unusable: float = 0.0
    failing: float = 0.0


_Key = tuple[Endpoint, str, Address]  # endpoint, its pool, where it was then


class Course:
    """Follows one state through a run. Times are seconds since the gateway's start, `wall` milliseconds since 1970."""

    def __init__(self, state: State, line: int, wall: float, told: tuple[Switch, ...] = ()) -> None:
        self.state = state
        self.switches = [Told(each, line) for each in told]
        self.shortages: defaultdict[RouteKey, Shortage] = defaultdict(Shortage)
        self.tables = [Table(wall, state.routes)]
        self._at = state.now
        self._failing: frozenset[Endpoint] = frozenset()
        self._terms: dict[_Key, tuple[Subject, Terms]] = {}
        self._retirements: dict[_Key, Retirement] = {}
        self._over: list[Retirement] = []
        self._follow(state.now, wall)

    @property
    def retirements(self) -> list[Retirement]:
        """Every drain that was not lifted in time, oldest deadline first."""
        return sorted((*self._over, *self._retirements.values()), key=lambda each: each.deadline_ms)

    def move(self, after: State, at: float, wall: float, line: int, event: Event | None = None) -> None:
        """The state is `after` from `at` on, by `event` of `line`; None is a timer that ran out."""
        before, self.state = self.state, after
        failing = self._failing if event is None else self._failing_after(event)
        if failing != self._failing or after.routes is not before.routes:
            self._count(at, before)
            self._failing = failing
        if after is before:
            return
        self.switches += [Told(each, line, event is None) for each in after.switches if each.epoch > before.epoch]
        if after.routes is not before.routes:
            self.tables.append(Table(max(wall, self.tables[-1].from_ms), after.routes))
        if after.epoch != before.epoch or after.overrides is not before.overrides or after.config is not before.config:
            self._follow(at, wall)

    def end(self, at: float) -> None:
        """Nothing is known past `at`."""
        self._count(at, self.state)

    def _failing_after(self, event: Event) -> frozenset[Endpoint]:
        """The endpoints whose last probe or connect failed."""
        match event:
            case ProbeSucceeded() | ProbeFailed():
                node = self.state.config.node(event.endpoint.node)
                about = frozenset(() if node is None else spoken_for(node, event.endpoint))
            case ForwardSucceeded() | ForwardFailed():
                about = frozenset((event.endpoint,))
            case _:
                return self._failing
        if isinstance(event, ProbeSucceeded | ForwardSucceeded):
            return self._failing - about
        if isinstance(event, ForwardFailed) and not is_connect_failure(event.kind):
            return self._failing  # a reset may be the client's doing
        return self._failing | about

    def _count(self, at: float, state: State) -> None:
        lasted, self._at = max(at - self._at, 0.0), max(at, self._at)
        for key, route in state.routes.items():
            if route.mode is not RouteMode.NORMAL:
                self.shortages[key].unusable += lasted
            elif all(Endpoint(name, key.transport) in self._failing for name in route.active):
                self.shortages[key].failing += lasted

    def _follow(self, at: float, wall: float) -> None:
        """Gives the flows of every endpoint their terms, as listeners do with their leases."""
        config = self.state.config
        for endpoint in config.endpoints:
            node = config.member(endpoint).node
            address = node.address(endpoint.transport)
            if address is not None and (endpoint, node.pool, address) not in self._terms:
                subject = Subject(endpoint=endpoint, configured=address, pool=config.pool(node.pool))
                self._terms[endpoint, node.pool, address] = subject, Terms()
        for key, (subject, before) in self._terms.items():
            if before.deadline <= at:
                self._over.append(self._retirements.pop(key))
                before = Terms()  # what is cut is cut: later flows have a lease of their own
            after = terms_at(self.state, at, subject, before)
            self._terms[key] = subject, after
            if after.kind is not LeaseKind.RETIRING:
                self._retirements.pop(key, None)
                continue
            self._retirements[key] = Retirement(
                pool=subject.pool.name,
                endpoint=subject.endpoint,
                since_ms=self._retirements[key].since_ms if key in self._retirements else wall,
                deadline_ms=wall + (after.deadline - at) * 1000,
            )
