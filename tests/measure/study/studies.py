"""Small studies, made by hand."""

from sniffgate.measure.study.artifact import Arm, ClockFigures, Observation, Scenario, Study, Trial, Value

MOMENT = "2026-11-30T17:00:00.000+00:00"


def trial(number: int = 1, failure: str | None = None, **values: list[Value]) -> Trial:
    """A trial with these observations, all in milliseconds."""
    return Trial(number, MOMENT, MOMENT, failure, {key: Observation("ms", each) for key, each in values.items()})


def arm(*trials: Trial, state: str = "measured", reason: str | None = None) -> Arm:
    """An arm with these trials."""
    return Arm("an arm", state=state, reason=reason, trials=list(trials))  # type: ignore[arg-type]  # a state


def study(**arms: Arm) -> Study:
    """A study with one scenario, `failover`, that has these arms."""
    return Study(
        host={"machine": "x86_64", "processor": "", "processors": 2, "system": "Linux"},
        kernel="6.18",
        python="CPython 3.11.7",
        versions={"sniffgate": "0.1.0", "haproxy": None},
        commit="0123456789ab",
        command=["sniffgate", "measure"],
        gateway="python -m sniffgate run -c {config}",
        tuning={"probe_interval_ms": 100, "fail_open": True},
        trials=None,
        started=MOMENT,
        ended=MOMENT,
        clock=ClockFigures(0.04, [0.04], [20.0], [80.0], [200.0], [800.0]),
        load_average=[0.1],
        scenarios={"failover": Scenario("Fail-stop", "When?", "first", state="measured", arms=dict(arms))},
    )
