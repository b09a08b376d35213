"""The lines of an event log: a header with the whole state, events with their numbers, and gaps.

    {"type":"header","wall_ms":…,"seq":0,"schema":2,"state":{…}}
    {"type":"probe_failed","seq":1,"at":…,"wall_ms":…,"endpoint":"node-a/tcp","error":"…"}
    {"type":"gap","lost":3}

`seq` counts the events of a run from 1, those included that were lost, so that a line which is missing is missed. A
header has the number of the event before it. Logs of schema 1 have no numbers; they are read as they are.
"""

from typing import Any

import attrs

from .events import Event
from .model import State
from .serial import encode, event_of, fields_of, state_of, state_pieces, structured

LOG_SCHEMA = 2  # 2: events have numbers. One more whenever an older reader would misread a line


@attrs.frozen(kw_only=True)
class Header:
    """The first line of an event log: the whole state that the events after it start from.

    `seq` is the number of the last event before it, 0 at the start of a run; None in logs without numbers.
    """

    wall_ms: int
    state: State
    seq: int | None = None


@attrs.frozen(kw_only=True)
class Gap:
    """Says that `lost` lines are missing at this place of an event log."""

    lost: int


@attrs.frozen
class Line:
    """What one line of an event log says. `seq` is an event's number, where the log has numbers."""

    said: Header | Gap | Event
    seq: int | None = None


def header_to_json(state: State, wall_ms: int, seq: int | None = None) -> str:
    """The line that starts an event log, or a new part of it after event `seq`; None for a log without numbers."""
    number = "" if seq is None else f'"seq":{seq},'
    whole = "".join(state_pieces(state, LOG_SCHEMA))
    return f'{{"type":"header","wall_ms":{wall_ms},{number}{whole[1:]}'


def gap_to_json(lost: int) -> str:
    """The line that stands where `lost` lines of an event log are missing."""
    return encode({"type": "gap", "lost": lost})


def line_from_json(line: str) -> Line:
    """What one line of an event log says. *Errors:* ValueError, one sentence, for a damaged or unknown line."""
    fields = fields_of(line)
    match fields.get("type"):
        case "header":
            state = state_of(fields, LOG_SCHEMA)
            return Line(Header(wall_ms=structured(fields.get("wall_ms"), int), state=state, seq=_number_in(fields)))
        case "gap":
            del fields["type"]
            return Line(structured(fields, Gap))
        case _:
            seq = _number_in(fields)
            fields.pop("seq", None)
            return Line(event_of(fields), seq)


def _number_in(fields: dict[str, Any]) -> int | None:
    seq = fields.get("seq")
    return None if seq is None else structured(seq, int)
