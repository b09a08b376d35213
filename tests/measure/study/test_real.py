"""The study on real processes: this package's gateway, and a foreign one that is honest or lies."""

import contextlib
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sniffgate.measure.study.artifact import load_study
from sniffgate.measure.study.gateway import DEFAULT_COMMAND
from sniffgate.measure.study.lacks import Abilities
from sniffgate.measure.study.scenario import SCENARIOS, ArmPlan, ScenarioPlan
from sniffgate.measure.study.scenarios import __all__ as modules
from sniffgate.measure.study.summary import figure, words
from sniffgate.measure.study.trial import Outcome, run_trial

FAKE = f"{sys.executable} -S {Path(__file__).with_name('fake_gateway.py')} {{config}}"
SNIFFGATE = [sys.executable, "-m", "sniffgate", "measure"]

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def planned(scenario: str, arm: str) -> tuple[ScenarioPlan, ArmPlan]:
    """An arm by its name."""
    assert modules
    plan = SCENARIOS[scenario]
    return plan, next(each for each in plan.arms if each.name == arm)


def try_once(scenario: str, arm: str, command: str) -> Outcome:
    """One trial."""
    return run_trial(*planned(scenario, arm), 1, command)


def test_a_short_study_is_measured_within_its_minute(tmp_path: Path) -> None:
    """With `--only startup,drain --trials 1`: all has a figure, and drained connections end when they should."""
    began = time.monotonic()
    command = [*SNIFFGATE, "--only", "startup,drain", "--trials", "1", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert (0, "startup: measured\ndrain: measured\n") == (done.returncode, done.stderr)
    assert time.monotonic() - began < 60
    assert "The harness: its clock steps by" in done.stdout
    found = load_study(tmp_path)
    assert [True] * 3 == [words(found, "drain", arm, "closed").only for arm in ("both", "tcp-only", "zero")]  # type: ignore[union-attr]  # it is there
    both, zero = (figure(found, "drain", arm, "closed_ms") for arm in ("both", "zero"))
    assert both is not None
    assert zero is not None
    assert 1000 <= both.median < 1500
    assert zero.median < 500
    assert found.clock is not None
    assert all(arm.configuration for scenario in found.scenarios.values() for arm in scenario.arms.values())


def test_an_honest_foreign_gateway_is_measured() -> None:
    """The same scenario on a program that knows nothing of this package; its path is one from where we are."""
    with contextlib.chdir(Path(__file__).parent):
        outcome = try_once("drain", "both", f"{sys.executable} -S fake_gateway.py {{config}}")

    assert (None, False, None) == (outcome.trial.failure, outcome.lied, outcome.absent)
    assert [True] == outcome.trial.observations["closed"].values


@pytest.mark.parametrize(
    ("scenario", "arm", "lie", "said"),
    [
        (
            *("drain", "both", "switch"),
            "claimed: node-b is active over tcp; seen: 5 of 5 new clients were answered by node-a",
        ),
        ("startup", "default", "probes", "claimed: "),
        ("probe", "tcp", "answers", "claimed: "),
    ],
)
def test_a_gateway_that_lies_is_caught(scenario: str, arm: str, lie: str, said: str) -> None:
    """What it claims is held against the answers of the nodes and against what these counted themselves."""
    outcome = try_once(scenario, arm, f"{FAKE} {lie}")

    assert outcome.lied
    assert outcome.trial.failure is not None
    assert outcome.trial.failure.startswith(said)
    assert "; seen: " in outcome.trial.failure


def test_what_a_foreign_gateway_lacks_is_absent() -> None:
    """A command that it does not know, a transport that it does not forward."""
    assert "it does not forward UDP: a datagram had no answer before anything failed" == (
        try_once("udp", "switch", FAKE).absent
    )


def test_a_key_that_a_foreign_gateway_does_not_take_is_found_out_before() -> None:
    """By trying it: a program that refuses unknown keys refuses this one; the one beside it, it takes."""
    abilities = Abilities(FAKE)

    lack = abilities.lack_of({"failure_threshold": 1, "hedge_delay_ms": 0})
    assert "it does not take hedge_delay_ms: the gateway ended at its start: unknown key hedge_delay_ms" == lack
    assert None is abilities.lack_of({"tripwire_of_another": 1})
    assert None is Abilities(DEFAULT_COMMAND).lack_of({"hedge_delay_ms": 0})


def test_ctrl_c_keeps_what_was_measured(tmp_path: Path) -> None:
    """The artifact is whole, the exit status is that of an interrupt."""
    command = [*SNIFFGATE, "--only", "probe", "--out", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        end = time.monotonic() + 30
        while not (tmp_path / "study.json").exists() and time.monotonic() < end:
            time.sleep(0.05)
        child.send_signal(signal.SIGINT)
        out, errors = child.communicate(timeout=20)

    assert (130, "interrupted; the same command with this --out goes on\n") == (child.returncode, errors)
    found = load_study(tmp_path)
    assert (None, "unfinished") == (found.ended, found.scenarios["probe"].state)
    assert any(arm.trials for arm in found.scenarios["probe"].arms.values())
    assert f"{tmp_path}/study.json has every value." in out


@pytest.mark.soak
def test_every_scenario_of_the_first_harness_is_measured(tmp_path: Path) -> None:
    """None fails on this package's own gateway, and none of it is absent but peers that are not installed."""
    names = [name for name, plan in SCENARIOS.items() if plan.harness == "first"]
    command = [*SNIFFGATE, "--only", ",".join(names), "--trials", "1", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)

    assert 0 == done.returncode, done.stderr
    found = load_study(tmp_path)
    assert {"measured"} == {scenario.state for scenario in found.scenarios.values()}
    arms = {name: arm for scenario in found.scenarios.values() for name, arm in scenario.arms.items()}
    assert {name for name, arm in arms.items() if arm.state != "measured"} <= {"haproxy", "nginx"}
    assert {"udp_rtt_us"} >= {key for arm in arms.values() for trial in arm.trials for key in trial.absent}
