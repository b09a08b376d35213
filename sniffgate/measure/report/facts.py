"""What a study says at a place, or why it says nothing. Pure."""

import attrs

from ..study import summary
from ..study.artifact import Study, Trial
from .reading import Reading

NOT_SEEN = "it did not happen"  # the arm was measured, and nobody saw any


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
    """A study that answers questions, and keeps what it was asked: that has a name, whether or not it was measured."""

    study: Study
    asked: dict[str, None] = attrs.field(factory=dict, eq=False)

    def at(self, path: str) -> Reading:
        """What was seen at `scenario/arm/key`, in the trials that did not fail."""
        self.asked[path] = None
        place = attrs.astuple(Place.of(path))
        seen = summary.summary(self.study, *place)
        if seen is None:
            return Reading(absent=self._why_not(Place.of(path)))
        return Reading(seen, remark=self._failed_trials(path))

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

    def _why_not(self, place: Place) -> str:
        scenario = self.study.scenarios.get(place.scenario)
        arm = scenario.arms.get(place.arm) if scenario is not None else None
        is_complete = arm is not None and arm.state == "measured" and not any(t.absent for t in arm.trials)
        return NOT_SEEN if is_complete else summary.why_not(self.study, *attrs.astuple(place))

    def _failed_trials(self, path: str) -> str:
        place = Place.of(path)
        trials = self.study.scenarios[place.scenario].arms[place.arm].trials
        failures = [trial.failure for trial in trials if trial.failure is not None]
        return f"{len(failures)} of {len(trials)} trials failed: {failures[0]}" if failures else ""
