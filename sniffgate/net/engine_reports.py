"""What the engine has to tell Trio's thread, gathered.

Waking Trio costs more than a short flow does, and two threads that wake each other for every one of them spend their
time waiting for the interpreter's lock. So reports that can wait go out together.
"""

from collections import deque
from collections.abc import Callable

from trio.lowlevel import TrioToken

GATHER = 0.005  # seconds between two deliveries of reports that can wait
DELIVERED_AT_ONCE = 100  # reports; then other tasks have their turn

Report = tuple[Callable[..., object], tuple[object, ...]]


class Reports:
    """Calls to be made in Trio's thread, in order."""

    __slots__ = ("_is_closed", "_is_urgent", "_posted", "_queue", "_token", "due")

    def __init__(self, token: TrioToken) -> None:
        self._token = token
        self._queue: deque[Report] = deque()
        self._is_urgent = False
        self._posted = False
        self._is_closed = False
        self.due = 0.0  # when what is there goes out, monotonic seconds; of meaning while something is there

    def __len__(self) -> int:
        """Reports that have not arrived."""
        return len(self._queue)

    # --- in the engine's thread -----------------------------------------------------------------------

    def add(self, call: Callable[..., object], *args: object, urgent: bool = False) -> None:
        """Makes a call soon; `urgent`: with the end of this turn."""
        if self._is_closed:
            self._token.run_sync_soon(call, *args)
            return
        self._queue.append((call, args))
        if urgent:
            self._is_urgent = True

    @property
    def is_waiting(self) -> bool:
        """Whether something is there that has to be sent at `due`."""
        return bool(self._queue) and not self._posted

    def send_due(self, now: float) -> None:
        """Wakes Trio if it is time; called once a turn."""
        if (self._is_urgent or now >= self.due) and not self._posted:
            self._is_urgent = False
            self._posted = True
            self.due = now + GATHER
            self._token.run_sync_soon(self._deliver)

    # --- in Trio's thread -----------------------------------------------------------------------------

    def close(self) -> None:
        """Delivers what is left, once the engine's thread has ended; what comes later goes out one by one."""
        self._is_closed = True
        while self._queue:
            call, args = self._queue.popleft()
            call(*args)

    def _deliver(self) -> None:
        for _ in range(DELIVERED_AT_ONCE):
            try:
                call, args = self._queue.popleft()
            except IndexError:
                self._posted = False
                if self._queue:  # one that came in between found it posted
                    self._post_again()
                return
            call(*args)
        self._post_again()

    def _post_again(self) -> None:
        self._posted = True
        self._token.run_sync_soon(self._deliver)
