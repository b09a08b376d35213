"""What every virtual socket stands on: the machines, and the one way a packet takes between them."""

from collections.abc import Callable

import attrs
import trio

from ..address import Address, canonical_host
from ..config.schema import Transport
from .conditions import Conditions, Fault, Place
from .machine import Machine
from .shaping import Shaper
from .trace import Fate, Kind, Record, Trace
from .wire import Wire


def _nothing() -> None:
    """The answer to a loss that nobody notices."""


@attrs.frozen
class Buffers:
    """How much the kernels of the network hold, in bytes; `backlog` in connections not yet accepted."""

    send: int = 65536
    receive: int = 65536
    datagrams: int = 212992
    backlog: int = 128


@attrs.frozen
class Budget:
    """How many ICMP refusals a machine sends: `rate` a second, and at most `burst` saved up."""

    rate: float
    burst: int


@attrs.define(eq=False)
class _Allowance:
    tokens: float
    at: float


@attrs.frozen
class Packet:
    """One packet. Its kind None is an acknowledgement, which is not traced."""

    kind: Kind | None
    transport: Transport
    source: Address
    destination: Address
    size: int = 0


@attrs.define(eq=False)
class Fabric:
    """The machines by address, the conditions between them, and the trace of all that went over."""

    buffers: Buffers
    ports: range
    trace: Trace
    shaper: Shaper
    wire: Wire = attrs.field(factory=Wire)
    conditions: Conditions = attrs.field(factory=Conditions)
    machines: dict[str, Machine] = attrs.field(factory=dict)
    budget: Budget | None = None
    _allowances: dict[str, _Allowance] = attrs.field(factory=dict)

    def machine(self, host: str, *more: str) -> Machine:
        """The machine at an address, made when first spoken of: one that exists and serves nothing."""
        found = self.machines.get(host)
        if found is not None and not more:
            return found  # asked for each packet, several times
        host = canonical_host(host)
        found = self.machines.get(host)
        if found is None and host.startswith("127.") and not more:
            found = self.machines.get("127.0.0.1")
        if found is None:
            found = Machine((host,), self.ports)
            self.machines[host] = found
        for other in more:
            if self.machines.setdefault(other, found) is not found:
                raise ValueError(f"{other} is an address of another machine")
            if other not in found.addresses:
                found.addresses += (other,)
        return found

    def place(self, target: str | Address, transport: Transport | None) -> Place:
        """What a test calls a place: a host, or a host and port."""
        if isinstance(target, Address):
            return Place(self.machine(target.host).name, target.port, transport)
        return Place(self.machine(target).name, None, transport)

    def fault(self, address: Address, transport: Transport) -> Fault | None:
        """The greatest fault at an address."""
        return self.conditions.fault(self.machine(address.host).name, address, transport)

    def delay(self, source: Address, destination: Address) -> float:
        """Seconds one way."""
        return self.conditions.delay(self.machine(source.host).name, self.machine(destination.host).name)

    def carry(
        self,
        packet: Packet,
        arrive: Callable[[], None],
        lost: Callable[[], None] = _nothing,
        unreachable: Callable[[], None] | None = None,
    ) -> None:
        """Sends a packet; one of the three is called: when a copy arrives, it is lost, or a router's answer is back.

        A packet is lost if something is in its way when it leaves or when it arrives. Without `unreachable` nobody
        listens to routers.
        """
        self.record(packet, Fate.SENT)
        delay = self.delay(packet.source, packet.destination)

        def lose() -> None:
            self.record(packet, Fate.LOST)
            if unreachable is not None and self.fault(packet.destination, packet.transport) is Fault.UNREACHABLE:
                self.wire.after(2 * delay, unreachable)
            else:
                lost()

        def land() -> None:
            if self.passes(packet):
                self.record(packet, Fate.ARRIVED)
                arrive()
            else:
                lose()

        delays = self._delays(packet, delay) if self.passes(packet) else ()
        for each in delays:
            self.wire.after(each, land)
        if not delays:
            lose()

    def _delays(self, packet: Packet, delay: float) -> tuple[float, ...]:
        """When each copy of a packet arrives, in seconds from now; none if it is lost on the way."""
        link = self.machine(packet.source.host).name, self.machine(packet.destination.host).name
        shape = self.conditions.shape(*link)
        if shape is None:
            return (delay,)
        return self.shaper.delays(shape, link, packet.transport, packet.kind, packet.size, trio.current_time(), delay)

    def passes(self, packet: Packet) -> bool:
        """True when nothing is in a packet's way now."""
        conditions = self.conditions
        if not conditions.faults and not conditions.partitions:
            return True
        ends = [(self.machine(end.host).name, end) for end in (packet.source, packet.destination)]
        if conditions.partitions and frozenset(name for name, _ in ends) in conditions.partitions:
            return False
        faults = [conditions.fault(name, end, packet.transport) for name, end in ends if name in conditions.faults]
        return not (Fault.BLACK_HOLE in faults or Fault.UNREACHABLE in faults)

    def record(self, packet: Packet, fate: Fate) -> None:
        """Writes a packet into the trace."""
        if packet.kind is not None and self.trace.maxlen != 0:
            self.trace.append(
                Record(trio.current_time(), packet.kind, fate, packet.source, packet.destination, packet.size)
            )

    def may_refuse(self, host: str) -> bool:
        """True when the machine may send one more ICMP refusal now; takes it from the budget."""
        if self.budget is None:
            return True
        now, name = trio.current_time(), self.machine(host).name
        allowance = self._allowances.setdefault(name, _Allowance(self.budget.burst, now))
        allowance.tokens = min(self.budget.burst, allowance.tokens + (now - allowance.at) * self.budget.rate)
        allowance.at = now
        if allowance.tokens < 1:
            return False
        allowance.tokens -= 1
        return True

    def notice(self) -> None:
        """Lets every socket look at the conditions again."""
        for machine in dict.fromkeys(self.machines.values()):
            for socket in machine.sockets():
                socket.notice()
