"""What one piece of evidence does to the health of one endpoint. Pure: a `Health` in, the next `Health` out.

The rules, in one place:

* `failure_threshold` failed probes in a row make an endpoint unhealthy, `success_threshold` good ones in a row
  healthy; a result against the streak resets it.
* A failed forward connect is one step of the failure streak, at most one per `probe_timeout`.
* `passive_eject_threshold` failures of live traffic inside `passive_eject_window` eject at once. Good probes do not
  empty that window.
* An ejection lasts at least `eject_time`, twice as long for each further one within a minute of the last return, up to
  `eject_time_max`. Then a probed endpoint returns by its probes; an unprobed one enters probation, where one live flow
  decides.
* Not probing is never a success: under `probe = "none"` only a live flow or an operator returns an endpoint.
"""

import attrs

from ..config.schema import GlobalConfig
from .events import FailureKind
from .model import Cause, Health, PassiveFailure, Verdict

# Kinds that say by themselves that nobody serves there: they may eject even the last usable endpoint of a route.
CONCLUSIVE = (FailureKind.REFUSED, FailureKind.UNREACHABLE)
RELAPSE_WITHIN = 60.0  # seconds from a return within which a further ejection lasts longer (Envoy counts likewise)


@attrs.frozen
class Moment:
    """When a piece of evidence counts, and for people."""

    now: float
    wall_ms: int


def probe_succeeded(health: Health, rules: GlobalConfig, when: Moment, latency: float) -> Health:
    """A probe had its answer: `latency` seconds."""
    health = attrs.evolve(
        health, last_latency=latency, last_probe_at=when.now, probed_wall_ms=when.wall_ms, probe_ok=health.probe_ok + 1
    )
    return good_step(health, rules, when)


def good_step(health: Health, rules: GlobalConfig, when: Moment) -> Health:
    """One good result: a step towards healthy, whatever it came from."""
    streak = min(health.good_streak + 1, rules.success_threshold)
    health = attrs.evolve(health, good_streak=streak, bad_streak=0, stepped_at=None, suspected=False)
    return _return_if_due(health, rules, when)


def silent_probe(health: Health, when: Moment) -> Health:
    """A UDP probe met neither answer nor refusal: no evidence, but the look was taken.

    It takes one step of a failure streak back: so a service that was refused once is left in peace again after one more
    look, while one whose ICMP errors are rate-limited (Linux: one a second and destination) still reaches its verdict.
    """
    return attrs.evolve(
        health,
        suspected=False,
        bad_streak=max(health.bad_streak - 1, 0),
        last_probe_at=when.now,
        probed_wall_ms=when.wall_ms,
    )


def probe_failed(health: Health, rules: GlobalConfig, when: Moment, error: str) -> Health:
    """A probe failed with `error`."""
    health = attrs.evolve(
        health,
        last_probe_at=when.now,
        probed_wall_ms=when.wall_ms,
        probe_fail=health.probe_fail + 1,
        last_error=error,
        good_streak=0,
        bad_streak=min(health.bad_streak + 1, rules.failure_threshold),
    )
    if health.verdict is not Verdict.UNHEALTHY and health.bad_streak >= rules.failure_threshold:
        return flip(health, Verdict.UNHEALTHY, Cause.PROBES, when)
    return health


def forward_failed(
    health: Health,
    rules: GlobalConfig,
    when: Moment,
    failures: tuple[PassiveFailure, ...],
    error: str,
    *,
    probed: bool,
    is_connect: bool,
    may_fall: bool,
) -> Health:
    """Live traffic failed (`failures`, at least one, all of one kind).

    `is_connect` makes it a step of the failure streak too. `may_fall` False keeps the verdict: the last usable endpoint
    of a route is not thrown out by such evidence, however much there is of it.
    """
    if health.verdict is Verdict.UNHEALTHY:
        return attrs.evolve(health, last_error=error)  # already out: flows under fail-open prove nothing new
    health = attrs.evolve(health, last_error=error, suspected=True)
    if health.verdict is Verdict.PROBATION:
        return eject(health, rules, when)
    health = attrs.evolve(health, window=_fresh(health.window, rules, when.now, keep=failures))
    if is_connect and (health.stepped_at is None or when.now - health.stepped_at >= rules.probe_timeout):
        streak = min(health.bad_streak + 1, rules.failure_threshold)
        health = attrs.evolve(health, good_streak=0, bad_streak=streak, stepped_at=when.now)
    if not may_fall:
        return health
    if len(health.window) >= rules.passive_eject_threshold:
        return eject(health, rules, when)
    if health.bad_streak >= rules.failure_threshold:
        return flip(health, Verdict.UNHEALTHY, Cause.TRAFFIC, when) if probed else eject(health, rules, when)
    return health


