"""Going on with a study that was broken off: what may be kept, and what must not be mixed."""

from pathlib import Path

from ...errors import SniffgateError
from .artifact import NAME, Arm, Scenario, Study, load_study
from .scenario import ScenarioPlan

SAME = {  # what two parts of one study have in common: the attribute, and its name in a sentence
    "gateway": "gateway",
    "commit": "commit",
    "trials": "number of trials",
    "tuning": "tuning",
    "host": "machine",
    "kernel": "kernel",
    "python": "Python",
}


class CannotResume(SniffgateError):
    """A directory holds another study. The message is one sentence that says what differs."""


def resume(fresh: Study, directory: Path) -> Study:
    """The study in a directory, to be gone on with; `fresh` where there is none.

    Errors: `BadArtifact`, `CannotResume`.
    """
    path = directory / NAME
    if not path.exists():
        return fresh
    old = load_study(path)
    for attribute, name in SAME.items():
        before, after = getattr(old, attribute), getattr(fresh, attribute)
        if before != after:
            raise CannotResume(
                f"{path} was measured with another {name} ({_shown(before)}, now {_shown(after)}): "
                "choose another directory with --out."
            )
    old.ended, old.command = None, fresh.command
    return old


def begin(plan: ScenarioPlan, old: Scenario | None) -> Scenario:
    """A scenario to be run, with the trials of a broken-off one that need not be run again."""
    scenario = Scenario(plan.title, plan.question, plan.harness, dict(plan.overrides))
    for arm in plan.arms:
        fresh = Arm(arm.title, dict(arm.overrides), dict(arm.parameters))
        kept = old.arms.get(arm.name) if old is not None and old.overrides == scenario.overrides else None
        if kept and (kept.overrides, kept.parameters) == (fresh.overrides, fresh.parameters):
            fresh.trials = kept.good_trials()
            fresh.configuration = kept.configuration if fresh.trials else None
        scenario.arms[arm.name] = fresh
    if old is not None and any(arm.trials for arm in scenario.arms.values()):
        scenario.started = old.started
    return scenario


def _shown(value: object) -> str:
    text = "unknown" if value is None else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
