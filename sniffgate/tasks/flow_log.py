"""The flow log: one line for each finished flow worth telling of, in logfmt.

    listener=web protocol=tcp client=10.0.0.9:51234 node=node-a up=512 down=10240 ms=15.3 reason=complete
    listener=web node=- reason=no_node more=312 within_ms=1000

Under `flow_log = "failed"` a flow is told of unless it ended as flows should: `complete`; `client_reset` (clients do
that as they please); `moved`; for UDP also `idle`, the only way a session can end by itself. A `client_gone` counts as
a failure: it means that the client had waited for a node. Repeats of one failure beyond 20 a second become one line.
"""

import logging
from collections.abc import Callable

import attrs

from ..address import Address
from ..config.schema import FlowLogMode, Transport
from ..net.relay import EndReason
from .repeats import Repeats

LOGGER = "sniffgate.flow"
REPEATS_PER_S = 20
NORMAL = frozenset({EndReason.COMPLETE, EndReason.CLIENT_RESET, EndReason.MOVED})

_Failure = tuple[str, str | None, EndReason]


@attrs.frozen(kw_only=True)
class FlowRecord:
    """A finished flow. `node` is None when it never had one; `up` and `down` are bytes to and from the node."""

    listener: str
    protocol: Transport
    client: Address
    node: str | None
    up: int
    down: int
    duration: float  # seconds
    reason: EndReason
    at: float  # when it ended, seconds on Trio's clock

    @property
    def is_failure(self) -> bool:
        """Whether it ended otherwise than flows should."""
        if self.reason is EndReason.IDLE:
            return self.protocol is not Transport.UDP
        return self.reason not in NORMAL


def log_flow(line: str) -> None:
    """The usual sink: Python's logger `sniffgate.flow`, at level info."""
    logging.getLogger(LOGGER).info("%s", line)


class FlowLog:
    """Writes finished flows to `sink`, which must not block. `mode` may be changed at any time, by a reload."""

    def __init__(self, mode: FlowLogMode, sink: Callable[[str], object] = log_flow) -> None:
        self.mode = mode
        self._sink = sink
        self._repeats: Repeats[_Failure] = Repeats(REPEATS_PER_S)

    def write(self, record: FlowRecord) -> None:
        """Tells of a flow, if the mode asks for it and it is not one repeat too many."""
        self._summarise(self._repeats.ended(record.at))
        if self.mode is FlowLogMode.OFF:
            return
        if record.is_failure:
            if self._repeats.admits((record.listener, record.node, record.reason)):
                self._sink(format_flow(record))
        elif self.mode is FlowLogMode.ALL:
            self._sink(format_flow(record))

    def flush(self) -> None:
        """Tells of the repeats held back so far. For the end: else the next flow after their second does it."""
        self._summarise(self._repeats.taken())

    def _summarise(self, held_back: list[tuple[_Failure, int]]) -> None:
        for (listener, node, reason), more in held_back:
            within_ms = round(self._repeats.window * 1000)
            which = f"listener={_quoted(listener)} node={_node(node)} reason={reason.value}"
            self._sink(f"{which} more={more} within_ms={within_ms}")


def format_flow(record: FlowRecord) -> str:
    """One line of logfmt: `key=value`, values quoted where they hold spaces, quotes or equals signs."""
    return (
        f"listener={_quoted(record.listener)} protocol={record.protocol.value} client={record.client} "
        f"node={_node(record.node)} up={record.up} down={record.down} ms={record.duration * 1000:.1f} "
        f"reason={record.reason.value}"
    )


def _node(name: str | None) -> str:
    if name is None:
        return "-"
    return '"-"' if name == "-" else _quoted(name)


def _quoted(text: str) -> str:
    if text and text.isprintable() and not any(char in text for char in ' ="\\'):
        return text
    return '"' + "".join(_escaped(char) for char in text) + '"'


def _escaped(char: str) -> str:
    if char in '"\\':
        return "\\" + char
    return char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
