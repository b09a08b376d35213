"""Logging for the command line: the standard library's, one line a record, through a writer that never blocks.

    2026-03-01T12:00:00.123Z warn sniffgate.tasks.hub: switched route=default/tcp to=node-b

The gateway as a library sets nothing up: embedders configure `logging` as they like.
"""

import datetime
import logging
import time
from collections.abc import Callable

from ..tasks.flow_log import LOGGER as FLOW_LOGGER
from ..tasks.repeats import Repeats
from ..tasks.writer import LineWriter

TRACE = 5
LEVELS = {
    "error": logging.ERROR,
    "warn": logging.WARNING,
    "info": logging.INFO,
    "debug": logging.DEBUG,
    "trace": TRACE,
}
REPEATS_PER_S = 10
LONGEST = 16_384  # characters of one record, traceback included: what waits in the writer's queue stays bounded

_STANDARD = logging.LogRecord("", 0, "", 0, "", (), None).__dict__.keys() | {"message", "asctime", "taskName"}


def set_up_logging(level: str, writer: LineWriter, *, clock: Callable[[], float] = time.monotonic) -> None:
    """Sends what sniffgate logs from `level` on, and warnings of everything else, to `writer`.

    Identical records beyond ten a second become one line. Calling it again replaces the writer.
    """
    logging.addLevelName(TRACE, "TRACE")
    logging.raiseExceptions = False  # a handler's own error would go to stderr, which may be a full pipe
    logging.captureWarnings(True)
    root = logging.getLogger()
    for handler in [each for each in root.handlers if isinstance(each, WriterHandler)]:
        root.removeHandler(handler)
        handler.close()
    root.addHandler(WriterHandler(writer, clock))
    root.setLevel(logging.WARNING)
    logging.getLogger(FLOW_LOGGER).setLevel(logging.INFO)  # `flow_log` decides about flows, not the level
    set_level(level)


def set_level(level: str) -> None:
    """Changes from which level on sniffgate logs: error, warn, info, debug or trace. KeyError for any other word."""
    logging.getLogger("sniffgate").setLevel(LEVELS[level])


class WriterHandler(logging.Handler):
    """Hands records to a writer as lines, identical ones beyond a rate as one."""

    def __init__(self, writer: LineWriter, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._writer = writer
        self._clock = clock
        self._repeats: Repeats[str] = Repeats(REPEATS_PER_S)

    def emit(self, record: logging.LogRecord) -> None:
        """Queues the record, or counts it when it is one repeat too many."""
        try:
            said = format_record(record)
            self._summarise(self._repeats.ended(self._clock()))
            if self._repeats.admits(said):
                self._writer.put(f"{_iso(record.created)} {said}")
        except Exception:
            self.handleError(record)

    def flush(self) -> None:
        """Tells of the repeats held back so far; logging calls this at the end of the process."""
        self.acquire()
        try:
            self._summarise(self._repeats.taken())
        finally:
            self.release()

    def _summarise(self, held_back: list[tuple[str, int]]) -> None:
        for said, more in held_back:
            first_line = said.partition("\n")[0]
            self._writer.put(f"{_iso(time.time())} {first_line} ({more} more like it in {self._repeats.window:.1f} s)")


def format_record(record: logging.LogRecord) -> str:
    """Level, logger, message and extra fields; a traceback follows on lines of its own. Without the time."""
    fields = [f" {key}={_field(value)}" for key, value in record.__dict__.items() if key not in _STANDARD]
    level = "warn" if record.levelno == logging.WARNING else record.levelname.lower()
    said = f"{level} {record.name}: {printable(record.getMessage())}{''.join(fields)}"
    if record.exc_info:
        said += "\n" + logging.Formatter().formatException(record.exc_info)
    return said if len(said) <= LONGEST else said[:LONGEST] + " [cut]"


def _iso(created: float) -> str:
    moment = datetime.datetime.fromtimestamp(created, datetime.UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _field(value: object) -> str:
    text = printable(str(value))
    return '"' + text.replace('"', '\\"') + '"' if not text or any(char in text for char in ' ="') else text


def printable(text: str) -> str:
    """`text` with its control characters escaped: what peers said must not forge lines or steer a terminal."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape", "surrogatepass").decode() for char in text
    )
