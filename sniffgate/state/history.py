"""Reading an event log: what its lines prove, event by event, and where they prove nothing.

A log may have several parts, each with its own header: after a restart, a rotation, or a reopening. Parts are folded
for themselves. After a gap nothing is folded up to the next header, since it could not be proven.
"""

from collections.abc import Iterable, Iterator

import attrs

from ..errors import Side, SniffgateError
from .events import Event
from .log_lines import Gap, Header, line_from_json
from .model import State, Switch
from .reducer import reduce
from .serial import NotWhole


class LogDamaged(SniffgateError):
    """An event log cannot be read; the message says which line, and what is wrong with it."""

    side = Side.OPERATOR

    def __init__(self, line: int, message: str) -> None:
        super().__init__(f"line {line}: {message}")
        self.line = line


@attrs.frozen
class PartBegan:
    """A header. `follows` says that its state is the one the reading had reached: the run simply went on."""

    line: int
    header: Header
    follows: bool


@attrs.frozen
class Folded:
    """An event, and the states around it."""

    line: int
    event: Event
    before: State
    after: State

    @property
    def switches(self) -> tuple[Switch, ...]:
        """The changes of active sets that the event brought."""
        return tuple(each for each in self.after.switches if each.epoch > self.before.epoch)


@attrs.frozen
class GapFound:
    """The gateway lost `lost` lines: nothing is provable past `line`, up to the next header."""

    line: int
    lost: int


@attrs.frozen
class LinesMissing:
    """By the numbers of the lines at `line` and `next_line`, `lost` events between them were taken out of the log.

    Nothing is provable past `line`, up to the next header.
    """

    line: int
    next_line: int
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
    is_proven: bool  # to its end: nothing is missing from it


Happening = PartBegan | Folded | GapFound | LinesMissing | TornLine | PartEnded


def read_history(lines: Iterable[str]) -> Iterator[Happening]:
    """Yields what the lines of an event log tell, in their order.

    *Errors:* LogDamaged for a line that is neither an event log's nor torn (a torn line is the last, or a restart wrote
    its header after it), and for lines that are not in their order.
    """
    part: _Part | None = None
    torn: LogDamaged | None = None
    number = 0
    for number, text in enumerate(lines, 1):
        if not text.strip():
            continue
        try:
            line = line_from_json(text)
        except NotWhole as error:
            if torn is not None:
                raise torn from None
            torn = LogDamaged(number, str(error))
            continue
        except ValueError as error:
            raise torn or LogDamaged(number, str(error)) from None
        if torn is not None:
            if not isinstance(line.said, Header):
                raise torn
            yield TornLine(torn.line)
            torn = None
        if isinstance(line.said, Header):
            before = part.state if part is not None and part.is_proven else None
            if part is not None:
                yield from part.end(number, line.said)
            part = _Part(number, line.said)
            yield PartBegan(number, line.said, follows=before == line.said.state)
        elif part is None:
            raise LogDamaged(number, "no header comes before it, so there is no state to start from")
        else:
            yield from part.fold(number, line.said, line.seq)
    if part is None:
        raise torn or LogDamaged(max(number, 1), "the file is empty; an event log begins with a header")
    if torn is not None:
        yield TornLine(torn.line)
    yield from part.end(number, None)


class _Part:
    """One header and what follows it."""

    def __init__(self, line: int, header: Header) -> None:
        self.state = header.state
        self.is_proven = True
        self._line = line
        self._seq = header.seq  # of the last event; None in a log without numbers
        self._events = 0
        self._switches = 0

    def fold(self, line: int, said: Event | Gap, seq: int | None) -> Iterator[Folded | GapFound | LinesMissing]:
        """Folds an event, unless something is missing before it."""
        if not self.is_proven:
            return
        if isinstance(said, Gap):
            self.is_proven = False
            yield GapFound(self._line, said.lost)
            return
        missing = self._missing_before(line, seq)
        if missing:
            self.is_proven = False
            yield LinesMissing(self._line, line, missing)
            return
        folded = Folded(line, said, self.state, _reduced(self.state, said, line))
        self.state = folded.after
        self._line = line
        self._events += 1
        self._switches += len(folded.switches)
        yield folded

    def end(self, line: int, header: Header | None) -> Iterator[LinesMissing | PartEnded]:
        """What the part has come to. `header`, at `line`, is the one that begins the next part."""
        after = None if header is None else header.seq
        if self.is_proven and self._seq is not None and after is not None and after > self._seq:
            self.is_proven = False
            yield LinesMissing(self._line, line, after - self._seq)
        yield PartEnded(self._line, self.state, self._events, self._switches, self.is_proven)

    def _missing_before(self, line: int, seq: int | None) -> int:
        if self._seq is None:
            return 0
        if seq is None:
            raise LogDamaged(line, "the event has no number, though the log before it has numbers")
        if seq <= self._seq:
            raise LogDamaged(line, f"event {seq} comes after event {self._seq}: lines were repeated or moved")
        before, self._seq = self._seq, seq
        return seq - before - 1


def _reduced(state: State, event: Event, line: int) -> State:
    try:
        return reduce(state, event)
    except Exception as error:  # a header that somebody edited may contradict itself in any way
        raise LogDamaged(
            line, f"the event does not fit the state before it ({type(error).__name__}: {error})"
        ) from error
