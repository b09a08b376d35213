"""Two clocks: the gateway's own, which decides, and the wall's, which is shown to people and decides nothing."""

import time
from collections.abc import Callable

import trio


class Clock:
    """Seconds since the gateway's start on Trio's clock. Made inside a Trio run."""

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        """`wall` gives seconds since 1970."""
        self.started = trio.current_time()
        self._wall = wall

    def now(self) -> float:
        """Seconds since the gateway's start."""
        return trio.current_time() - self.started

    def at(self, moment: float) -> float:
        """A moment of Trio's clock in seconds since the gateway's start."""
        return moment - self.started

    def wall_ms(self) -> int:
        """Milliseconds since 1970, for people."""
        return int(self._wall() * 1000)

    def deadline(self, at: float) -> float:
        """The moment `at` of the gateway as a deadline for Trio's scopes."""
        return self.started + at
