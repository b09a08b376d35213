"""Runs a study: trial by trial, the arms of a scenario in turn. The artifact is written after each."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from .artifact import NAME, Arm, Scenario, Study, now, save_study
from .lacks import Abilities
from .resuming import begin
from .scenario import ArmPlan, ScenarioPlan
from .trial import run_trial

DONE = ("measured", "absent")


class Audience(Protocol):
    """Who is told how far it is."""

    def begins(self, plan: ScenarioPlan, arm: ArmPlan, number: int) -> None:
        """A trial begins."""

    def ended(self, plan: ScenarioPlan, scenario: Scenario, *, was_kept: bool) -> None:
        """A scenario has ended, in this run or in an earlier one."""

    def trial_ended(self, plan: ScenarioPlan, *, was_run: bool) -> None:
        """A trial has ended, or is not needed."""


def run_study(study: Study, directory: Path, plans: Sequence[ScenarioPlan], audience: Audience) -> None:
    """Runs what is not measured yet. On `KeyboardInterrupt` everything up to the last whole trial has been written.

    Errors: `BadArtifact` when the artifact cannot be written.
    """
    path = directory / NAME
    abilities = Abilities(study.gateway)
    for plan in plans:
        old = study.scenarios.get(plan.name)
        if old is not None and old.state in DONE:
            for _ in range(sum(plan.trials_of(arm, study.trials) for arm in plan.arms)):
                audience.trial_ended(plan, was_run=False)
            audience.ended(plan, old, was_kept=True)
            continue
        scenario = study.scenarios[plan.name] = begin(plan, old if old and old.state == "unfinished" else None)
        scenario.started = scenario.started or now()
        _run_arms(plan, scenario, study, path, abilities, audience)
        _conclude(scenario)
        study.load_average.append(round(os.getloadavg()[0], 2))
        save_study(study, path)
        audience.ended(plan, scenario, was_kept=False)
    study.ended = now()
    save_study(study, path)


def _run_arms(
    plan: ScenarioPlan, scenario: Scenario, study: Study, path: Path, abilities: Abilities, audience: Audience
) -> None:
    for arm_plan in plan.arms:
        lack = abilities.lack_of(plan.settings(arm_plan))
        if lack:
            _be_absent(scenario.arms[arm_plan.name], lack)
    most = max(plan.trials_of(arm, study.trials) for arm in plan.arms)
    for number in range(1, most + 1):
        for arm_plan in plan.arms:  # in turn, so that none of them has all the bad moments of the machine
            arm = scenario.arms[arm_plan.name]
            if number > plan.trials_of(arm_plan, study.trials):
                continue
            is_due = arm.state == "unfinished" and all(trial.number != number for trial in arm.trials)
            if is_due:
                audience.begins(plan, arm_plan, number)
                _run_one(plan, arm_plan, arm, number, study.gateway)
                save_study(study, path)
            audience.trial_ended(plan, was_run=is_due)


def _run_one(plan: ScenarioPlan, arm_plan: ArmPlan, arm: Arm, number: int, command: str) -> None:
    outcome = run_trial(plan, arm_plan, number, command)
    arm.configuration = arm.configuration or outcome.configuration
    if outcome.absent:
        _be_absent(arm, outcome.absent)
        return
    arm.trials = sorted([*arm.trials, outcome.trial], key=lambda trial: trial.number)
    if outcome.lied:
        arm.state, arm.reason = "failed", outcome.trial.failure


def _be_absent(arm: Arm, reason: str) -> None:
    arm.state, arm.reason, arm.trials = "absent", reason, []


def _conclude(scenario: Scenario) -> None:
    """Says what became of a scenario whose trials have all been run."""
    scenario.ended = now()
    for arm in scenario.arms.values():
        if arm.state == "unfinished" and arm.good_trials():
            arm.state = "measured"
        elif arm.state == "unfinished":
            arm.state, arm.reason = "failed", arm.trials[-1].failure
    failed, absent = (_reasons(scenario, state) for state in ("failed", "absent"))
    if failed:
        scenario.state, scenario.reason = "failed", _together(failed, scenario)
    elif len(absent) == len(scenario.arms):
        scenario.state, scenario.reason = "absent", _together(absent, scenario)
    else:
        scenario.state = "measured"


def _reasons(scenario: Scenario, state: str) -> dict[str, str]:
    return {name: arm.reason or state for name, arm in scenario.arms.items() if arm.state == state}


def _together(reasons: dict[str, str], scenario: Scenario) -> str:
    """One sentence; arms are named where they have different reasons, or not all of them have one."""
    if len(set(reasons.values())) == 1 and len(reasons) == len(scenario.arms):
        return next(iter(reasons.values()))
    return "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
