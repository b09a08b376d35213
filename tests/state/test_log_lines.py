"""The lines of an event log look as documented, and are read as they were written."""

import json

import pytest

from sniffgate.config.schema import Transport
from sniffgate.state.events import TripwireFired
from sniffgate.state.log_lines import LOG_SCHEMA, Gap, Header, Line, gap_to_json, header_to_json, line_from_json
from sniffgate.state.model import Endpoint
from sniffgate.state.serial import event_to_json
from tests.state.test_serial import a_state

EVENT = TripwireFired(at=1.5, endpoint=Endpoint("node-a", Transport.UDP))


def test_lines_look_as_documented() -> None:
    """Other programs read the event log too."""
    assert '{"type":"gap","lost":3}' == gap_to_json(3)
    assert '{"type":"header","wall_ms":5,"seq":0,"schema":2,"state":{' == header_to_json(a_state(), 5, 0)[:57]
    assert '{"type":"tripwire_fired","seq":7,"at":1.5,"wall_ms":0,"endpoint":"node-a/udp"}' == event_to_json(EVENT, 7)


@pytest.mark.parametrize("seq", [None, 0, 12])
def test_a_header_holds_the_schema_the_wall_time_and_the_state(seq: int | None) -> None:
    """Whoever reads the log learns from its first line whether they can, and when it began."""
    line = header_to_json(a_state(), 1234, seq)

    assert ("header", LOG_SCHEMA, 1234) == tuple(json.loads(line)[key] for key in ("type", "schema", "wall_ms"))
    assert Line(Header(wall_ms=1234, state=a_state(), seq=seq)) == line_from_json(line)


def test_gaps_and_numbered_events_are_read_as_they_were_written() -> None:
    """The number is the line's, not the event's."""
    assert Line(Gap(lost=3)) == line_from_json(gap_to_json(3))
    assert Line(EVENT, seq=7) == line_from_json(event_to_json(EVENT, 7))
    assert Line(EVENT, seq=None) == line_from_json(event_to_json(EVENT))


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('{"type":"gap"}', "lost"),
        ('{"type":"gap","lost":1,"seq":2}', "seq"),
        ('{"type":"header","wall_ms":1}', "no schema number"),
        ('{"type":"tripwire_fired","seq":1.5,"at":1,"endpoint":"a/tcp"}', "expected int, found float"),
    ],
)
def test_a_damaged_line_is_one_clear_sentence(line: str, complaint: str) -> None:
    """Its reader hears what is wrong."""
    with pytest.raises(ValueError, match=complaint) as caught:
        line_from_json(line)
    assert "\n" not in str(caught.value)
