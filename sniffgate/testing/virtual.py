"""A network without sockets, on Trio's clock alone: under `MockClock` an hour of failures takes no time.

    network = VirtualNetwork()                      # a `net.ports.Network` of the machine 127.0.0.1
    backend = network.host("10.0.0.1")              # the same, of another machine
    network.set_latency(0.05, "10.0.0.1")
    network.kill("10.0.0.1")

It keeps the contract of `net/ports.py` (`tests/net/contract.py` runs against both networks) and answers like Linux
where that is silent: buffers, retries, backlogs, refusals and their quotes. Apart from the order in which Trio runs
tasks that are due together, the same calls and the same seed always give the same history; `seeding.py` gives that
order a seed too.
"""

from typing import TypeVar

import trio

from ..address import Address, canonical_host, is_ip
from ..config.schema import Transport
from ..errors import CannotBind, NameUnresolved
from .conditions import Fault
from .connecting import VirtualConnecting
from .fabric import Budget, Buffers, Fabric, Packet
from .handshake import Handshake, VirtualAcceptor
from .machine import Machine
from .names import Names as Names
from .shaping import Shape, Shaper
from .trace import Fate, Kind, Trace
from .virtual_tcp import VirtualConn
from .virtual_udp import VirtualDatagramConn, VirtualDatagramPort

LOCALHOST = ("127.0.0.1", "::1")
EPHEMERAL = range(40000, 65536)
Key = TypeVar("Key")


class VirtualHost:
    """The network as one machine sees it; a `net.ports.Network`."""

    def __init__(self, fabric: Fabric, machine: Machine, names: Names) -> None:
        self._fabric = fabric
        self._machine = machine
        self.names = names

    @property
    def address(self) -> str:
        """The machine's first IP address."""
        return self._machine.name

    def open_sockets(self, to: str | None = None) -> list[tuple[Transport, Address]]:
        """Transport and local address of each open socket on this machine, or of each that is connected to one host."""
        sockets = [each for each in self._machine.sockets() if each.is_open]
        return [(each.transport, each.place) for each in sockets if to is None or (each.peer and each.peer.host == to)]

    def listening(self) -> list[tuple[Transport, Address]]:
        """Transport and local address of each open socket on this machine that listens."""
        return [(each.transport, each.place) for each in self._machine.sockets() if each.is_open and each.peer is None]

    async def look_up(self, host: str) -> tuple[str, ...]:
        """Every address of a name; takes `names.delay` seconds. Errors: `NameUnresolved`."""
        if is_ip(host):
            await trio.lowlevel.checkpoint()
            return (host,)
        here = Address(self.address, 0)
        self._fabric.record(Packet(Kind.LOOK_UP, Transport.UDP, here, Address(host, 0)), Fate.SENT)
        await trio.sleep(self.names.delay)
        found = () if self.names.failing else tuple(dict.fromkeys(self.names.get(host, ())))
        if not found:
            raise NameUnresolved(f"{host} has no address")
        return found

    async def listen_tcp(self, address: Address) -> VirtualAcceptor:
        """Binds and listens. Errors: `CannotBind`."""
        literal = await self._literal(address)
        return VirtualAcceptor(self._fabric, self._machine, self._machine.claim(Transport.TCP, literal))

    async def listen_udp(self, address: Address) -> VirtualDatagramPort:
        """Binds. Errors: `CannotBind`."""
        literal = await self._literal(address)
        return VirtualDatagramPort(self._fabric, self._machine, self._machine.claim(Transport.UDP, literal))

    async def connect_tcp(self, address: Address, *, user_timeout: float = 0.0) -> VirtualConn:
        """Opens a connection; takes one round trip. Errors: `ConnectFailed`'s subclasses, `LocalShortage`."""
        await trio.lowlevel.checkpoint()
        self._fabric.wire.settle()
        local, peer = self._ends(Transport.TCP, address)
        conn = await Handshake(self._fabric, self._machine, local, peer).wait()
        conn.set_user_timeout(user_timeout)
        return conn

    def begin_connect(self, address: Address, *, user_timeout: float = 0.0) -> VirtualConnecting:
        """Never done at once: the SYN leaves when somebody waits for it."""
        return VirtualConnecting(lambda: self.connect_tcp(address, user_timeout=user_timeout))

    def connect_udp(self, address: Address) -> VirtualDatagramConn:
        """Opens a connected UDP socket. Errors: `Unreachable`, `LocalShortage`."""
        local, peer = self._ends(Transport.UDP, address)
        return VirtualDatagramConn(self._fabric, self._machine, local, peer)

    def _ends(self, transport: Transport, address: Address) -> tuple[Address, Address]:
        """Our address and the other one. Connecting to a wildcard address means this machine."""
        host = canonical_host(address.host)
        if address.is_wildcard:
            host = self._machine.source_for("::" if ":" in host else "0.0.0.0")
        source = self._machine.source_for(host)
        return Address(source, self._machine.take_port(transport)), Address(host, address.port)

    async def _literal(self, address: Address) -> Address:
        if address.is_wildcard or address.is_literal:
            await trio.lowlevel.checkpoint()
            return Address(canonical_host(address.host), address.port)
        try:
            return Address((await self.look_up(address.host))[0], address.port)
        except NameUnresolved as error:
            raise CannotBind(f"cannot bind {address}: {error}") from error


