"""When the next probe of an endpoint is due.

At the configured interval, as a rule. Ahead of it, for a bounded number of probes, where the answer is needed soon:
between two verdicts, beside a probe that hangs, and after live traffic met trouble.
"""

from collections import deque

import attrs

from ..config.schema import GlobalConfig, Transport
from ..state.detection import PATIENCE
from ..state.model import Health, PassiveFailure, Verdict
from .probe import Bad, ProbeResult, ProbeSpec

NEVER = float("inf")

Evidence = tuple[tuple[PassiveFailure, ...], float | None]


@attrs.frozen
class Plan:
    """What is asked and how often (seconds): what of a configuration matters to the probes of one endpoint."""

    spec: ProbeSpec
    interval: float
    fast_interval: float
    follows: bool  # probed only while in doubt

    @property
    def fast(self) -> float:
        """The shortest time between the starts of two probes."""
        return min(self.fast_interval, self.interval)


@attrs.define(eq=False)
class Started:
    """A probe whose result was not reported yet: it has none, or those of earlier ones come first."""

    at: float
    result: ProbeResult | None = None


@attrs.define(eq=False)
class Pace:
    """The pace of one endpoint's probes. Times are Trio's clock."""

    plan: Plan
    last: float  # start of the last probe; -inf = there was none
    regular: float  # when the next one is due in any case
    under_way: deque[Started] = attrs.field(factory=deque)  # in the order of their starts
    is_short: bool = False  # this machine could not make the last probe
    _hurried: int = 0  # probes ahead of the interval, since the last verdict or quiet interval
    _verdict: Verdict | None = None  # when the last probe started
    _answered: Evidence | None = None  # of live traffic: what a probe has been started for
    _look_again: bool = False  # the last probe was started on a mere suspicion

    def follow(self, plan: Plan, interval: float) -> None:
        """Goes on by another plan: at once if something else is asked, otherwise `interval` after the last start."""
        self.regular = -NEVER if plan.spec != self.plan.spec else self.last + interval
        self.plan = plan
        self.under_way.clear()

    def due(self, health: Health, rules: GlobalConfig, *, wanted: bool = True, behind: Health | None = None) -> float:
        """When the next probe is to start, unless `health` changes before; inf: not until then.

        `behind` is that of an endpoint which the probed one speaks for: unhealthy itself, it leaves that one in doubt.
        """
        if not health.suspected:
            self._answered = None
        if not wanted:
            return NEVER
        soonest = self.last + self.plan.fast
        if health.suspected and self._answered != _evidence(health):
            return soonest if len(self.under_way) < rules.failure_threshold else NEVER
        may_hurry = health.verdict is not self._verdict or self._hurried < _budget(rules)
        if not self.under_way:
            may_hurry = may_hurry and (self._look_again or behind is not None or _is_between_verdicts(health))
            return soonest if may_hurry else max(self.regular, soonest)
        doubted = health if behind is None else behind
        lacking = rules.failure_threshold - doubted.bad_streak  # failures that would make the verdict
        if may_hurry and self._silence_counts(doubted) and len(self.under_way) < lacking:
            return max(soonest, self.under_way[0].at + self._patience(health))
        return NEVER

    def start(self, now: float, interval: float, health: Health, behind: Health | None = None) -> Started:
        """Notes that a probe starts now; the next one is due in `interval` at the latest. The rest as for `due`."""
        # The kernel resets a killed process's connections before it closes the listening socket, a millisecond or so in
        # which a probe still succeeds: what a broken connection made suspicious is looked at twice.
        is_suspicion = health.suspected and not health.bad_streak and self._answered != _evidence(health)
        self._look_again = is_suspicion and not self.plan.follows
        is_doubted = behind is not None or _is_between_verdicts(health)
        is_quiet = now >= self.regular and (self.plan.follows or not is_doubted)
        if health.verdict is not self._verdict or is_quiet:
            self._hurried = 0
        self._hurried += now < self.regular
        self._verdict, self._answered = health.verdict, _evidence(health)
        self.last, self.regular = now, now + interval
        started = Started(now)
        self.under_way.append(started)
        return started

    def finish(self, started: Started, result: ProbeResult) -> list[ProbeResult]:
        """The results that may be reported now that `started` has its own: they count in the order of the starts.

        A failure overtakes: what began before it and still has no answer would tell of an older time, and is dropped. A
        datagram that died with its server would otherwise hold up the refusals of all that came after it.
        """
        if started not in self.under_way:
            return []
        started.result = result
        if isinstance(result, Bad):
            while self.under_way[0].result is None:
                self.under_way.popleft()
        ready = []
        while self.under_way and self.under_way[0].result is not None:
            ready.append(self.under_way[0].result)
            self.under_way.popleft()
        return ready

    def _silence_counts(self, health: Health) -> bool:
        """Whether an endpoint that keeps silent would be worse than is thought of it."""
        spec = self.plan.spec
        is_evidence = spec.endpoint.transport is Transport.TCP or spec.silence_fails
        return is_evidence and health.verdict is not Verdict.UNHEALTHY

    def _patience(self, health: Health) -> float:
        return max(self.plan.fast, PATIENCE * (health.last_latency or 0.0))


def _budget(rules: GlobalConfig) -> int:
    return 2 * max(rules.failure_threshold, rules.success_threshold)


def _is_between_verdicts(health: Health) -> bool:
    match health.verdict:
        case Verdict.HEALTHY:
            return health.bad_streak > 0
        case Verdict.UNHEALTHY:
            return health.good_streak > 0
        case _:
            return True


def _evidence(health: Health) -> Evidence:
    return health.window, health.stepped_at
