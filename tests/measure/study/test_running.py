"""What becomes of a study whose trials succeed, fail, lie, lack something, or are broken off; without processes."""

from collections.abc import Callable
from pathlib import Path

import pytest

from sniffgate.measure.study.artifact import NAME, BadArtifact, Scenario, Study, load_study, save_study
from sniffgate.measure.study.gateway import DEFAULT_COMMAND
from sniffgate.measure.study.lab import Lab
from sniffgate.measure.study.resuming import CannotResume, resume
from sniffgate.measure.study.running import run_study
from sniffgate.measure.study.scenario import Absent, ArmPlan, Lied, ScenarioPlan, TrialFailed
from sniffgate.measure.study.summary import summarize

from .studies import study


class Listener:
    """Hears how far it is."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def begins(self, plan: ScenarioPlan, arm: ArmPlan, number: int) -> None:
        self.heard.append(f"{plan.name} {arm.name} {number}")

    def trial_ended(self, plan: ScenarioPlan, *, was_run: bool) -> None:
        if not was_run:
            self.heard.append("not needed")

    def ended(self, plan: ScenarioPlan, scenario: Scenario, *, was_kept: bool) -> None:
        self.heard.append(f"{plan.name} {'kept' if was_kept else scenario.state}")


def plan(run: Callable[[Lab], None], *arms: str, trials: int = 2, name: str = "made-up") -> ScenarioPlan:
    """A scenario with these arms."""
    plans = tuple(ArmPlan(each, each) for each in arms or ("default",))
    return ScenarioPlan(name, "Made up", "Does it?", run, plans, trials, 1.0, "first", {})


def fresh() -> Study:
    """A study that has just begun."""
    made = study()
    made.scenarios, made.ended, made.gateway = {}, None, DEFAULT_COMMAND
    return made


def run(directory: Path, *plans: ScenarioPlan, begun: Study | None = None) -> tuple[Scenario, list[str]]:
    """Runs it; its first scenario as it was written, and what was heard."""
    listener = Listener()
    directory.mkdir(exist_ok=True)
    run_study(begun or fresh(), directory, plans, listener)
    return load_study(directory).scenarios[plans[0].name], listener.heard


def record_number(lab: Lab) -> None:
    lab.record("took_ms", "ms", 1.0)


def test_the_arms_have_their_trials_in_turn(tmp_path: Path) -> None:
    """A bad moment of the machine must not hit one arm alone."""
    scenario, heard = run(tmp_path, plan(record_number, "tcp", "udp"))

    assert ["made-up tcp 1", "made-up udp 1", "made-up tcp 2", "made-up udp 2", "made-up measured"] == heard
    assert ("measured", None) == (scenario.state, scenario.reason)
    assert [[1, 2], [1, 2]] == [[trial.number for trial in arm.trials] for arm in scenario.arms.values()]


def test_a_trial_that_fails_is_recorded_and_gives_no_figure(tmp_path: Path) -> None:
    """The others do; the scenario counts as measured."""
    numbers = iter((1, 2))

    def fail_once(lab: Lab) -> None:
        record_number(lab)
        if next(numbers) == 1:
            raise TrialFailed("the switch did not happen within 20 s")

    scenario, _ = run(tmp_path, plan(fail_once))
    arm = scenario.arms["default"]

    assert "measured" == scenario.state
    assert ["the switch did not happen within 20 s", None] == [trial.failure for trial in arm.trials]
    assert 1 == summarize(arm)["took_ms"].count


def test_a_scenario_without_a_good_trial_has_failed(tmp_path: Path) -> None:
    """With the reason of the last one; an operating system's error is a reason too."""

    def fail(_lab: Lab) -> None:
        raise ConnectionRefusedError(111, "Connection refused")

    scenario, heard = run(tmp_path, plan(fail))

    assert ("failed", "[Errno 111] Connection refused") == (scenario.state, scenario.reason)
    assert "made-up failed" == heard[-1]


def test_a_lie_fails_the_scenario_and_takes_its_figures_along(tmp_path: Path) -> None:
    """Who lied in one trial is not asked again, and what it showed before is not believed."""
    numbers = iter((1, 2))

    def lie_at_last(lab: Lab) -> None:
        record_number(lab)
        if next(numbers) == 2:
            raise Lied("claimed: node-b is active; seen: node-a answers")

    scenario, heard = run(tmp_path, plan(lie_at_last, trials=3))

    assert ("failed", "claimed: node-b is active; seen: node-a answers") == (scenario.state, scenario.reason)
    assert {} == summarize(scenario.arms["default"])
    assert ["made-up default 1", "made-up default 2", "not needed", "made-up failed"] == heard


def test_what_the_gateway_lacks_is_absent(tmp_path: Path) -> None:
    """Arm by arm; a scenario is absent as a whole only when every arm is."""

    def lack_udp(lab: Lab) -> None:
        record_number(lab)
        if lab.arm.name == "udp":
            raise Absent("it does not forward UDP")

    part, _ = run(tmp_path / "part", plan(lack_udp, "tcp", "udp"))
    whole, _ = run(tmp_path / "whole", plan(lack_udp, "udp"))

    assert ("measured", "absent") == (part.state, part.arms["udp"].state)
    assert ("absent", "it does not forward UDP", []) == (whole.state, whole.reason, whole.arms["udp"].trials)


