"""The shortest history in which a rule is still broken: steps are left out, and pauses cut, for as long as it is."""

from collections.abc import Callable, Iterator

import attrs

from .broken import Broken
from .history import History, Step, Visit

MOST_PLAYS = 400
PATIENCE = 5.0  # seconds that a rule may be broken later in a shorter history
LAST_WORDS = 0.01  # seconds that a history goes on after what is to be seen in it

Player = Callable[[History], Broken | None]


@attrs.frozen
class Shrunk:
    """What is left of a history, what it breaks, and how many plays it took to find out."""

    history: History
    broken: Broken
    plays: int


def shrink(history: History, broken: Broken, play: Player, most_plays: int = MOST_PLAYS) -> Shrunk:
    """A shorter history that breaks the same rule; `broken` is what `history` breaks. Ends after `most_plays`."""
    search = _Search(history, broken, play, most_plays, history.seconds)
    search.cut_off_the_end()
    before = None
    while before != search.history and search.has_time:
        before = search.history
        search.leave_out_steps()
        search.cut_pauses()
        search.make_plain()
    return Shrunk(search.history, search.broken, search.plays)


@attrs.define
class _Search:
    history: History
    broken: Broken
    play: Player
    most_plays: int
    most_seconds: float
    plays: int = 0

    @property
    def has_time(self) -> bool:
        return self.plays < self.most_plays

    def _try(self, candidate: History) -> bool:
        """Keeps a candidate if the same rule is broken in it."""
        if candidate == self.history or not self.has_time:
            return False
        self.plays += 1
        longer = attrs.evolve(candidate, seconds=min(self.most_seconds, candidate.seconds + PATIENCE))
        broken = self.play(longer)
        if broken is None or broken.rule != self.broken.rule:
            return False
        self.history, self.broken = longer, broken
        self.cut_off_the_end()
        return True

    def cut_off_the_end(self) -> None:
        """Nothing that comes after it is to blame, and what came before is the same without it."""
        end = min(self.history.seconds, round(self.broken.at + LAST_WORDS, 6))
        kept = tuple(step for step in self.history.steps if step.at <= end)
        self.history = attrs.evolve(self.history, seconds=end, steps=kept)

    def leave_out_steps(self) -> None:
        """Halves, quarters and so on, down to single steps."""
        size = max(1, len(self.history.steps) // 2)
        while self.has_time:
            start = 0
            while start < len(self.history.steps) and self.has_time:
                steps = self.history.steps
                if not self._try(attrs.evolve(self.history, steps=steps[:start] + steps[start + size :])):
                    start += size
            if size == 1:
                return
            size //= 2

    def cut_pauses(self) -> None:
        """Lets everything from each step on come sooner."""
        for number in range(len(self.history.steps)):
            for candidate in list(self._sooner(number)):
                if self._try(candidate):
                    break

    def _sooner(self, number: int) -> Iterator[History]:
        steps = self.history.steps
        before = steps[number - 1].at if number else 0.0
        pause = steps[number].at - before
        for shorter in (0.0, 1.0, round(pause / 2, 2), round(pause, 1)):
            if shorter < pause:
                saved = pause - shorter
                moved = tuple(_at(step, round(step.at - saved, 6)) for step in steps[number:])
                yield attrs.evolve(
                    self.history, seconds=round(self.history.seconds - saved, 6), steps=steps[:number] + moved
                )

    def make_plain(self) -> None:
        """No latency where none is needed, and shorter talks."""
        self._try(attrs.evolve(self.history, latency=0.0))
        for number, step in enumerate(self.history.steps):
            if isinstance(step, Visit) and step.seconds > 2.0:
                steps = list(self.history.steps)
                steps[number] = attrs.evolve(step, seconds=2.0)
                self._try(attrs.evolve(self.history, steps=tuple(steps)))


def _at(step: Step, at: float) -> Step:
    return attrs.evolve(step, at=at)
