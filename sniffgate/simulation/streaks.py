"""Verdicts take as many results in a row as the thresholds say: counted anew, from the evidence alone."""

from collections import Counter
from collections.abc import Iterator

from ..config.schema import Endpoint
from ..state.events import Event, ForwardFailed, ForwardSucceeded, ProbeFailed, ProbeSilent, ProbeSucceeded
from ..state.health import is_connect_failure
from ..state.model import Cause, State, Verdict
from ..state.verdict import spoken_for

Evidence = ProbeSucceeded | ProbeFailed | ProbeSilent | ForwardFailed | ForwardSucceeded


class StreakBook:
    """The most that each endpoint's streaks can be: what may or may not count is counted."""

    def __init__(self) -> None:
        self._bad: Counter[Endpoint] = Counter()
        self._good: Counter[Endpoint] = Counter()

    def observe(self, before: State, event: Event, after: State) -> Iterator[str]:
        """Takes note of an event, and tells what it must not have led to."""
        if not isinstance(event, Evidence):
            return
        node = before.config.node(event.endpoint.node)
        if node is None:
            return
        is_probe = isinstance(event, ProbeSucceeded | ProbeFailed | ProbeSilent)
        for endpoint in spoken_for(node, event.endpoint) if is_probe else (event.endpoint,):
            if endpoint in after.health:
                self._count(endpoint, event, is_probed=node.is_probed)
                yield from self._wrong(endpoint, before, after)

    def _count(self, endpoint: Endpoint, event: Evidence, *, is_probed: bool) -> None:
        match event:
            case ProbeSucceeded():
                self._bad[endpoint] = 0
                self._good[endpoint] += 1
            case ProbeSilent():  # a success, where nothing else is to be had
                self._good[endpoint] += 1
            case ProbeFailed():
                self._bad[endpoint] += 1
                self._good[endpoint] = 0
            case ForwardFailed() if is_connect_failure(event.kind):
                self._bad[endpoint] += 1
            case ForwardSucceeded() if not is_probed:
                self._bad[endpoint] = 0
            case _:
                pass

    def _wrong(self, endpoint: Endpoint, before: State, after: State) -> Iterator[str]:
        was, now, rules = before.health.get(endpoint), after.health[endpoint], after.config.globals
        bad, good = self._bad[endpoint], self._good[endpoint]
        if now.bad_streak > bad:
            yield f"{endpoint}: {now.bad_streak} failures in a row are counted, and {bad} came after the last success"
        if was is None or was.verdict is now.verdict or now.cause is not Cause.PROBES:
            return
        if now.verdict is Verdict.UNHEALTHY and bad < rules.failure_threshold:
            yield f"{endpoint} is unhealthy by {bad} failures in a row, not by {rules.failure_threshold}"
        if now.verdict is Verdict.HEALTHY and good < rules.success_threshold:
            yield f"{endpoint} is healthy by {good} good probes in a row, not by {rules.success_threshold}"
