"""Backtesting: the evidence of a recorded history, folded under other settings beside what happened.

The other settings are in force from the first line to the last, so reloads of the recording are left out. What
operators asked for is asked for again, and left out where it would be refused. Timers run out when the other state asks
for it, to the instant; only where both states wait for the same moment does the recorded tick answer both, a little
late as it was. So the same settings give the very same switches.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import get_args

import attrs

from ..config.schema import Config, Endpoint
from .course import Course
from .events import ConfigApplied, Event, OperatorEvent, TimePassed
from .history import Folded, GapFound, Happening, LinesMissing, PartBegan, PartEnded, TornLine, read_history
from .model import State, Verdict
from .reducer import initial_state, next_wakeup, reduce
from .verdict import wants_probe
from .wishes import refusal

_OPERATOR = get_args(OperatorEvent)
_OUT = (Verdict.UNHEALTHY, Verdict.PROBATION)


@attrs.frozen(kw_only=True)
class LeftOut:
    """An event of the recording that the other settings do not meet: a reload, or a wish that would be refused."""

    line: int
    at: float
    event: Event
    reason: str


@attrs.frozen(kw_only=True)
class Unwatched:
    """An endpoint is out under the other settings and was not in the recording, so nothing looked for its return.

    It may have been back earlier than the backtest can tell.
    """

    line: int
    at: float
    endpoint: Endpoint


@attrs.frozen(kw_only=True)
class Run:
    """A run of a gateway, up to where its log goes or is provable, and its course under other settings."""

    first_line: int
    last_line: int
    began: State  # as recorded
    ended_at: float
    ended_ms: float  # the same on the wall clock, since 1970
    is_whole: bool  # from the start of the gateway on; else the other settings came as by a reload
    recorded: Course
    other: Course
    evidence: Counter[Endpoint]
    readdressed: frozenset[Endpoint]  # the recording knew them at another address, at least for a time
    left_out: tuple[LeftOut, ...]
    unwatched: tuple[Unwatched, ...]


def backtest(lines: Iterable[str], config: Config) -> Iterator[Run | GapFound | LinesMissing | TornLine]:
    """Yields each run that the lines of an event log hold, tried under `config`, and what is missing from them.

    *Errors:* LogDamaged, as `read_history` says.
    """
    trial: _Trial | None = None
    for happening in read_history(lines):
        if isinstance(happening, PartBegan) and trial is not None and not happening.follows:
            yield trial.result()
            trial = None
        trial = _told(happening, trial, config)
        if isinstance(happening, GapFound | LinesMissing | TornLine):
            yield happening
    assert trial is not None, "a history without a header is damage"
    yield trial.result()


def _told(happening: Happening, trial: "_Trial | None", config: Config) -> "_Trial":
    if trial is None:
        assert isinstance(happening, PartBegan)
        return _Trial(happening, config)
    if isinstance(happening, Folded):
        trial.fold(happening)
    elif isinstance(happening, PartEnded):
        trial.line = happening.line
    return trial


class _Trial:
    """One run, under way."""

    def __init__(self, began: PartBegan, config: Config) -> None:
        state = began.header.state
        self.line = began.line
        self._began = began
        self._at, self._wall = state.now, state.wall_ms
        self._whole = state == initial_state(state.config, wall_ms=state.wall_ms)
        told = state.switches if self._whole else ()
        self._recorded = Course(state, began.line, self._wall, told)
        if self._whole:
            other = initial_state(config, wall_ms=state.wall_ms)
            self._other = Course(other, began.line, self._wall, other.switches)
        else:
            self._other = Course(state, began.line, self._wall)
            applied = ConfigApplied(at=state.now, wall_ms=state.wall_ms, config=config)
            self._other.move(reduce(state, applied), state.now, self._wall, began.line, applied)
        self._evidence: Counter[Endpoint] = Counter()
        self._readdressed = _readdressed(state.config, config)
        self._left_out: list[LeftOut] = []
        self._unwatched: list[Unwatched] = []

    def fold(self, folded: Folded) -> None:
        """One more event of the recording, with the states around it."""
        event = folded.event
        at = max(self._at, event.at)
        self._run_timers(at, awaited=next_wakeup(folded.before))
        self._at, self._wall = at, event.wall_ms or round(self._wall_at(at))
        before = self._other.state
        reason = self._reason_to_leave_out(event)
        if reason:
            self._left_out.append(LeftOut(line=folded.line, at=at, event=event, reason=reason))
        else:
            self._other.move(reduce(before, event), at, self._wall, folded.line, event)
        self._recorded.move(folded.after, at, self._wall, folded.line, event)
        if not isinstance(event, ConfigApplied | TimePassed | OperatorEvent):
            self._evidence[event.endpoint] += 1
            self._look_for_unwatched(before, event.endpoint, folded.line)
        self.line = folded.line

    def result(self) -> Run:
        """What came of it. Timers run up to the last event: past it nothing is known."""
        self._run_timers(self._at, awaited=next_wakeup(self._recorded.state))
        self._recorded.end(self._at)
        self._other.end(self._at)
        return Run(
            first_line=self._began.line,
            last_line=self.line,
            began=self._began.header.state,
            ended_at=self._at,
            ended_ms=self._wall,
            is_whole=self._whole,
            recorded=self._recorded,
            other=self._other,
            evidence=self._evidence,
            readdressed=self._readdressed,
            left_out=tuple(self._left_out),
            unwatched=tuple(self._unwatched),
        )

    def _run_timers(self, until: float, awaited: float) -> None:
        """Wakes the other state whenever it asks for it. `awaited`: when the recorded state does; its tick answers."""
        while (
            (due := next_wakeup(self._other.state)) <= until
            and due != awaited
            and (after := self._after_tick(due)) is not self._other.state  # or it would ask for the same again
        ):
            self._other.move(after, max(due, self._began.header.state.now), self._wall_at(due), self.line)

    def _after_tick(self, due: float) -> State:
        return reduce(self._other.state, TimePassed(at=due, wall_ms=round(self._wall_at(due))))

    def _wall_at(self, at: float) -> float:
        return self._wall + (at - self._at) * 1000

    def _reason_to_leave_out(self, event: Event) -> str:
        if isinstance(event, ConfigApplied):
            self._readdressed |= _readdressed(event.config, self._other.state.config)
            return "the other settings stay in force"
        if isinstance(event, OperatorEvent):
            return refusal(self._other.state, event) or ""
        return ""

    def _look_for_unwatched(self, before: State, about: Endpoint, line: int) -> None:
        for endpoint in (about, about.sibling):
            health, was = self._other.state.health.get(endpoint), before.health.get(endpoint)
            if health is None or was is None or health.verdict not in _OUT or was.verdict in _OUT:
                continue
            recorded = self._recorded.state
            node, known = recorded.config.node(endpoint.node), recorded.health.get(endpoint)
            if node is None or known is None or known.verdict in _OUT or wants_probe(node, endpoint, known):
                continue
            self._unwatched.append(Unwatched(line=line, at=self._at, endpoint=endpoint))


def _readdressed(recorded: Config, other: Config) -> frozenset[Endpoint]:
    known = set(recorded.endpoints) & set(other.endpoints)
    return frozenset(each for each in known if _address(recorded, each) != _address(other, each))


def _address(config: Config, endpoint: Endpoint) -> object:
    return config.member(endpoint).node.address(endpoint.transport)
