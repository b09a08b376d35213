"""A run's event log, begun with the state that its first event meets."""

from typing import TYPE_CHECKING

import trio

from ..config.schema import Config
from ..state.events import Event
from ..state.model import State

if TYPE_CHECKING:
    from .event_log import EventLog

LAST_LINES_WITHIN = 2.0  # seconds that a slow disk has to take the last lines; then they are lost, not waited for


class Recording:
    """An observer of the hub that writes the event log which `config` asks for, or nothing."""

    def __init__(self, config: Config) -> None:
        self._settings = config.globals
        self._log: EventLog | None = None

    @property
    def lost(self) -> int | None:
        """Lines that could not be recorded; None when there is no event log."""
        return None if self._log is None else self._log.lost

    def begin(self, state: State) -> None:
        """Opens the log, unless it is open. `state` is the hub's, before the first event to record."""
        if self._settings.event_log and self._log is None:
            from .event_log import EventLog  # a start without an event log does not wait for its imports

            self._log = EventLog(self._settings.event_log, self._settings.event_log_max_mb, state)

    def observe(self, before: State, event: Event, after: State) -> None:
        """Records one event that the hub folded."""
        self.begin(before)
        if self._log is not None:
            self._log.record(event, after)

    def reopen(self, state: State) -> None:
        """Opens the path anew, after others moved the file away."""
        if self._log is not None:
            self._log.reopen(state)

    async def close(self) -> None:
        """Waits, for a bounded time and even when cancelled, until the last lines are written."""
        if self._log is None:
            await trio.lowlevel.checkpoint_if_cancelled()
            return
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(self._log.close, LAST_LINES_WITHIN)
