"""The event log: a header with the whole state, then every event, so that `sniffgate replay` ends in the same state.

    {"type":"header","wall_ms":…,"seq":0,"schema":2,"state":{…}}
    {"type":"probe_failed","seq":1,"at":…,"wall_ms":…,"endpoint":"node-a/tcp","error":"…"}
    {"type":"gap","lost":3}

Every event of the run has its number, lost ones too, so that a line which is missing is missed. A gap line stands for
lost lines; what follows it is not provable, up to the next header. Restarts append. The file may hold secrets of the
configuration (probe payloads): it is created readable for owner and group only.
"""

import logging
import os
import time
from collections.abc import Callable
from functools import partial

from ..state.events import Event
from ..state.log_lines import gap_to_json, header_to_json
from ..state.model import State
from ..state.serial import event_to_json
from .writer import DEPTH, LineWriter

log = logging.getLogger(__name__)

MB = 1_000_000


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


class EventLog:
    """Records what the hub folds. Nothing here waits or raises: a full disk or queue costs lines, counted in `lost`.

    From `max_mb` megabytes on (0 = no bound) the file is moved to `path.1` and begun anew; it may pass that bound by
    what waits in the queue. Rendering is the writer thread's work: states and events are never changed.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        max_mb: float,
        state: State,
        *,
        wall_ms: Callable[[], int] = _wall_ms,
        depth: int = DEPTH,
    ) -> None:
        self._path = os.fspath(path)
        self._wall_ms = wall_ms
        self._is_short = False
        self._seq = 0  # of the last event
        self._writer = LineWriter(
            path, depth=depth, limit=int(max_mb * MB), gap=gap_to_json, on_trouble=self._report_trouble
        )
        self._writer.reopen(self._header(state))

    @property
    def lost(self) -> int:
        """How many lines could not be recorded since the start."""
        return self._writer.lost

    def record(self, event: Event, state_after: State) -> None:
        """Adds one event; `state_after` is what the hub made of it."""
        self._seq += 1
        is_queued = self._writer.put(partial(event_to_json, event, self._seq))
        if not is_queued and not self._is_short:
            log.warning("event log is too slow; lines are lost", extra={"path": self._path})
        self._is_short = not is_queued
        if self._writer.over_limit:
            self._writer.rotate(self._header(state_after))

    def reopen(self, state: State) -> None:
        """Opens the path anew, after a rotation by others. `state` is the hub's, after the last event recorded."""
        self._writer.reopen(self._header(state))

    def close(self, timeout: float) -> bool:
        """Blocks for at most `timeout` seconds until the queue is written; False if it is not. Call it in a thread."""
        return self._writer.close(timeout)

    def _header(self, state: State) -> Callable[[], str]:
        return partial(header_to_json, state, self._wall_ms(), self._seq)

    def _report_trouble(self, error: Exception) -> None:
        log.warning("event log cannot be written; lines are lost", extra={"path": self._path, "error": str(error)})
