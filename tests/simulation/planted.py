"""Faults that a simulation must find, each as the edit that makes it, with the rule that it breaks."""

import attrs

from tests.mutants.known import HEALTH, SEARCH, TERMS, Mutant


@attrs.frozen(kw_only=True)
class Planted:
    """A mutant, the rule that it breaks, and the first seed of configs/failover.toml that finds it."""

    mutant: Mutant
    rule: str
    seed: int


def _fault(fault: str, file: str, old: str, new: str) -> Mutant:
    return Mutant(fault=fault, file=file, old=old, new=new, tests=())


PLANTED = {
    "a success does not reset the streak": Planted(
        mutant=_fault(
            "Streaks outlive a success",
            HEALTH,
            "good_streak=streak, bad_streak=0, stepped_at=None, suspected=False)\n    return _return_if_due",
            "good_streak=streak, stepped_at=None, suspected=False)\n    return _return_if_due",
        ),
        rule="streaks",
        seed=0,
    ),
    "promotion does not lift the deadline": Planted(
        mutant=_fault(
            "Deadlines outlive a promotion",
            TERMS,
            "return Terms(kind=LeaseKind.ACTIVE, was_usable=True)",
            "return Terms(kind=LeaseKind.ACTIVE, was_usable=True, deadline=before.deadline)",
        ),
        rule="drains",
        seed=5,
    ),
    "ejection time does not grow": Planted(
        mutant=_fault(
            "Every ejection is the first", HEALTH, "count = health.ejections + 1 if relapse else 1", "count = 1"
        ),
        rule="ejections",
        seed=10,
    ),
    "a pin is not released": Planted(
        mutant=_fault(
            "Pins outlive their node",
            "state/wishes.py",
            "    return not may_serve(state, member) and any(",
            "    return False and any(",
        ),
        rule="pins",
        seed=5,
    ),
    "failback ignores its delay": Planted(
        mutant=_fault(
            "Failback is immediate",
            "state/routing.py",
            "return healthy_since(state, member.node, member.endpoint) + pool.failback_delay",
            "return healthy_since(state, member.node, member.endpoint)",
        ),
        rule="failback",
        seed=0,
    ),
    "a client is not connected to the next node": Planted(
        mutant=_fault(
            "One try is all",
            SEARCH,
            "arrival.failed + len(search.running) >= state.config.globals.connect_retry:",
            "arrival.failed + len(search.running) >= 1:",
        ),
        rule="service",
        seed=5,
    ),
    "a drain has no end": Planted(
        mutant=_fault(
            "Leases are never cut",
            "tasks/leases.py",
            "lease.scope.deadline = self._clock.deadline(lease.terms.deadline)",
            "pass",
        ),
        rule="drains",
        seed=5,
    ),
}
