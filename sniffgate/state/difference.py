"""What differs between two states, found without looking at each of hundreds of endpoints in Python."""

from collections.abc import Iterable
from itertools import compress
from operator import is_not

from .model import Endpoint, State


def changed_health(before: State, after: State) -> Iterable[Endpoint]:
    """The endpoints of `after` whose health is not what it was; new ones too, those that are gone not."""
    if after.health is before.health:
        return ()
    if after.config is before.config:  # then both have the same endpoints in the same order: only a reload makes others
        return compress(after.health, map(is_not, after.health.values(), before.health.values()))
    return [each for each, health in after.health.items() if before.health.get(each) is not health]
