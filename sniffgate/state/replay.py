"""Replaying an event log: tells every switch with the evidence behind it."""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator

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
    TimePassed,
)
from .history import Folded as Folded
from .history import GapFound as GapFound
from .history import LinesMissing as LinesMissing
from .history import LogDamaged as LogDamaged
from .history import PartBegan as PartBegan
from .history import PartEnded as PartEnded
from .history import TornLine as TornLine
from .history import read_history
from .model import Switch

WITNESSES = 6  # events remembered for each node


@attrs.frozen
class Witness:
    """An event and the line it stands on."""

    line: int
    event: Event


@attrs.frozen
class Switched:
    """An active set changed. The last of `evidence` is the event that did it; the others are about those nodes."""

    switch: Switch
    evidence: tuple[Witness, ...]

    @property
    def line(self) -> int:
        """The line of the event that did it."""
        return self.evidence[-1].line


Finding = PartBegan | Switched | GapFound | LinesMissing | TornLine | PartEnded


def replay_lines(lines: Iterable[str]) -> Iterator[Finding]:
    """Yields what the lines of an event log prove, in their order. *Errors:* LogDamaged, as `read_history` says."""
    witnesses = _Witnesses()
    for happening in read_history(lines):
        match happening:
            case PartBegan():
                witnesses = _Witnesses()
                yield happening
            case Folded(line, event):
                this = Witness(line, event)
                for switch in happening.switches:
                    yield Switched(switch, (*witnesses.about(switch), this))
                witnesses.add(this)
            case _:
                yield happening


class _Witnesses:
    """The last events about each node."""

    def __init__(self) -> None:
        self._by_node: defaultdict[str, deque[Witness]] = defaultdict(lambda: deque(maxlen=WITNESSES))

    def add(self, witness: Witness) -> None:
        name = _subject(witness.event)
        if name is not None:
            self._by_node[name].append(witness)

    def about(self, switch: Switch) -> list[Witness]:
        """Those about the nodes that left or joined, in the order of the log."""
        concerned = set(switch.before) ^ set(switch.after)
        return sorted((each for name in concerned for each in self._by_node.get(name, ())), key=lambda each: each.line)


def _subject(event: Event) -> str | None:
    """The node an event is about; None for those about all."""
    match event:
        case ConfigApplied() | OperatorReleased() | TimePassed():
            return None
        case OperatorSwitched() | OperatorEnabled() | OperatorDisabled() | OperatorDrained() | OperatorMarked():
            return event.node
        case _:
            return event.endpoint.node
