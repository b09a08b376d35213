"""Waiting for what the status is seen to change to, while it is looked at all the time."""

import itertools
import time
from collections.abc import Callable
from typing import Self

import attrs

from .control import LIMIT
from .gateway import Gateway
from .nodes import clock
from .scenario import TrialFailed
from .testimony import Watch

TRANSPORTS = ("tcp", "udp")
PAUSE = 0.001  # seconds between two looks


@attrs.frozen
class Change:
    """The status named another active node; `at` by `clock`, late by a look and a pause at most."""

    at: float
    transport: str
    before: str  # "" for none
    after: str


class Watcher(Watch):
    """Within `with` it watches, and has seen the first status when the block begins."""

    def __init__(self, gateway: Gateway) -> None:
        super().__init__(gateway, 0.0, PAUSE)

    def __enter__(self) -> Self:
        super().__enter__()
        self._wait(lambda: bool(self.claims), "a first answer to `status`", LIMIT)
        return self

    @property
    def changes(self) -> list[Change]:
        """All that it has seen so far, in their order."""
        return [
            Change(after.at, each, before.active(each), after.active(each))
            for before, after in itertools.pairwise(list(self.claims))
            for each in TRANSPORTS
            if before.active(each) != after.active(each)
        ]

    def of(self, transport: str) -> list[Change]:
        """The changes over one transport so far."""
        return [change for change in self.changes if change.transport == transport]

    def until(self, condition: Callable[[Change], bool], what: str, within: float = LIMIT) -> Change:
        """The first change, one seen already included, that fulfils `condition`. Errors: `TrialFailed`."""
        self._wait(lambda: any(map(condition, self.changes)), what, within)
        return next(filter(condition, self.changes))

    def _wait(self, is_there: Callable[[], bool], what: str, within: float) -> None:
        give_up = clock() + within
        while not is_there():
            if self.trouble is not None:
                raise self.trouble
            if clock() > give_up:
                raise TrialFailed(f"{what} did not happen within {within:g} s")
            time.sleep(PAUSE)
