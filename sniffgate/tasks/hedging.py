"""Hedging within bounds: a slow pool must not be asked for everything twice just because it is slow."""

from collections import deque

SHARE = 0.1  # of a route's new flows may be hedged
LEAST = 3  # hedges that are always allowed within the window, or a quiet route could never hedge
WINDOW = 10.0  # seconds


class HedgeBudget:
    """The hedges of one route. Times are seconds on any one clock; flows are counted by whole seconds."""

    def __init__(self) -> None:
        self._flows: deque[tuple[int, int]] = deque()  # (second, new flows in it)
        self._counted = 0
        self._hedges: deque[float] = deque()

    def count_flow(self, now: float) -> None:
        """A new flow of the route began."""
        second = int(now)
        if self._flows and self._flows[-1][0] == second:
            self._flows[-1] = (second, self._flows[-1][1] + 1)
        else:
            self._flows.append((second, 1))
        self._counted += 1
        self._forget(now)

    def take(self, now: float) -> bool:
        """Whether one more hedge is within bounds; if so it counts."""
        self._forget(now)
        if len(self._hedges) >= max(LEAST, int(SHARE * self._counted)):
            return False
        self._hedges.append(now)
        return True

    def _forget(self, now: float) -> None:
        while self._flows and self._flows[0][0] <= now - WINDOW - 1:
            self._counted -= self._flows.popleft()[1]
        while self._hedges and self._hedges[0] <= now - WINDOW:
            self._hedges.popleft()
