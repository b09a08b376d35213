"""UDP on the virtual network: whole datagrams, bounded queues, and refusals that quote."""

from collections import deque
from functools import partial

from ..address import Address
from ..config.schema import Transport
from ..errors import DatagramRefused, DatagramTooLong
from ..net.ports import Datagram
from .closing import Waitable
from .conditions import Fault
from .fabric import Fabric, Packet
from .machine import Machine
from .trace import Kind

LONGEST = {4: 65507, 6: 65527}  # 65,535 less the headers that count
QUOTED = {4: 520, 6: 1184}  # payload in an ICMP error of at most 576 bytes (RFC 1812) or 1280 (RFC 4443)
OVERHEAD = 768  # what Linux charges a receive buffer for a datagram's bookkeeping


def _family(address: Address) -> int:
    return 6 if ":" in address.host else 4


def send_datagram(fabric: Fabric, data: bytes, source: Address, destination: Address) -> None:
    """Sends one datagram. Errors: `DatagramTooLong`."""
    if len(data) > LONGEST[_family(destination)]:
        raise DatagramTooLong(f"{len(data)} bytes do not fit into one datagram to {destination}")
    packet = Packet(Kind.DATAGRAM, Transport.UDP, source, destination, len(data))
    told = partial(_tell_refused, fabric, data, source, destination)
    fabric.carry(packet, partial(_deliver, fabric, data, source, destination), unreachable=told)


def _deliver(fabric: Fabric, data: bytes, source: Address, destination: Address) -> None:
    machine = fabric.machine(destination.host)
    port = _connected(machine, destination, source) or machine.listener(Transport.UDP, destination)
    refused = fabric.fault(destination, Transport.UDP) is Fault.REFUSE
    if isinstance(port, (VirtualDatagramConn, VirtualDatagramPort)) and not refused:
        port.take_in(data, source, destination)
    elif fabric.may_refuse(destination.host):
        icmp = Packet(Kind.REFUSAL, Transport.UDP, destination, source, len(data))
        fabric.carry(icmp, partial(_tell_refused, fabric, data, source, destination))


def _tell_refused(fabric: Fabric, data: bytes, source: Address, destination: Address) -> None:
    """An ICMP error is back where the datagram came from: only a connected socket is told."""
    conn = _connected(fabric.machine(source.host), source, destination)
    if conn is not None:
        limit = QUOTED[_family(destination)]
        conn.hear_refusal(DatagramRefused(data[:limit], cut=len(data) >= limit))


def _connected(machine: Machine, local: Address, peer: Address) -> "VirtualDatagramConn | None":
    conn = machine.sessions.get((local, peer))
    return conn if isinstance(conn, VirtualDatagramConn) else None


class VirtualDatagramPort(Waitable):
    """A listening UDP socket; a `net.ports.DatagramPort`."""

    transport = Transport.UDP
    peer = None

    def __init__(self, fabric: Fabric, machine: Machine, address: Address) -> None:
        super().__init__(fabric, address)
        self._machine = machine
        self.address = address
        self._queue: deque[Datagram] = deque()
        self._queued = 0
        machine.bind(self)

    async def receive(self) -> Datagram:
        """Waits for a datagram."""
        await self._begin()
        while True:
            self._check_open()
            if self._queue and not self._frozen:
                datagram = self._queue.popleft()
                self._queued -= len(datagram.data) + OVERHEAD
                return datagram
            await self._wait_change()

    def send_nowait(self, data: bytes, client: Address, local: Address) -> None:
        """Sends to `client` from `local`, the address the client wrote to. Errors: `DatagramTooLong`."""
        self._check_open()
        send_datagram(self._fabric, data, local, client)

    def take_in(self, data: bytes, source: Address, destination: Address) -> None:
        """Queues a datagram, or drops it when the buffer is full."""
        if self._queued < self._fabric.buffers.datagrams:
            self._queued += len(data) + OVERHEAD
            self._queue.append(Datagram(data, source, destination))
            self.stir()

    def close(self) -> None:
        """Gives the port back at once."""
        if not self._closed:
            self._closed = True
            self._machine.unbind(self)
            self.stir()

    def crash(self, *, silently: bool) -> None:
        """Loses what was queued; the port survives, as after a restart of the process."""
        self._queue.clear()
        self._queued = 0


class VirtualDatagramConn(Waitable):
    """A connected UDP socket; a `net.ports.DatagramConn`."""

    transport = Transport.UDP

    def __init__(self, fabric: Fabric, machine: Machine, local: Address, peer: Address) -> None:
        super().__init__(fabric, local)
        self._machine = machine
        self.local = local
        self.peer = peer
        self._queue: deque[bytes | DatagramRefused] = deque()
        self._queued = 0
        machine.connected[self] = None
        machine.sessions[local, peer] = self

    async def receive(self) -> bytes:
        """Waits for a datagram. Errors: `DatagramRefused`, once for each that was refused."""
        await self._begin()
        while True:
            self._check_open()
            if self._queue and not self._frozen:
                item = self._queue.popleft()
                if isinstance(item, DatagramRefused):
                    raise item
                self._queued -= len(item) + OVERHEAD
                return item
            await self._wait_change()

    def send_nowait(self, data: bytes) -> None:
        """Sends one datagram whole. Errors: `DatagramTooLong`."""
        self._check_open()
        send_datagram(self._fabric, data, self.local, self.peer)

    def take_in(self, data: bytes, source: Address, destination: Address) -> None:
        """Queues a datagram, or drops it when the buffer is full."""
        if self._queued < self._fabric.buffers.datagrams:
            self._queued += len(data) + OVERHEAD
            self._queue.append(data)
            self.stir()

    def hear_refusal(self, refusal: DatagramRefused) -> None:
        """Queues what came back of a datagram of ours."""
        self._queue.append(refusal)
        self.stir()

    def close(self) -> None:
        """Gives the port back at once."""
        if not self._closed:
            self._closed = True
            self._machine.give_back_port(self.transport, self.local.port)
            self._machine.connected.pop(self, None)
            self._machine.sessions.pop((self.local, self.peer), None)
            self.stir()

    def crash(self, *, silently: bool) -> None:
        """The process dies: the socket is closed."""
        self.close()
