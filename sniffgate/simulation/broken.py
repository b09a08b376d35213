"""What a simulation finds."""

import attrs

RULES = {
    "service": "no new connection fails while a node has been reachable for long enough",
    "verdicts": "a node that nothing happened to for long enough is judged as it is",
    "routes": "one priority tier per route, and nobody in use who may not be used",
    "drains": "the flows of a retiring lease end at its deadline, and promotion lifts it",
    "streaks": "a verdict takes as many results in a row as the thresholds say",
    "ejections": "an ejection lasts as long as it must, and longer each time",
    "pins": "a pin holds while its node is usable, and is released then or on request",
    "failback": "a better tier takes over after its delay: not sooner and not later",
    "endings": "every flow ends with a reason, and nothing is left when all have ended",
    "crashes": "nothing inside the gateway crashes",
}


@attrs.frozen
class Broken:
    """A rule that did not hold: its name in `RULES`, what was seen, and when (seconds of the history)."""

    rule: str
    text: str
    at: float
