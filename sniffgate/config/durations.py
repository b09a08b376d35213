"""Durations as people write them: milliseconds as a number, or a string such as "200ms", "1.5s", "1m30s"."""

import math
import re

from .schema import INFINITE

_NUMBER = r"([0-9]{1,15}(?:\.[0-9]{1,9})?)"
_PARTS = re.compile(rf"(?:{_NUMBER}d)?(?:{_NUMBER}h)?(?:{_NUMBER}m(?!s))?(?:{_NUMBER}s)?(?:{_NUMBER}ms)?\Z")
_SECONDS = (86400.0, 3600.0, 60.0, 1.0)


def parse_duration(text: str) -> float:
    """Seconds from parts in falling order, each at most once: d, h, m, s, ms; or "inf".

    Raises ValueError, without a message, for anything else (a number without a unit included).

    >>> parse_duration("1m30s")
    90.0
    """
    if text == "inf":
        return INFINITE
    parts = _PARTS.match(text)
    if not text or parts is None:
        raise ValueError
    *longer, milliseconds = parts.groups(default="0")
    whole = sum(float(number) * unit for number, unit in zip(longer, _SECONDS, strict=True))
    # dividing, not multiplying by 0.001: "200ms" must be the very float that 200 gives
    return whole + float(milliseconds) / 1000


def in_milliseconds(seconds: float) -> int | float:
    """Seconds as the file writes them: whole milliseconds where they are whole.

    >>> in_milliseconds(0.05)
    50
    """
    if math.isinf(seconds):
        return seconds
    milliseconds = round(seconds * 1000, 6)
    return int(milliseconds) if milliseconds == int(milliseconds) else milliseconds