def suspect(health: Health, error: str) -> Health:
    """Evidence too weak to count: look again."""
    return attrs.evolve(health, suspected=True, last_error=error)


def forward_matters(health: Health, *, probed: bool) -> bool:
    """Whether a live flow that got through would change this health: the only case in which it is worth an event.

    A flow never lifts a failing probe: a node that answers connects may still fail its expectation.
    """
    if health.verdict is Verdict.PROBATION:
        return True
    return not probed and (health.verdict is Verdict.UNKNOWN or health.bad_streak > 0 or health.suspected)


def forward_succeeded(health: Health, when: Moment, *, probed: bool) -> Health:
    """A live flow got through."""
    if not forward_matters(health, probed=probed):
        return health
    was_ejected = health.verdict is Verdict.PROBATION
    health = attrs.evolve(health, bad_streak=0, stepped_at=None, suspected=False)
    if was_ejected:
        health = attrs.evolve(health, returned_at=when.now, window=())
    if health.verdict in (Verdict.UNKNOWN, Verdict.PROBATION):
        return flip(health, Verdict.HEALTHY, Cause.TRAFFIC, when)
    return health


def eject(health: Health, rules: GlobalConfig, when: Moment) -> Health:
    """Out for `eject_time`, longer each time it happens soon after the last return."""
    relapse = health.verdict is Verdict.PROBATION or (
        health.returned_at is not None and when.now - health.returned_at <= RELAPSE_WITHIN
    )
    count = health.ejections + 1 if relapse else 1
    # the exponent is bounded so that a float cannot overflow; any cap is reached long before
    lasting = min(rules.eject_time * 2.0 ** min(count - 1, 64), max(rules.eject_time_max, rules.eject_time))
    health = attrs.evolve(
        health,
        ejections=count,
        ejected_until=when.now + lasting,
        good_streak=0,
        bad_streak=0,
        stepped_at=None,
        window=(),
        suspected=False,
        passive_ejects=health.passive_ejects + 1,
    )
    return flip(health, Verdict.UNHEALTHY, Cause.TRAFFIC, when)


def time_passed(health: Health, rules: GlobalConfig, when: Moment, *, probed: bool) -> Health:
    """Ends an ejection that is due: an unprobed endpoint enters probation, a probed one returns by a full streak."""
    if health.ejected_until is None or health.ejected_until > when.now:
        return health
    if probed:
        return _return_if_due(health, rules, when)
    return flip(attrs.evolve(health, ejected_until=None), Verdict.PROBATION, Cause.TIME, when)


def wakeup(health: Health, rules: GlobalConfig, *, probed: bool) -> float | None:
    """When `time_passed` would next change this health; None when never."""
    return health.ejected_until if not probed or health.good_streak >= rules.success_threshold else None


def passive_failures(health: Health, rules: GlobalConfig, now: float) -> int:
    """How many failures of live traffic are inside the window at `now`."""
    return len(_fresh(health.window, rules, now))


def counts_once(health: Health, rules: GlobalConfig, now: float, client: str) -> bool:
    """Whether a failure that `client` may have provoked is the first of its kind inside the window."""
    return all(failure.client != client for failure in _fresh(health.window, rules, now))


def is_connect_failure(kind: FailureKind) -> bool:
    """Whether the node never took the flow, as against breaking it off later."""
    return kind is not FailureKind.RESET


def flip(health: Health, verdict: Verdict, cause: Cause, when: Moment) -> Health:
    """The health with another verdict, and when and why it changed."""
    return attrs.evolve(health, verdict=verdict, cause=cause, since=when.now, changed_wall_ms=when.wall_ms)


def _return_if_due(health: Health, rules: GlobalConfig, when: Moment) -> Health:
    if health.verdict is Verdict.HEALTHY or health.good_streak < rules.success_threshold:
        return health
    if health.ejected_until is not None:
        if health.ejected_until > when.now:
            return health
        health = attrs.evolve(health, ejected_until=None, returned_at=when.now, window=())
    return flip(health, Verdict.HEALTHY, Cause.PROBES, when)


def _fresh(
    window: tuple[PassiveFailure, ...], rules: GlobalConfig, now: float, keep: tuple[PassiveFailure, ...] = ()
) -> tuple[PassiveFailure, ...]:
    """The failures still inside the window, with `keep` added; never more than the threshold needs."""
    inside = tuple(failure for failure in window if now - failure.at < rules.passive_eject_window)
    return (inside + keep)[-rules.passive_eject_threshold :]
