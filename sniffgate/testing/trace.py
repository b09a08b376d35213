"""What went over the virtual network, for tests to look at."""

import enum
from collections import deque

import attrs

from ..address import Address


class Kind(enum.StrEnum):
    """What kind of packet it was. Acknowledgements are not traced."""

    SYN = "syn"
    SYN_ACK = "syn-ack"
    DATA = "data"
    FIN = "fin"
    RST = "rst"
    DATAGRAM = "datagram"
    REFUSAL = "refusal"  # ICMP port, host or network unreachable
    LOOK_UP = "look-up"  # of the name in `destination.host`


class Fate(enum.StrEnum):
    """What became of it. A packet leaves two records: `SENT`, and later `ARRIVED` or `LOST`."""

    SENT = "sent"
    ARRIVED = "arrived"
    LOST = "lost"


@attrs.frozen
class Record:
    """One packet at one moment; `size` is its payload in bytes."""

    time: float
    kind: Kind
    fate: Fate
    source: Address
    destination: Address
    size: int


class Trace(deque[Record]):
    """The latest records, oldest first."""

    def select(
        self, kind: Kind, fate: Fate, *, source: str | Address | None = None, destination: str | Address | None = None
    ) -> list[Record]:
        """The records of one kind and fate, between the given ends: a host, or a host and port."""
        return [
            record
            for record in self
            if record.kind is kind
            and record.fate is fate
            and source in (None, record.source, record.source.host)
            and destination in (None, record.destination, record.destination.host)
        ]
