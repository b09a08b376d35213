"""What the demonstration prints as it happens: milliseconds since its start, who speaks, and what happened."""

import enum
from typing import Protocol

import trio

from .promises import Promise


class Voice(enum.Enum):
    """Who speaks. The value is the word in the second column."""

    DEMO = "demo"
    ACT = "act"  # something is done to the nodes or asked of the gateway
    GATEWAY = "gateway"  # what the gateway decided, in its own words
    CLIENT = "client"  # what a client saw
    KEPT = "kept"
    BROKEN = "BROKEN"


class Page(Protocol):
    """Where lines go."""

    def line(self, at_ms: float, voice: Voice, words: str) -> None:
        """Prints one line of the timeline, at once."""
        ...


class Timeline:
    """Lines stamped with the time since the timeline was made."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._start = trio.current_time()

    def say(self, voice: Voice, words: str) -> None:
        """Prints what `voice` has to say now."""
        self._page.line((trio.current_time() - self._start) * 1000, voice, words)

    def tell(self, promise: Promise) -> None:
        """Prints how a promise turned out."""
        self.say(Voice.KEPT if promise.kept else Voice.BROKEN, str(promise))
