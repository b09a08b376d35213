"""Trouble repeats itself: the first few times a second are worth a line each, the rest one line together."""

from collections.abc import Hashable
from typing import Generic, TypeVar

_Key = TypeVar("_Key", bound=Hashable)

MOST_KEYS = 1024  # told apart in one window; beyond that nothing is held back, and nothing grows


class Repeats(Generic[_Key]):
    """Lets `limit` things of a kind pass in a window of `window` seconds and counts the others."""

    def __init__(self, limit: int, window: float = 1.0) -> None:
        self.limit = limit
        self.window = window
        self._began = float("-inf")
        self._seen: dict[_Key, int] = {}

    def admits(self, key: _Key) -> bool:
        """True when this one should be shown; otherwise it is counted. Call `ended` first."""
        seen = self._seen.get(key, 0)
        if seen or len(self._seen) < MOST_KEYS:
            self._seen[key] = seen + 1
        return seen < self.limit

    def ended(self, now: float) -> list[tuple[_Key, int]]:
        """At the end of a window: what was held back in it, and how often. Begins the next one."""
        if now - self._began < self.window:
            return []
        self._began = now
        return self.taken()

    def taken(self) -> list[tuple[_Key, int]]:
        """What is held back at this moment, which is then forgotten."""
        held_back = [(key, seen - self.limit) for key, seen in self._seen.items() if seen > self.limit]
        self._seen.clear()
        return held_back
