"""Flows out of the program's log: the lines of the flow log, with the time of day at which they were written."""

import datetime
import re
from collections.abc import Iterable

import attrs

from ..config.schema import Transport
from ..errors import Side, SniffgateError
from ..net.relay import EndReason
from ..state.cuts import FlowSpan

_LINE = re.compile(r"(?P<at>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z) info sniffgate\.flow: (?P<fields>.*)")
_FIELD = re.compile(r'(\w+)=("(?:[^"\\]|\\.)*"|\S+)')
_MORE = re.compile(r"\((\d+) more like it in ")


class NoFlowLog(SniffgateError):
    """A file does not hold a flow log, or holds a line of it that cannot be read; the message says which line."""

    side = Side.OPERATOR


@attrs.frozen
class FlowLogRead:
    """What a log told of flows: TCP flows with a node, and how many others there were."""

    flows: tuple[FlowSpan, ...]
    udp: int  # sessions: they move
    without_node: int
    summed_up: int  # told of by number only


def read_flows(lines: Iterable[str]) -> FlowLogRead:
    """The flows that the program's log tells of; other lines are passed over. *Errors:* NoFlowLog."""
    flows: list[FlowSpan] = []
    udp = without_node = summed_up = 0
    number = seen = 0
    for number, line in enumerate(lines, 1):
        found = _LINE.search(line)
        if found is None:
            continue
        seen += 1
        fields = {name: _plain(value) for name, value in _FIELD.findall(found["fields"])}
        try:
            if "more" in fields:
                summed_up += int(fields["more"])
                continue
            if (more := _MORE.search(found["fields"])) is not None:
                summed_up += int(more[1])
                continue
            if Transport(fields["protocol"]) is Transport.UDP:
                udp += 1
            elif " node=- " in found["fields"]:  # a node of that name stands in quotes
                without_node += 1
            else:
                flows.append(_span(found["at"], fields))
        except KeyError as error:
            raise NoFlowLog(f"line {number}: a line of the flow log without {error.args[0]}") from None
        except ValueError as error:
            raise NoFlowLog(f"line {number}: not a line of the flow log: {error}") from None
    if not seen:
        raise NoFlowLog(f"none of its {number} lines is one of the flow log, which the program's own log holds")
    return FlowLogRead(tuple(flows), udp, without_node, summed_up)


def _span(at: str, fields: dict[str, str]) -> FlowSpan:
    ended_ms = datetime.datetime.fromisoformat(at).timestamp() * 1000
    return FlowSpan(
        listener=fields["listener"],
        node=fields["node"],
        began_ms=ended_ms - float(fields["ms"]),
        ended_ms=ended_ms,
        was_cut=EndReason(fields["reason"]) is EndReason.DRAINED,
    )


def _plain(value: str) -> str:
    return re.sub(r"\\(.)", r"\1", value[1:-1]) if value.startswith('"') else value
