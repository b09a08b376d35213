"""How long ejections last: each within a minute of the last return twice as long, up to the bound."""

from collections.abc import Iterator

import attrs

from ..config.schema import Endpoint, GlobalConfig
from ..state.model import Health, State, Verdict
from .reach import DUST

RELAPSE_WITHIN = 60.0  # seconds from a return, as docs/failover.md has it


@attrs.define(eq=False)
class _Record:
    """What is known of one endpoint's ejections."""

    count: int = 0
    until: float | None = None  # while it is out
    returned: float | None = None


class EjectionBook:
    """The ejections of every endpoint so far."""

    def __init__(self) -> None:
        self._records: dict[Endpoint, _Record] = {}

    def observe(self, before: State, after: State) -> Iterator[str]:
        """Takes note of a new state, and tells which ejection is too long or too short."""
        if after.health is before.health:
            return
        for endpoint, now in after.health.items():
            was = before.health.get(endpoint)
            if now is was:
                continue
            if was is None or now.passive_ejects < was.passive_ejects:  # a node of this name, or another of it
                self._records.pop(endpoint, None)
                continue
            record = self._records.setdefault(endpoint, _Record())
            if now.passive_ejects > was.passive_ejects:
                yield from self._ejected(endpoint, record, was, now, after)
            elif record.until is not None and now.verdict is Verdict.HEALTHY:
                if after.now < record.until - DUST:
                    yield f"{endpoint} is back at {after.now:.3f}, and was ejected until {record.until:.3f}"
                record.until, record.returned = None, after.now

    def _ejected(self, endpoint: Endpoint, record: _Record, was: Health, now: Health, after: State) -> Iterator[str]:
        is_relapse = was.verdict is Verdict.PROBATION or (
            record.returned is not None and after.now - record.returned <= RELAPSE_WITHIN
        )
        record.count = record.count + 1 if is_relapse else 1
        expected = lasting(record.count, after.config.globals)
        record.until = now.ejected_until
        actual = -1.0 if now.ejected_until is None else now.ejected_until - after.now
        if abs(actual - expected) > DUST:
            yield f"{endpoint} is ejected for {actual:g} s, the {record.count}. time in a row: {expected:g} s are due"


def lasting(count: int, rules: GlobalConfig) -> float:
    """Seconds that the ejection of that number in a row lasts."""
    time, most = rules.eject_time, max(rules.eject_time_max, rules.eject_time)
    for _ in range(count - 1):
        if time >= most:
            break
        time *= 2
    return min(time, most)
