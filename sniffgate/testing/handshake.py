"""How virtual connections come to be: listening, and the three steps of a handshake."""

from collections import deque
from functools import partial

import trio

from ..address import Address
from ..config.schema import Transport
from ..errors import ConnectFailed, ConnectRefused, ConnectTimedOut, Side, Unreachable
from .closing import Waitable
from .conditions import Fault
from .fabric import Fabric, Packet
from .machine import Machine
from .trace import Kind
from .virtual_tcp import VirtualConn

FIRST_SYN_RETRY = 1.0  # doubled each time (RFC 6298)
SYN_RETRIES = 6  # so a connect gives up after 127 seconds (Linux, tcp_syn_retries)


class VirtualAcceptor(Waitable):
    """A listening socket; a `net.ports.Acceptor`."""

    transport = Transport.TCP
    peer = None

    def __init__(self, fabric: Fabric, machine: Machine, address: Address) -> None:
        super().__init__(fabric, address)
        self._machine = machine
        self.address = address
        self._waiting: deque[VirtualConn] = deque()  # established
        self._opening: dict[VirtualConn, None] = {}  # answered, not yet established
        machine.bind(self)

    @property
    def is_full(self) -> bool:
        """True when the backlog takes nobody more."""
        return len(self._waiting) + len(self._opening) >= self._fabric.buffers.backlog

    async def accept(self) -> VirtualConn:
        """Waits for a client; one that reset its connection is skipped."""
        await self._begin()
        while (conn := self.accept_nowait()) is None:
            await self._wait_change()
        return conn

    def accept_nowait(self) -> VirtualConn | None:
        """The next client that waits already; one that reset its connection is skipped."""
        self._check_open()
        while self._waiting and not self._frozen:
            conn = self._waiting.popleft()
            if not conn.gone:
                return conn
            conn.close()
        return None

    def begin(self, conn: VirtualConn) -> None:
        """Enters a connection whose SYN has come."""
        self._opening[conn] = None

    def forget(self, conn: VirtualConn) -> None:
        """Drops a connection that never got established."""
        self._opening.pop(conn, None)
        conn.crash(silently=True)

    def establish(self, conn: VirtualConn) -> None:
        """The client's acknowledgement has come: the connection may be accepted."""
        if self._opening.pop(conn, self) is not self:
            self._waiting.append(conn)
            self.stir()

    def close(self) -> None:
        """Stops listening; who was not accepted is reset."""
        if not self._closed:
            self._closed = True
            self._machine.unbind(self)
            self.crash(silently=False)
            self.stir()

    def crash(self, *, silently: bool) -> None:
        """Loses the backlog; listening goes on, as after a restart of the process."""
        for conn in (*self._waiting, *self._opening):
            conn.crash(silently=silently)
        self._waiting.clear()
        self._opening.clear()


class Handshake:
    """One attempt to connect, from `start` until `wait` returns or `abandon` is called."""

    def __init__(self, fabric: Fabric, machine: Machine, local: Address, peer: Address) -> None:
        self._fabric = fabric
        self._conn = VirtualConn(fabric, machine, local, peer, Side.UPSTREAM)
        self._outcome: ConnectFailed | None = None
        self._over = trio.Event()
        self._abandoned = False

    async def wait(self) -> VirtualConn:
        """Connects. Errors: `ConnectRefused`, `Unreachable`, `ConnectTimedOut`. *Cancellation:* nothing is left."""
        self._send_syn(0)
        try:
            await self._over.wait()
            if self._outcome is not None:
                raise self._outcome
        except BaseException:
            self._abandoned = True
            self._conn.crash(silently=not self._over.is_set())
            raise
        return self._conn

    def _packet(self, kind: Kind, *, back: bool = False) -> Packet:
        ends = (self._conn.peer, self._conn.local) if back else (self._conn.local, self._conn.peer)
        return Packet(kind, Transport.TCP, *ends)

    def _send_syn(self, tries: int) -> None:
        if self._abandoned or self._over.is_set():
            return
        if tries > SYN_RETRIES:
            self._fail(ConnectTimedOut(f"{self._conn.peer} did not answer"))
            return
        lost = partial(self._fabric.wire.after, FIRST_SYN_RETRY * 2**tries, partial(self._send_syn, tries + 1))
        unreachable = partial(self._fail, Unreachable(f"no way to {self._conn.peer}"))
        self._fabric.carry(self._packet(Kind.SYN), partial(self._syn_arrived, lost), lost, unreachable)

    def _syn_arrived(self, dropped: partial[None]) -> None:
        peer = self._conn.peer
        machine = self._fabric.machine(peer.host)
        acceptor = machine.listener(Transport.TCP, peer)
        if self._fabric.fault(peer, Transport.TCP) is Fault.REFUSE or not isinstance(acceptor, VirtualAcceptor):
            refused = partial(self._fail, ConnectRefused(f"{peer} refused the connection"))
            self._fabric.carry(self._packet(Kind.RST, back=True), refused)
        elif acceptor.is_full:
            dropped()
        else:
            server = VirtualConn(self._fabric, machine, peer, self._conn.local, Side.CLIENT)
            server.twin = self._conn
            acceptor.begin(server)
            self._send_answer(acceptor, server, 0)

    def _send_answer(self, acceptor: VirtualAcceptor, server: VirtualConn, tries: int) -> None:
        if server.gone or tries > SYN_RETRIES:
            acceptor.forget(server)
            return
        again = partial(self._send_answer, acceptor, server, tries + 1)
        lost = partial(self._fabric.wire.after, FIRST_SYN_RETRY * 2**tries, again)
        self._fabric.carry(self._packet(Kind.SYN_ACK, back=True), partial(self._answered, acceptor, server), lost)

    def _answered(self, acceptor: VirtualAcceptor, server: VirtualConn) -> None:
        if self._abandoned or self._over.is_set():  # too late: the client's kernel knows nothing of it
            self._fabric.carry(self._packet(Kind.RST), partial(acceptor.forget, server))
            return
        self._conn.twin = server
        self._conn.open(partial(acceptor.establish, server))
        self._over.set()

    def _fail(self, error: ConnectFailed) -> None:
        if not self._over.is_set():
            self._outcome = error
            self._over.set()
