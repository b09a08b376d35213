"""Looks at the gateway's status all the time on a connection of its own and notes when its active nodes change."""

import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

import attrs

from .control import LIMIT, Control, dig
from .gateway import Gateway
from .nodes import clock
from .scenario import TrialFailed

PAUSE = 0.001  # seconds between two looks
TRANSPORTS = ("tcp", "udp")


@attrs.frozen
class Change:
    """The status named another active node; `at` by `clock`, late by a look and a pause at most."""

    at: float
    transport: str
    before: str | None
    after: str | None


class Watcher:
    """Within `with` it watches; `changes` grows. Errors: on leaving, what ended the watching early."""

    def __init__(self, gateway: Gateway) -> None:
        self._port = gateway.admin
        self.changes: list[Change] = []
        self.looks = 0
        self._ends, self._is_watching = threading.Event(), threading.Event()
        self._trouble: Exception | None = None
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._is_watching.wait(LIMIT):
            raise TrialFailed("the status could not be watched")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._ends.set()
        self._thread.join(LIMIT)
        if kind is None and self._trouble is not None:
            raise self._trouble

    def of(self, transport: str) -> list[Change]:
        """The changes over one transport so far."""
        return [change for change in self.changes if change.transport == transport]

    def until(self, condition: Callable[[Change], bool], what: str, within: float = LIMIT) -> Change:
        """The first change, one seen already included, that fulfils `condition`. Errors: `TrialFailed`."""
        give_up = clock() + within
        while True:
            for change in list(self.changes):
                if condition(change):
                    return change
            if self._trouble is not None:
                raise self._trouble
            if clock() > give_up:
                raise TrialFailed(f"{what} did not happen within {within:g} s")
            time.sleep(PAUSE)

    def _watch(self) -> None:
        try:
            control = Control(self._port)
            try:
                last: Mapping[str, str | None] = dig(control.ask("status"), "active")
                self._is_watching.set()
                while not self._ends.is_set():
                    active: Mapping[str, str | None] = dig(control.ask("status"), "active")
                    at = clock()
                    self.looks += 1
                    self.changes += [
                        Change(at, each, last.get(each), active.get(each))
                        for each in TRANSPORTS
                        if last.get(each) != active.get(each)
                    ]
                    last = active
                    time.sleep(PAUSE)
            finally:
                control.close()
        except Exception as error:
            self._trouble = error
            self._is_watching.set()
