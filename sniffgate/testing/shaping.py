"""What links do to packets that get through: jitter, bandwidth, loss, duplicates and reordering, from seeded dice."""

import random

import attrs

from ..config.schema import Transport
from .trace import Kind

Link = tuple[str, str]  # from machine, to machine
NEVER_LOST = (Kind.RST,)  # nothing would repeat it, as the next probe or keepalive of a kernel does


@attrs.frozen(kw_only=True)
class Shape:
    """How a link or a host treats packets. Times in seconds, `bandwidth` in payload bytes a second, odds from 0 to 1.

    TCP hides loss, duplicates and reordering: to it a loss is a retransmission, later by 0.2 s or more, and the others
    are nothing; its packets stay in order. Of datagrams each loss, second copy and overtaking is seen.
    """

    jitter: float = 0.0  # each packet is late by up to this, evenly spread
    bandwidth: float = float("inf")
    loss: float = 0.0
    duplication: float = 0.0
    reordering: float = 0.0
    held_back: float = 0.01  # how late a reordered datagram is

    def __attrs_post_init__(self) -> None:
        odds = (self.loss, self.duplication, self.reordering)
        if min(*odds, self.jitter, self.held_back) < 0 or max(odds) > 1 or self.bandwidth <= 0:
            raise ValueError(f"a link cannot be like this: {self}")

    def then(self, other: "Shape") -> "Shape":
        """Both, one after the other."""
        return Shape(
            jitter=self.jitter + other.jitter,
            bandwidth=min(self.bandwidth, other.bandwidth),
            loss=1 - (1 - self.loss) * (1 - other.loss),
            duplication=1 - (1 - self.duplication) * (1 - other.duplication),
            reordering=1 - (1 - self.reordering) * (1 - other.reordering),
            held_back=max(self.held_back, other.held_back),
        )


class Shaper:
    """Throws the dice for each packet, and remembers the queue of each link."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)
        self._free_at: dict[Link, float] = {}  # when a link has sent what it was given
        self._last_tcp: dict[Link, float] = {}  # when the last TCP packet of a link arrives

    def delays(
        self, shape: Shape, link: Link, transport: Transport, kind: Kind | None, size: int, now: float, delay: float
    ) -> tuple[float, ...]:
        """Seconds from `now` to the arrival of each copy of a packet; none when it is lost.

        `delay` is the link's latency. A lost packet has used its share of the bandwidth all the same.
        """
        sent = max(now, self._free_at.get(link, now)) + size / shape.bandwidth
        self._free_at[link] = sent
        if kind not in NEVER_LOST and self._dice.random() < shape.loss:
            return ()
        first = sent - now + delay + self._dice.uniform(0.0, shape.jitter)
        if transport is Transport.TCP:
            first = max(first, self._last_tcp.get(link, now) - now)
            self._last_tcp[link] = now + first
            return (first,)
        if kind is not Kind.DATAGRAM:
            return (first,)
        if self._dice.random() < shape.reordering:
            first += shape.held_back
        if self._dice.random() < shape.duplication:
            return (first, first + self._dice.uniform(0.0, shape.jitter))
        return (first,)
