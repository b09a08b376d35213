"""What each rule of health writes down, field by field: nothing else changes, and nothing is forgotten."""

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from sniffgate.config.schema import GlobalConfig
from sniffgate.state import health as rules
from sniffgate.state.health import Moment
from sniffgate.state.model import Cause, Health, PassiveFailure, Verdict

RULES = GlobalConfig(
    failure_threshold=3, success_threshold=2, passive_eject_threshold=3, passive_eject_window=5.0, probe_timeout=0.5,
    eject_time=1.0, eject_time_max=60.0,
)  # fmt: skip
WHEN = Moment(10.0, 777)
RECENT, OLDER = PassiveFailure(8.0), PassiveFailure(6.0)
BEFORE = Health(  # every field differs from its default, and from what the rules would write
    verdict=Verdict.UNKNOWN, cause=Cause.START, since=1.0, good_streak=0, bad_streak=1, stepped_at=3.0,
    window=(RECENT,), ejections=2, ejected_until=None, returned_at=-100.0, suspected=True, joining=True,
    last_error="old", last_latency=0.5, last_probe_at=6.0, probe_ok=7, probe_fail=8, passive_ejects=9, promotions=3,
    changed_wall_ms=11, probed_wall_ms=12,
)  # fmt: skip
HEALTHY = attrs.evolve(BEFORE, verdict=Verdict.HEALTHY, cause=Cause.PROBES)
UNHEALTHY = attrs.evolve(BEFORE, verdict=Verdict.UNHEALTHY, cause=Cause.PROBES, suspected=False)
EJECTED = attrs.evolve(UNHEALTHY, cause=Cause.TRAFFIC, ejected_until=9.5, bad_streak=0, stepped_at=None)
PROBATION = attrs.evolve(UNHEALTHY, verdict=Verdict.PROBATION, cause=Cause.TIME)
FLIPPED: dict[str, Any] = {"since": 10.0, "changed_wall_ms": 777}
GOOD: dict[str, Any] = {"last_latency": 0.25, "last_probe_at": 10.0, "probed_wall_ms": 777, "probe_ok": 8,
        "bad_streak": 0, "stepped_at": None, "suspected": False}  # fmt: skip
BAD: dict[str, Any] = {
    "last_probe_at": 10.0,
    "probed_wall_ms": 777,
    "probe_fail": 9,
    "last_error": "new",
    "good_streak": 0,
}
EJECTION: dict[str, Any] = {
    "ejections": 1,
    "ejected_until": 11.0,
    "good_streak": 0,
    "bad_streak": 0,
    "stepped_at": None,
    "window": (),
    "suspected": False,
    "passive_ejects": 10,
    "verdict": Verdict.UNHEALTHY,
    "cause": Cause.TRAFFIC,
    **FLIPPED,
}


def good(health: Health) -> Health:
    return rules.probe_succeeded(health, RULES, WHEN, 0.25)


def bad(health: Health) -> Health:
    return rules.probe_failed(health, RULES, WHEN, "new")


def silent(health: Health) -> Health:
    return rules.silent_probe(health, WHEN)


def refused(health: Health, *, times: int = 1, probed: bool = True, connect: bool = True, fall: bool = True) -> Health:
    failures = (PassiveFailure(10.0),) * times
    return rules.forward_failed(health, RULES, WHEN, failures, "new", probed=probed, is_connect=connect, may_fall=fall)


def served(health: Health, *, probed: bool = False) -> Health:
    return rules.forward_succeeded(health, WHEN, probed=probed)


def waited(health: Health, *, probed: bool) -> Health:
    return rules.time_passed(health, RULES, WHEN, probed=probed)


@pytest.mark.parametrize(
    ("before", "changes"),
    [
        (BEFORE, {**GOOD, "good_streak": 1}),
        (attrs.evolve(BEFORE, good_streak=1),
         {**GOOD, "good_streak": 2, "verdict": Verdict.HEALTHY, "cause": Cause.PROBES, **FLIPPED}),
        (attrs.evolve(HEALTHY, good_streak=2), {**GOOD, "good_streak": 2}),
        (attrs.evolve(UNHEALTHY, good_streak=1, bad_streak=3),
         {**GOOD, "good_streak": 2, "verdict": Verdict.HEALTHY, "cause": Cause.PROBES, **FLIPPED}),
        (attrs.evolve(EJECTED, good_streak=1),
         {**GOOD, "good_streak": 2, "verdict": Verdict.HEALTHY, "cause": Cause.PROBES, "ejected_until": None,
          "returned_at": 10.0, "window": (), **FLIPPED}),
        (attrs.evolve(EJECTED, good_streak=2, ejected_until=10.5), {**GOOD, "good_streak": 2}),
        (attrs.evolve(EJECTED, good_streak=2, ejected_until=10.0),
         {**GOOD, "good_streak": 2, "verdict": Verdict.HEALTHY, "cause": Cause.PROBES, "ejected_until": None,
          "returned_at": 10.0, "window": (), **FLIPPED}),
    ],
)  # fmt: skip
def test_a_good_probe(before: Health, changes: dict[str, Any]) -> None:
    """It counts, clears doubts, and at the threshold decides; an ejection holds until its time."""
    assert attrs.evolve(before, **changes) == good(before)


