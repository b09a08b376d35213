"""The moments at which things happen on the virtual network: a queue of actions on Trio's clock."""

import heapq
import itertools
from collections.abc import Callable

import trio


class Wire:
    """Carries out each action at its instant; actions of one instant in the order they were asked for.

    What is due now is done before `after` returns, as a kernel delivers over loopback. For what is due later a system
    task sleeps, one per wire and only while something is due, so that a network needs no nursery and belongs to no run.
    """

    def __init__(self) -> None:
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._busy = False
        self._sooner: trio.Event | None = None  # None: no task sleeps
        self._asleep_until = 0.0  # Trio's clock; whatever is due later need not wake the task

    def after(self, delay: float, action: Callable[[], None]) -> None:
        """Does `action` in `delay` seconds. An action is synchronous and never fails."""
        heapq.heappush(self._due, (trio.current_time() + delay, next(self._numbers), action))
        self.settle()

    def settle(self) -> None:
        """Does whatever is due by now. Called from an action it does nothing: the caller's caller goes on anyway."""
        if self._busy:
            return
        self._busy = True
        try:
            while self._due and self._due[0][0] <= trio.current_time():
                heapq.heappop(self._due)[2]()
        finally:
            self._busy = False
        if self._due:
            self._stir()

    def _stir(self) -> None:
        if self._sooner is None:
            self._sooner, self._asleep_until = trio.Event(), 0.0
            trio.lowlevel.spawn_system_task(self._sleep_and_settle)
        elif self._due[0][0] < self._asleep_until:
            self._sooner.set()

    async def _sleep_and_settle(self) -> None:
        """Settles at each due instant; returns when nothing is due.

        *Cancellation:* the run has ended, and what was due in it never happens.
        """
        try:
            while self._due:
                self._sooner, self._asleep_until = trio.Event(), self._due[0][0]
                with trio.move_on_at(self._asleep_until):
                    await self._sooner.wait()
                self.settle()
        except trio.Cancelled:
            self._due.clear()
            raise
        finally:
            self._sooner = None
