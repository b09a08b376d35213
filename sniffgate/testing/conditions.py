"""What is wrong, and how far it is, between the machines of the virtual network."""

import enum

import attrs

from ..address import Address
from ..config.schema import Transport
from .shaping import Shape


class Fault(enum.IntEnum):
    """What a place suffers from; where several apply, the greatest counts."""

    FREEZE = 1  # the kernel lives, the applications stand still
    REFUSE = 2  # new connections and datagrams are refused
    UNREACHABLE = 3  # routers answer that there is no way
    BLACK_HOLE = 4  # nothing gets in or out, and nothing says so


@attrs.frozen
class Place:
    """A machine, or one port of it; on one transport, or on both."""

    host: str
    port: int | None = None
    transport: Transport | None = None

    def is_in(self, wider: "Place") -> bool:
        """True when `wider` says nothing that this place contradicts."""
        return self.host == wider.host and wider.port in (None, self.port) and wider.transport in (None, self.transport)

    def holds(self, port: int, transport: Transport) -> bool:
        """True when that port of its host is in this place."""
        return self.port in (None, port) and self.transport in (None, transport)


@attrs.define(eq=False)
class Conditions:
    """The faults and distances in force. Hosts are given by the first address of their machine."""

    faults: dict[str, dict[Place, Fault]] = attrs.field(factory=dict)  # by host, and none without one
    host_latency: dict[str, float] = attrs.field(factory=dict)
    link_latency: dict[frozenset[str], float] = attrs.field(factory=dict)
    partitions: set[frozenset[str]] = attrs.field(factory=set)
    host_shape: dict[str, Shape] = attrs.field(factory=dict)
    link_shape: dict[frozenset[str], Shape] = attrs.field(factory=dict)

    def fault(self, host: str, address: Address, transport: Transport) -> Fault | None:
        """The greatest fault at a port of a machine."""
        found = self.faults.get(host)
        if found is None:
            return None
        return max((each for place, each in found.items() if place.holds(address.port, transport)), default=None)

    def inflict(self, place: Place, fault: Fault) -> None:
        """Puts a fault at `place`, instead of the one that was just there."""
        self.faults.setdefault(place.host, {})[place] = fault

    def lift(self, place: Place) -> None:
        """Removes every fault at `place` and inside it."""
        found = self.faults.pop(place.host, {})
        left = {other: fault for other, fault in found.items() if not other.is_in(place)}
        if left:
            self.faults[place.host] = left

    def delay(self, source: str, destination: str) -> float:
        """Seconds from one machine to another, one way: the link's if it has a latency, else the sum of both hosts'."""
        if source == destination:
            return 0.0
        link = self.link_latency.get(frozenset((source, destination)))
        if link is not None:
            return link
        return self.host_latency.get(source, 0.0) + self.host_latency.get(destination, 0.0)

    def shape(self, source: str, destination: str) -> Shape | None:
        """How packets between two machines are treated: as the link says, else as both hosts do; None is as ever."""
        if not (self.host_shape or self.link_shape):
            return None
        link = self.link_shape.get(frozenset((source, destination)))
        if link is not None or source == destination:  # a host's own shape is that of its cable
            return link
        found = [self.host_shape[host] for host in (source, destination) if host in self.host_shape]
        return found[0].then(found[1]) if len(found) == 2 else next(iter(found), None)