@pytest.mark.parametrize(
    ("before", "changes"),
    [
        (attrs.evolve(BEFORE, good_streak=1), {**BAD, "bad_streak": 2}),
        (attrs.evolve(BEFORE, bad_streak=2),
         {**BAD, "bad_streak": 3, "verdict": Verdict.UNHEALTHY, "cause": Cause.PROBES, **FLIPPED}),
        (attrs.evolve(HEALTHY, bad_streak=2),
         {**BAD, "bad_streak": 3, "verdict": Verdict.UNHEALTHY, "cause": Cause.PROBES, **FLIPPED}),
        (attrs.evolve(UNHEALTHY, bad_streak=3, cause=Cause.TRAFFIC), {**BAD, "bad_streak": 3}),
        (attrs.evolve(EJECTED, bad_streak=2), {**BAD, "bad_streak": 3}),
        (attrs.evolve(PROBATION, bad_streak=2),
         {**BAD, "bad_streak": 3, "verdict": Verdict.UNHEALTHY, "cause": Cause.PROBES, **FLIPPED}),
    ],
)  # fmt: skip
def test_a_bad_probe(before: Health, changes: dict[str, Any]) -> None:
    """It counts, and at the threshold decides; who is out already stays out since when and for what it was."""
    assert attrs.evolve(before, **changes) == bad(before)


@pytest.mark.parametrize("streak", [3, 1, 0])
def test_a_silent_probe(streak: int) -> None:
    """It is no evidence, but somebody looked: doubts are gone, and one step of the streak."""
    before = attrs.evolve(BEFORE, bad_streak=streak)

    assert attrs.evolve(
        before, suspected=False, bad_streak=max(streak - 1, 0), last_probe_at=10.0, probed_wall_ms=777
    ) == silent(before)


NEW = PassiveFailure(10.0)
STEP: dict[str, Any] = {"window": (RECENT, NEW), "bad_streak": 2, "good_streak": 0, "stepped_at": 10.0}


@pytest.mark.parametrize(
    ("before", "fail", "changes"),
    [
        (HEALTHY, refused, STEP),
        (attrs.evolve(HEALTHY, good_streak=2), refused, STEP),
        (attrs.evolve(HEALTHY, stepped_at=None), refused, STEP),
        (attrs.evolve(HEALTHY, stepped_at=9.5), refused, STEP),
        (attrs.evolve(HEALTHY, stepped_at=9.75), refused, {"window": (RECENT, NEW)}),
        (HEALTHY, lambda each: refused(each, connect=False), {"window": (RECENT, NEW)}),
        (attrs.evolve(HEALTHY, window=(PassiveFailure(5.0), OLDER)), lambda each: refused(each, connect=False),
         {"window": (OLDER, NEW)}),
        (attrs.evolve(HEALTHY, bad_streak=2, window=()), refused,
         {"window": (NEW,), "bad_streak": 3, "stepped_at": 10.0, "verdict": Verdict.UNHEALTHY, "cause": Cause.TRAFFIC,
          **FLIPPED}),
        (attrs.evolve(HEALTHY, bad_streak=2, window=()), lambda each: refused(each, probed=False), EJECTION),
        (attrs.evolve(HEALTHY, bad_streak=2, window=()), lambda each: refused(each, fall=False),
         {"window": (NEW,), "bad_streak": 3, "stepped_at": 10.0}),
        (HEALTHY, lambda each: refused(each, times=2), EJECTION),
        (HEALTHY, lambda each: refused(each, times=5, fall=False, connect=False), {"window": (NEW, NEW, NEW)}),
        (attrs.evolve(HEALTHY, window=(OLDER, RECENT)), lambda each: refused(each, connect=False), EJECTION),
    ],
)  # fmt: skip
def test_a_failure_of_live_traffic(before: Health, fail: Callable[[Health], Health], changes: dict[str, Any]) -> None:
    """It goes into the window, a failed connect into the streak as well, and the fuller of the two decides."""
    before = attrs.evolve(before, suspected=False)

    assert attrs.evolve(before, **{"suspected": True, "last_error": "new", **changes}) == fail(before)


def test_live_traffic_says_nothing_new_of_who_is_out() -> None:
    """Under fail-open it may go there all the same; only the error is kept."""
    for before in (UNHEALTHY, EJECTED):
        assert attrs.evolve(before, last_error="new") == refused(before, times=3)
    assert attrs.evolve(BEFORE, suspected=True, last_error="new") == rules.suspect(BEFORE, "new")


