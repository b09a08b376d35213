"""What a study says: the values of an observation, or why there are none. Pure."""

import attrs

from ..study.artifact import Arm, Scenario, Study, Trial
from .sample import Sample

NOT_RUN = "not part of this run"
NOT_SEEN = "not observed"


@attrs.frozen
class Place:
    """Where an observation stands in the artifact, written `scenario/arm/key`."""

    scenario: str
    arm: str
    key: str

    @classmethod
    def of(cls, path: str) -> "Place":
        """Reads `scenario/arm/key`."""
        return cls(*path.split("/"))

    def __str__(self) -> str:
        return f"{self.scenario}/{self.arm}/{self.key}"


@attrs.frozen
class Facts:
    """A study that answers questions."""

    study: Study

    def sample(self, path: str) -> Sample:
        """All values at `scenario/arm/key`, of the trials that did not fail."""
        place = Place.of(path)
        scenario = self.study.scenarios.get(place.scenario)
        if scenario is None:
            return Sample(absent=NOT_RUN)
        arm = scenario.arms.get(place.arm)
        if arm is None:
            return Sample(absent=_why_no_arm(scenario))
        return _sample(arm, place.key)

    def trials(self, scenario: str, arm: str) -> list[Trial]:
        """The good trials of an arm; none when it was not measured."""
        found = self.study.scenarios.get(scenario)
        return found.arms[arm].good_trials() if found is not None and arm in found.arms else []

    def places(self) -> list[Place]:
        """Everything that was observed, in the order of the artifact."""
        return [
            place
            for name, scenario in self.study.scenarios.items()
            for arm_name, arm in scenario.arms.items()
            for place in dict.fromkeys(Place(name, arm_name, key) for trial in arm.trials for key in trial.observations)
        ]


def _why_no_arm(scenario: Scenario) -> str:
    return _worded(scenario.state, scenario.reason) if scenario.state in ("absent", "failed") else NOT_RUN


def _worded(state: str, reason: str | None) -> str:
    return f"{state}: {reason}" if reason else f"{state} when the run ended"


def _sample(arm: Arm, key: str) -> Sample:
    seen = [trial.observations[key] for trial in arm.good_trials() if key in trial.observations]
    if seen:
        values = tuple(value for each in seen for value in each.values)
        return Sample(values, seen[0].unit, remark=_failed_trials(arm))
    lacking = next((trial.absent[key] for trial in arm.trials if key in trial.absent), None)
    if lacking is not None:
        return Sample(absent=f"absent: {lacking}")
    if arm.state == "measured":
        return Sample(absent=_failed_trials(arm) or NOT_SEEN)
    return Sample(absent=_worded(arm.state, arm.reason))


def _failed_trials(arm: Arm) -> str:
    failures = [trial.failure for trial in arm.trials if trial.failure is not None]
    return f"{len(failures)} of {len(arm.trials)} trials failed: {failures[0]}" if failures else ""
