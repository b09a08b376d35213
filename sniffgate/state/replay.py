"""Replaying an event log: folds its events from the header's state and tells every switch with its evidence.

A log may have several parts, each with its own header: after a restart, a rotation, or a reopening. Parts are replayed
for themselves. After a gap nothing is folded up to the next header, since it could not be proven.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator

import attrs

from ..errors import Side, SniffgateError
from .events import (
    ConfigApplied,
    Event,
    OperatorDisabled,
    OperatorDrained,
    OperatorEnabled,
    OperatorMarked,
    OperatorReleased,
    OperatorSwitched,
    TimePassed,
)
from .model import State, Switch
from .reducer import reduce
from .serial import Gap, Header, NotWhole, line_from_json

WITNESSES = 6  # events remembered for each node


class LogDamaged(SniffgateError):
    """An event log cannot be read; the message says which line, and what is wrong with it."""

    side = Side.OPERATOR

    def __init__(self, line: int, message: str) -> None:
        super().__init__(f"line {line}: {message}")
        self.line = line


@attrs.frozen
class Witness:
    """An event and the line it stands on."""

    line: int
    event: Event


@attrs.frozen
class PartBegan:
    """A header. `follows` says that its state is the one the replay had reached: the run simply went on."""

    line: int
    header: Header
    follows: bool


@attrs.frozen
class Switched:
    """An active set changed. The last of `evidence` is the event that did it; the others are about those nodes."""

    switch: Switch
    evidence: tuple[Witness, ...]

    @property
    def line(self) -> int:
        """The line of the event that did it."""
        return self.evidence[-1].line


@attrs.frozen
class GapFound:
    """`lost` lines are missing: nothing is provable past `line`, up to the next header."""

    line: int
    lost: int


@attrs.frozen
class TornLine:
    """A line was cut off, as by a crash; it counts for nothing."""

    line: int


@attrs.frozen
class PartEnded:
    """What a part came to: its state after the last provable line."""

    line: int
    state: State
    events: int
    switches: int
    is_proven: bool  # to its end: no gap in it


Finding = PartBegan | Switched | GapFound | TornLine | PartEnded


def replay_lines(lines: Iterable[str]) -> Iterator[Finding]:
    """Yields what the lines of an event log prove, in their order.

    *Errors:* LogDamaged for a line that is neither an event log's nor torn: a torn line is the last, or a restart wrote
    its header after it.
    """
    part: _Part | None = None
    torn: LogDamaged | None = None
    number = 0
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found = line_from_json(line)
        except NotWhole as error:
            if torn is not None:
                raise torn from None
            torn = LogDamaged(number, str(error))
            continue
        except ValueError as error:
            raise torn or LogDamaged(number, str(error)) from None
        if torn is not None:
            if not isinstance(found, Header):
                raise torn
            yield TornLine(torn.line)
            torn = None
        if isinstance(found, Header):
            before = part.state if part is not None and part.is_proven else None
            if part is not None:
                yield part.ended()
            part = _Part(number, found)
            yield PartBegan(number, found, follows=before == found.state)
        elif part is None:
            raise LogDamaged(number, "no header comes before it, so there is no state to start from")
        else:
            yield from part.fold(number, found)
    if part is None:
        raise torn or LogDamaged(max(number, 1), "the file is empty; an event log begins with a header")
    if torn is not None:
        yield TornLine(torn.line)
    yield part.ended()


class _Part:
    """One header and what follows it."""

    def __init__(self, line: int, header: Header) -> None:
        self.state = header.state
        self.is_proven = True
        self._line = line
        self._events = 0
        self._switches = 0
        self._witnesses: defaultdict[str, deque[Witness]] = defaultdict(lambda: deque(maxlen=WITNESSES))

    def fold(self, line: int, found: Event | Gap) -> Iterator[GapFound | Switched]:
        """Folds an event, unless a gap came before it."""
        if not self.is_proven:
            return
        if isinstance(found, Gap):
            self.is_proven = False
            yield GapFound(self._line, found.lost)
            return
        before, self.state = self.state, _reduced(self.state, found, line)
        self._line = line
        self._events += 1
        this = Witness(line, found)
        for switch in (each for each in self.state.switches if each.epoch > before.epoch):
            self._switches += 1
            yield Switched(switch, (*self._about(switch), this))
        name = _subject(found)
        if name is not None:
            self._witnesses[name].append(this)

    def ended(self) -> PartEnded:
        """What the part has come to so far."""
        return PartEnded(self._line, self.state, self._events, self._switches, self.is_proven)

    def _about(self, switch: Switch) -> list[Witness]:
        concerned = set(switch.before) ^ set(switch.after)
        witnesses = [each for name in concerned for each in self._witnesses.get(name, ())]
        return sorted(witnesses, key=lambda each: each.line)


def _reduced(state: State, event: Event, line: int) -> State:
    try:
        return reduce(state, event)
    except Exception as error:  # a header that somebody edited may contradict itself in any way
        raise LogDamaged(
            line, f"the event does not fit the state before it ({type(error).__name__}: {error})"
        ) from error


def _subject(event: Event) -> str | None:
    """The node an event is about; None for those about all."""
    match event:
        case ConfigApplied() | OperatorReleased() | TimePassed():
            return None
        case OperatorSwitched() | OperatorEnabled() | OperatorDisabled() | OperatorDrained() | OperatorMarked():
            return event.node
        case _:
            return event.endpoint.node