def test_a_reason_names_its_arm_where_there_are_several(tmp_path: Path) -> None:
    """One sentence for the scenario, whichever arm it was."""

    def fail_udp(lab: Lab) -> None:
        if lab.arm.name == "udp":
            raise TrialFailed("no answer")

    scenario, _ = run(tmp_path, plan(fail_udp, "tcp", "udp"))

    assert ("failed", "udp: no answer") == (scenario.state, scenario.reason)


def test_what_was_measured_before_ctrl_c_is_kept_and_not_measured_again(tmp_path: Path) -> None:
    """To the trial: the next run does what is missing, and nothing else."""
    numbers = iter((1, 2, 3))

    def break_off_in_the_third(lab: Lab) -> None:
        record_number(lab)
        if next(numbers) == 3:
            raise KeyboardInterrupt

    first = plan(record_number, name="first")
    with pytest.raises(KeyboardInterrupt):
        run_study(fresh(), tmp_path, [first, plan(break_off_in_the_third, "tcp", "udp")], Listener())

    broken = load_study(tmp_path)
    assert None is broken.ended
    assert ["measured", "unfinished"] == [scenario.state for scenario in broken.scenarios.values()]
    kept = [trial for arm in broken.scenarios["made-up"].arms.values() for trial in arm.trials]
    assert 2 == len(kept)

    _, heard = run(tmp_path, first, plan(record_number, "tcp", "udp"), begun=resume(fresh(), tmp_path))

    assert [
        *["not needed", "not needed", "first kept", "not needed", "not needed"],
        *["made-up tcp 2", "made-up udp 2", "made-up measured"],
    ] == heard
    arms = load_study(tmp_path).scenarios["made-up"].arms
    assert kept == [arms["tcp"].trials[0], arms["udp"].trials[0]]


def test_a_scenario_that_failed_is_measured_again(tmp_path: Path) -> None:
    """As a whole: what it saw then is not mixed with what it sees now."""

    def fail_udp(lab: Lab) -> None:
        record_number(lab)
        if lab.arm.name == "udp":
            raise TrialFailed("no answer")

    run(tmp_path, plan(fail_udp, "tcp", "udp"))
    scenario, heard = run(tmp_path, plan(record_number, "tcp", "udp"), begun=resume(fresh(), tmp_path))

    assert "measured" == scenario.state
    assert [None, None] == [trial.failure for trial in scenario.arms["udp"].trials]
    assert ["made-up tcp 1", "made-up udp 1", "made-up tcp 2", "made-up udp 2", "made-up measured"] == heard


def test_an_arm_that_has_changed_is_measured_anew(tmp_path: Path) -> None:
    """Trials under other overrides are of another arm, whatever its name."""

    def break_off_over_udp(lab: Lab) -> None:
        record_number(lab)
        if lab.arm.name == "udp":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_study(fresh(), tmp_path, [plan(break_off_over_udp, "tcp", "udp")], Listener())
    begun = resume(fresh(), tmp_path)
    begun.scenarios["made-up"].arms["tcp"].overrides["failure_threshold"] = 1

    scenario, heard = run(tmp_path, plan(record_number, "tcp", "udp"), begun=begun)

    assert ("measured", {}) == (scenario.state, scenario.arms["tcp"].overrides)
    assert "not needed" not in heard


@pytest.mark.parametrize(
    ("attribute", "value", "sentence"),
    [
        ("gateway", "other {config}", "another gateway (other {config}, now python -m sniffgate run -c {config})"),
        ("commit", None, "another commit (unknown, now 0123456789ab)"),
        ("trials", 3, "another number of trials (3, now unknown)"),
        ("kernel", "5.10", "another kernel (5.10, now 6.18)"),
    ],
)
def test_two_studies_are_not_mixed(tmp_path: Path, attribute: str, value: object, sentence: str) -> None:
    """A directory holds figures that can be compared with each other, or the run is refused."""
    old = fresh()
    setattr(old, attribute, value)
    save_study(old, tmp_path / NAME)

    with pytest.raises(CannotResume) as refusal:
        resume(fresh(), tmp_path)

    said = f"{tmp_path / NAME} was measured with {sentence}: choose another directory with --out."
    assert said == str(refusal.value)


def test_a_broken_artifact_is_not_gone_on_with(tmp_path: Path) -> None:
    """Nor overwritten."""
    (tmp_path / NAME).write_text("{}")

    with pytest.raises(BadArtifact):
        resume(fresh(), tmp_path)

    assert "{}" == (tmp_path / NAME).read_text()


def test_a_bug_of_the_harness_is_no_failure_of_a_trial(tmp_path: Path) -> None:
    """It ends the run with its traceback: a figure must not go missing because of a typing error."""

    def crash(_lab: Lab) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(tmp_path, plan(crash))
