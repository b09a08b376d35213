"""The last line of a gateway that was stopped: what became of the flows that were under way."""

import logging

from ..config.schema import Transport
from .clock import Clock
from .ledger import Ledger

log = logging.getLogger("sniffgate")


class Farewell:
    """Made when the stop begins."""

    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock
        self._began = clock.now()
        self._connections = ledger.flows(Transport.TCP)
        self._sessions = ledger.flows(Transport.UDP)

    def say(self) -> None:
        """Logs how it went; every flow has ended."""
        cut = self._ledger.cut_by_stop
        took = self._clock.now() - self._began
        flows = {"ended": max(self._connections - cut, 0), "cut": cut, "sessions": self._sessions}
        log.info("stopped", extra={**flows, "seconds": f"{took:.1f}"})
