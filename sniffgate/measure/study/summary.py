"""From raw values to medians with their spread. Pure; the only place where a figure of a study is computed.

Only observations of trials that did not fail count, and none of an arm that failed.
"""

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence

import attrs

from .artifact import Arm, Observation, Study, Value


@attrs.frozen
class Figure:
    """Numbers in one observation of an arm, all its trials taken together."""

    unit: str
    values: tuple[float, ...]  # in the order in which they were seen
    trials: int  # how many of them gave any

    @property
    def count(self) -> int:
        """How many values."""
        return len(self.values)

    @property
    def median(self) -> float:
        """Of all values."""
        return statistics.median(self.values)

    @property
    def least(self) -> float:
        """Of all values."""
        return min(self.values)

    @property
    def most(self) -> float:
        """Of all values."""
        return max(self.values)

    @property
    def quartiles(self) -> tuple[float, float]:
        """A quarter of the values is at most the first, a quarter at least the second; between ranks linear."""
        if len(self.values) == 1:
            return self.values[0], self.values[0]
        lower, _, upper = statistics.quantiles(self.values, n=4, method="inclusive")
        return lower, upper

    def percentile(self, percent: int) -> float:
        """The smallest value that so many percent of the values do not exceed."""
        ordered = sorted(self.values)
        return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


@attrs.frozen
class Words:
    """Words, or true and false, in one observation of an arm: how often each was seen."""

    unit: str
    counts: dict[Value, int]
    trials: int

    @property
    def count(self) -> int:
        """How many values."""
        return sum(self.counts.values())

    @property
    def only(self) -> Value | None:
        """The word, if it was always the same one."""
        return next(iter(self.counts)) if len(self.counts) == 1 else None


Summary = Figure | Words


def summarize(arm: Arm) -> dict[str, Summary]:
    """Every observation of an arm, in the order in which they first appear; those without a value have no entry."""
    trials = arm.good_trials()
    keys = dict.fromkeys(key for trial in trials for key in trial.observations)
    return {key: _summary([t.observations[key] for t in trials if key in t.observations]) for key in keys}


def absences(arm: Arm) -> dict[str, str]:
    """The observations that this gateway has not, and why: those that no trial of the arm has."""
    present = summarize(arm)
    return {key: reason for trial in arm.good_trials() for key, reason in trial.absent.items() if key not in present}


def figure(study: Study, scenario: str, arm: str, key: str) -> Figure | None:
    """A figure by its address; None where there is none (absent, failed, not measured, or words)."""
    found = summary(study, scenario, arm, key)
    return found if isinstance(found, Figure) else None


def words(study: Study, scenario: str, arm: str, key: str) -> Words | None:
    """Words by their address; None where there are none."""
    found = summary(study, scenario, arm, key)
    return found if isinstance(found, Words) else None


def summary(study: Study, scenario: str, arm: str, key: str) -> Summary | None:
    """An observation by its address; None where there is none."""
    arms = study.scenarios[scenario].arms if scenario in study.scenarios else {}
    return summarize(arms[arm]).get(key) if arm in arms else None


def why_not(study: Study, scenario: str, arm: str, key: str) -> str:
    """Why there is no such observation, in words."""
    if scenario not in study.scenarios:
        return "not measured"
    there = study.scenarios[scenario]
    if arm not in there.arms:
        return there.reason or "not measured"
    return absences(there.arms[arm]).get(key) or there.arms[arm].reason or there.reason or "not measured"


def median_of(values: Sequence[float]) -> Figure:
    """A figure of values that are no observation, the harness's own for instance."""
    return Figure("µs", tuple(values), 1)


def _summary(observations: Sequence[Observation]) -> Summary:
    unit, values = observations[0].unit, _together(observations)
    numbers = [float(value) for value in values if not isinstance(value, bool | str)]
    if len(numbers) == len(values):
        return Figure(unit, tuple(numbers), len(observations))
    return Words(unit, dict(Counter(values)), len(observations))


def _together(observations: Iterable[Observation]) -> list[Value]:
    return [value for each in observations for value in each.values]
