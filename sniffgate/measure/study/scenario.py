"""How a scenario is declared.

    @scenario("failover", "Fail-stop of the active node", "When is it noticed?", trials=5, harness="first",
              arms=(ArmPlan("tcp", "TCP probes"), ArmPlan("udp", "UDP probes", {"nodes.probe": "udp"})))
    def failover(lab: Lab) -> None:
        a, b = lab.node("node-a", priority=10), lab.node("node-b", priority=5)
        gateway = lab.gateway([a, b])
        gateway.until_healthy("node-a", "node-b")
        died = a.kill()
        lab.record("switch_ms", "ms", 1000 * (gateway.until_active("node-b") - died))

The function is one trial of one arm: it is called anew for each, with a `Lab` of its own whose processes end with it.
It says what it saw with `lab.record`, and raises what is below when there is nothing to say. Every module that
declares scenarios is named in `scenarios/__init__.py`, in the order of the study.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal

import attrs

from ...errors import SniffgateError
from .artifact import Setting

if TYPE_CHECKING:
    from .lab import Lab

Harness = Literal["first", "second", "beyond"]


class TrialFailed(SniffgateError):
    """Something did not happen, or not in time: the trial has no figures. The message says what."""


class Absent(SniffgateError):
    """The gateway under test lacks what this needs. The message says what; it is never a zero."""


class Lied(SniffgateError):
    """The gateway claims what did not happen. The message says what was claimed and what was seen."""


@attrs.frozen
class ArmPlan:
    """One setting. `overrides` are keys of `[global]`, or `nodes.KEY` for every node; `parameters` are for `run`."""

    name: str
    title: str
    overrides: Mapping[str, Setting] = attrs.field(factory=dict)
    parameters: Mapping[str, Setting] = attrs.field(factory=dict)
    trials: int | None = None  # its own number, where it differs from the scenario's


DEFAULT = (ArmPlan("default", "Tuning of the study"),)


@attrs.frozen
class ScenarioPlan:
    """A scenario as declared. `seconds` is about what one trial takes, for the remaining time."""

    name: str
    title: str
    question: str
    run: "Callable[[Lab], None]"
    arms: tuple[ArmPlan, ...]
    trials: int
    seconds: float
    harness: Harness
    overrides: Mapping[str, Setting]  # of every arm

    def settings(self, arm: ArmPlan) -> dict[str, Setting]:
        """All that an arm overrides."""
        return {**self.overrides, **arm.overrides}

    def trials_of(self, arm: ArmPlan, asked: int | None) -> int:
        """How many trials of an arm are run when `asked` were asked for."""
        return asked or arm.trials or self.trials


SCENARIOS: dict[str, ScenarioPlan] = {}


def scenario(
    name: str,
    title: str,
    question: str,
    *,
    harness: Harness,
    arms: tuple[ArmPlan, ...] = DEFAULT,
    trials: int = 1,
    seconds: float = 3.0,
    overrides: Mapping[str, Setting] | None = None,
) -> "Callable[[Callable[[Lab], None]], Callable[[Lab], None]]":
    """Enters a function in the study under a name."""

    def enter(run: "Callable[[Lab], None]") -> "Callable[[Lab], None]":
        assert name not in SCENARIOS
        SCENARIOS[name] = ScenarioPlan(name, title, question, run, arms, trials, seconds, harness, overrides or {})
        return run

    return enter
