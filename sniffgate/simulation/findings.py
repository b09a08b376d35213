"""A history that breaks a rule, told in full: shrunk, and with all that happened in it."""

import attrs

from ..config.schema import Config
from ..testing.timeline import KEPT, Line, Timeline
from .broken import Broken
from .history import History
from .play import play
from .shrink import shrink


@attrs.frozen
class Told:
    """What a history breaks, and how. `steps` is how many it had before it was shrunk by `plays` plays."""

    history: History
    broken: Broken
    steps: int
    plays: int
    timeline: tuple[Line, ...]


def tell(config: Config, history: History, broken: Broken, *, shrinks: bool) -> Told:
    """Tells of a history that breaks `broken`; a shrunk one breaks the same rule, perhaps elsewhere."""
    shortest, plays = history, 0
    if shrinks:
        shrunk = shrink(history, broken, lambda candidate: play(config, candidate))
        shortest, broken, plays = shrunk.history, shrunk.broken, shrunk.plays
    timeline = Timeline()
    play(config, shortest, timeline)
    return Told(shortest, broken, len(history.steps), plays, timeline.last(KEPT))