@pytest.mark.parametrize(
    ("before", "changes"),
    [
        (attrs.evolve(HEALTHY, returned_at=None), {"ejections": 1, "ejected_until": 11.0}),
        (attrs.evolve(HEALTHY, returned_at=-50.25), {"ejections": 1, "ejected_until": 11.0}),
        (attrs.evolve(HEALTHY, returned_at=-50.0), {"ejections": 3, "ejected_until": 14.0}),
        (attrs.evolve(HEALTHY, returned_at=9.0, ejections=0), {"ejections": 1, "ejected_until": 11.0}),
        (attrs.evolve(PROBATION, returned_at=None), {"ejections": 3, "ejected_until": 14.0}),
        (attrs.evolve(HEALTHY, returned_at=9.0, ejections=90), {"ejections": 91, "ejected_until": 70.0}),
    ],
)  # fmt: skip
def test_an_ejection(before: Health, changes: dict[str, Any]) -> None:
    """It lasts twice as long for each soon after the last return, up to the most, and begins everything anew."""
    before = attrs.evolve(before, good_streak=1)

    assert attrs.evolve(before, **{**EJECTION, **changes}) == rules.eject(before, RULES, WHEN)


def test_a_shortest_ejection_that_is_longer_than_the_most_holds() -> None:
    """The most bounds the doubling, not what was asked for."""
    odd = attrs.evolve(RULES, eject_time=90.0)

    assert 100.0 == rules.eject(HEALTHY, odd, WHEN).ejected_until


def test_doubling_ends_before_a_float_does() -> None:
    """A node that has flapped for months must not end the gateway."""
    endless = attrs.evolve(RULES, eject_time_max=float("inf"))
    veteran = attrs.evolve(HEALTHY, returned_at=9.0, ejections=5000)

    assert 10.0 + 2.0**64 == rules.eject(veteran, endless, WHEN).ejected_until


def test_a_flow_that_got_through() -> None:
    """It decides for who is never probed, and for whoever is on probation; elsewhere it says nothing."""
    cleared: dict[str, Any] = {"bad_streak": 0, "stepped_at": None, "suspected": False}
    proven: dict[str, Any] = {**cleared, "verdict": Verdict.HEALTHY, "cause": Cause.TRAFFIC, **FLIPPED}

    assert attrs.evolve(BEFORE, **proven) == served(BEFORE)
    assert attrs.evolve(HEALTHY, **cleared) == served(HEALTHY)
    for probed in (False, True):
        assert attrs.evolve(PROBATION, **proven, returned_at=10.0, window=()) == served(PROBATION, probed=probed)
    for before in (BEFORE, HEALTHY, UNHEALTHY):
        assert before is served(before, probed=True)


@pytest.mark.parametrize(
    ("changes", "matters"),
    [
        ({}, False),
        ({"verdict": Verdict.UNKNOWN}, True),
        ({"bad_streak": 1}, True),
        ({"suspected": True}, True),
        ({"verdict": Verdict.PROBATION}, True),
    ],
)
def test_a_flow_is_worth_an_event_where_it_changes_something(changes: dict[str, Any], matters: bool) -> None:
    """A success for every flow would flood the hub."""
    health = attrs.evolve(HEALTHY, **{"bad_streak": 0, "suspected": False, **changes})

    assert matters == rules.forward_matters(health, probed=False)
    assert (health.verdict is Verdict.PROBATION) == rules.forward_matters(health, probed=True)


def test_an_ejection_that_has_run_out() -> None:
    """Unprobed, an endpoint may prove itself; probed, it returns by a full streak and no sooner."""
    full = attrs.evolve(EJECTED, good_streak=2)
    returned: dict[str, Any] = {
        "verdict": Verdict.HEALTHY,
        "cause": Cause.PROBES,
        "ejected_until": None,
        "returned_at": 10.0,
        "window": (),
        **FLIPPED,
    }

    assert attrs.evolve(EJECTED, verdict=Verdict.PROBATION, cause=Cause.TIME, ejected_until=None, **FLIPPED) == waited(
        EJECTED, probed=False
    )
    assert attrs.evolve(full, **returned) == waited(full, probed=True)
    for early in (attrs.evolve(full, good_streak=1), attrs.evolve(full, ejected_until=10.5), UNHEALTHY):
        assert early is waited(early, probed=True)
    assert UNHEALTHY is waited(UNHEALTHY, probed=False)
    assert (9.5, None, 9.5) == (
        rules.wakeup(EJECTED, RULES, probed=False),
        rules.wakeup(EJECTED, RULES, probed=True),
        rules.wakeup(full, RULES, probed=True),
    )


def test_the_window_forgets() -> None:
    """A failure leaves it when it is as old as the window is long."""
    health = attrs.evolve(BEFORE, window=(PassiveFailure(5.0, "old"), PassiveFailure(5.25, "new")))

    assert 1 == rules.passive_failures(health, RULES, 10.0)
    assert rules.counts_once(health, RULES, 10.0, "old")
    assert not rules.counts_once(health, RULES, 10.0, "new")
