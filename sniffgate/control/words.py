"""How values look in replies: numbers that JSON has a word for, lists and sentences of bounded length."""

import math
from collections.abc import Sequence

from ..state.model import Override

LONGEST_SENTENCE = 240  # characters; a switch of 500 nodes has 500 pieces of evidence
MOST_NAMES = 8
MOST_EVENTS = 1000  # transitions kept, and shown by one command


def clip(sentence: str) -> str:
    """The sentence, cut to what a reply has room for."""
    return sentence if len(sentence) <= LONGEST_SENTENCE else sentence[: LONGEST_SENTENCE - 3] + "..."


def node_names(names: Sequence[str]) -> str | None:
    """An active set as text: its names with commas between, None when it is empty, and never a long one whole."""
    if len(names) > MOST_NAMES:
        return f"{','.join(names[:MOST_NAMES])} and {len(names) - MOST_NAMES} more"
    return ",".join(names) or None


def microseconds(seconds: float | None) -> int | None:
    """Seconds as whole microseconds; None stays None."""
    return None if seconds is None else round(seconds * 1_000_000)


def finite(seconds: float | None) -> float | None:
    """A number of seconds as JSON can carry it: None for infinity."""
    return None if seconds is None or math.isinf(seconds) else seconds


def wish_in_words(wish: Override) -> str:
    """What an operator asked of a node."""
    words = []
    if wish.enabled is not None:
        words.append("enabled" if wish.enabled else "disabled")
    if wish.drain is not None:
        words.append("draining without end" if math.isinf(wish.drain) else f"draining for at most {wish.drain:g} s")
    if wish.mark is not None:
        words.append(f"marked {wish.mark.value}")
    return ", ".join(words) or "as configured"
