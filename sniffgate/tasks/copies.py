"""Copies of long datagrams, kept until they are answered or too old to matter.

When a node refuses a datagram the kernel quotes it, but no more than 520 bytes over IPv4 and 1184 over IPv6. A shorter
quote is the datagram; at the limit it only tells which copy to send again.
"""

import threading
from collections import deque
from typing import NamedTuple

from ..address import Address
from ..net.ports import QUOTED_IPV4, QUOTED_IPV6

KEPT_FOR = 1.0  # seconds: refusals come within a round trip
MOST_BYTES = 1024 * 1024  # per listener; beyond it the oldest goes


class _Copy(NamedTuple):
    owner: object
    at: float
    payload: bytes


class Copies:
    """The kept datagrams of one listener, oldest first. Times are seconds on any one clock.

    The relay's thread keeps, Trio's finds; the lock is held for a few steps of memory and never across a system call.
    """

    def __init__(self) -> None:
        self._copies: deque[_Copy] = deque()
        self._bytes = 0
        self._lock = threading.Lock()

    def keep(self, owner: object, peer: Address, payload: bytes, now: float) -> None:
        """Keeps `payload`, just sent to `peer` on behalf of `owner`, if a quote of it could be cut."""
        if len(payload) < (QUOTED_IPV6 if ":" in peer.host else QUOTED_IPV4):
            return
        with self._lock:
            self._copies.append(_Copy(owner, now, payload))
            self._bytes += len(payload)
            while self._copies and (self._bytes > MOST_BYTES or self._copies[0].at <= now - KEPT_FOR):
                self._bytes -= len(self._copies.popleft().payload)

    def find(self, owner: object, quote: bytes, since: float, now: float) -> bytes | None:
        """The kept datagram of `owner` that begins with `quote`, taken out; None when there is none.

        Of several the oldest sent after `since`, the owner's last answer; else the newest before it, which the answer
        may have crossed on its way.
        """
        with self._lock:
            mine = [
                copy
                for copy in self._copies
                if copy.owner is owner and copy.at > now - KEPT_FOR and copy.payload.startswith(quote)
            ]
            if not mine:
                return None
            found = next((copy for copy in mine if copy.at >= since), mine[-1])
            for index, copy in enumerate(self._copies):
                if copy is found:
                    del self._copies[index]
                    break
            self._bytes -= len(found.payload)
            return found.payload