class VirtualNetwork(VirtualHost):
    """The whole network, and at once the view of its machine 127.0.0.1 (also ::1).

    A host is known by its literal IP address and exists as soon as it is spoken of; what it does not serve it refuses.
    Loopback addresses are those of one machine, which every other reaches too. A `target` is a host ("10.0.0.1") or one
    port of it (an `Address`), and with `transport` only that one. Faults stay until `recover`; the greatest one counts.
    """

    def __init__(
        self,
        *,
        seed: int = 0,
        buffers: Buffers | None = None,
        ports: range = EPHEMERAL,
        trace_limit: int = 100_000,
    ) -> None:
        """`seed` is of the dice that `shape` needs."""
        fabric = Fabric(buffers or Buffers(), ports, Trace(maxlen=trace_limit), Shaper(seed))
        super().__init__(fabric, fabric.machine(*LOCALHOST), Names(localhost=LOCALHOST))
        self.trace = fabric.trace

    def host(self, address: str, *more: str) -> VirtualHost:
        """The network as seen from a host, which may have more addresses (of the other family, say)."""
        if not all(map(is_ip, (address, *more))):
            raise ValueError("a host is known by literal IP addresses")
        return VirtualHost(self._fabric, self._fabric.machine(address, *more), self.names)

    # --- distance ---------------------------------------------------------------------------------

    def set_latency(self, seconds: float, host: str, other: str | None = None) -> None:
        """One-way latency in seconds of what enters or leaves `host`, or of its link to `other` alone.

        It applies to packets sent from now on. A link's own latency replaces the sum of its two hosts'.
        """
        if other is None:
            self._fabric.conditions.host_latency[self._fabric.machine(host).name] = seconds
        else:
            self._fabric.conditions.link_latency[self._pair(host, other)] = seconds

    def shape(self, shape: Shape | None, host: str, other: str | None = None) -> None:
        """Treats what enters or leaves `host`, or its link to `other` alone, as `shape` says; None as before.

        It applies to packets sent from now on. A link's own shape replaces those of its two hosts.
        """
        conditions = self._fabric.conditions
        if other is None:
            _put(conditions.host_shape, self._fabric.machine(host).name, shape)
        else:
            _put(conditions.link_shape, self._pair(host, other), shape)

    def partition(self, host: str, other: str) -> None:
        """Lets nothing pass between two hosts, either way, until `heal`."""
        self._fabric.conditions.partitions.add(self._pair(host, other))
        self._fabric.notice()

    def heal(self, host: str, other: str) -> None:
        """Ends a partition."""
        self._fabric.conditions.partitions.discard(self._pair(host, other))
        self._fabric.notice()

    def limit_refusals(self, rate: float, burst: int) -> None:
        """Each machine sends at most `rate` ICMP refusals a second, and `burst` at once; without a call, any number."""
        self._fabric.budget = Budget(rate, burst)

    # --- faults -----------------------------------------------------------------------------------

    def refuse(self, target: str | Address, transport: Transport | None = None) -> None:
        """New connections and datagrams are refused; established connections go on."""
        self._inflict(Fault.REFUSE, target, transport)

    def black_hole(self, target: str | Address, transport: Transport | None = None) -> None:
        """Packets in and out vanish; nobody is told. Connections go on where they were if it recovers in time."""
        self._inflict(Fault.BLACK_HOLE, target, transport)

    def unreachable(self, target: str | Address, transport: Transport | None = None) -> None:
        """Routers answer that there is no way; connections stand still."""
        self._inflict(Fault.UNREACHABLE, target, transport)

    def freeze(self, target: str | Address, transport: Transport | None = None) -> None:
        """The kernel answers, the application stands still: nothing is accepted, received or sent in its tasks.

        Handshakes complete until the backlog is full, and data is taken until the buffers are.
        """
        self._inflict(Fault.FREEZE, target, transport)

    def kill(self, target: str | Address, transport: Transport | None = None) -> None:
        """The process dies: its connections are reset, its ports refuse. Its own tasks find their connections closed.

        Listening sockets live through it empty, so that `recover` is a restart.
        """
        self._inflict(Fault.REFUSE, target, transport)
        self._crash(target, transport, silently=False)

    def power_off(self, target: str | Address, transport: Transport | None = None) -> None:
        """The machine dies without a word: its connections are gone, and nobody is told.

        After `recover` it answers whatever belongs to an old connection with a reset.
        """
        self._inflict(Fault.BLACK_HOLE, target, transport)
        self._crash(target, transport, silently=True)

    def recover(self, target: str | Address, transport: Transport | None = None) -> None:
        """Ends every fault at `target` and, for a host, at its ports."""
        self._fabric.conditions.lift(self._fabric.place(target, transport))
        self._fabric.notice()

    def _inflict(self, fault: Fault, target: str | Address, transport: Transport | None) -> None:
        place = self._fabric.place(target, transport)
        self._fabric.conditions.inflict(place, fault)
        self._fabric.notice()

    def _crash(self, target: str | Address, transport: Transport | None, *, silently: bool) -> None:
        place = self._fabric.place(target, transport)
        for socket in self._fabric.machine(place.host).sockets():
            if place.port in (None, socket.place.port) and transport in (None, socket.transport):
                socket.crash(silently=silently)

    def _pair(self, host: str, other: str) -> frozenset[str]:
        return frozenset((self._fabric.machine(host).name, self._fabric.machine(other).name))


def _put(shapes: dict[Key, Shape], key: Key, shape: Shape | None) -> None:
    if shape is None:
        shapes.pop(key, None)
    else:
        shapes[key] = shape
