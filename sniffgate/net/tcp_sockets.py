"""TCP on the kernel's sockets: an established connection and a listening one."""

import contextlib
import errno
import fcntl
import socket
import struct
import sys

import trio

from ..address import Address
from ..errors import PeerReset, Side
from .binding import bind_socket, bound_address
from .errno_map import ABANDONED, SHORTAGES, bind_failure, shortage
from .owned_socket import OwnedSocket
from .sockaddr import from_sockaddr

_SIOCOUTQ = 0x5411  # Linux, asm-generic/ioctls.h
_LISTEN_QUEUE = 4096  # the kernel cuts it to net.core.somaxconn
_RESET_AT_CLOSE = struct.pack("ii", 1, 0)

# net/tcp_states.h. A FIN takes a sequence number, so the kernel counts an unacknowledged one as a byte in flight.
_STATES_WITH_FIN_IN_FLIGHT = frozenset({4, 9, 11})  # FIN_WAIT1, LAST_ACK, CLOSING
_STATE_CLOSED = 7


class SocketConn(OwnedSocket):
    """One established TCP connection."""

    def __init__(self, sock: socket.socket, side: Side, peer: Address, local: Address | None = None) -> None:
        super().__init__(sock)
        self.side = side
        self.peer = peer
        self._local = local
        self._ended = False  # the peer's end of stream was received
        self._sent_eof = False
        self._reset: str | None = None  # how the connection broke, once anyone has seen it

    @property
    def local(self) -> Address:
        """See `Conn.local`. Asked for once, since hardly anybody wants to know. Errors: OSError when closed by then."""
        if self._local is None:
            self._local = from_sockaddr(self._sock.getsockname())
        return self._local

    async def receive_some(self, max_bytes: int) -> bytes:
        """See `Conn.receive_some`."""
        if self._ended:
            self._check_open()
            await trio.lowlevel.checkpoint()
            return b""
        try:
            data = await self._when_ready(lambda: self._sock.recv(max_bytes))
        except OSError as error:
            raise self._broken(error) from error
        if data or not max_bytes:
            return data
        if self._reset is not None:
            # A failed send takes the pending error out of the kernel, which then calls this an end of stream.
            raise PeerReset(self.side, self._reset)
        self._ended = True
        return b""

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """See `Conn.send_all`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._sent_eof:
            raise trio.ClosedResourceError("our direction was ended by send_eof")
        with memoryview(data) as whole, whole.cast("B") as rest:
            sent, waited = 0, False
            while sent < len(rest):
                self._check_open()
                try:
                    sent += self._sock.send(rest[sent:])
                except BlockingIOError:
                    await self._wait(trio.lowlevel.wait_writable)
                    waited = True
                except OSError as error:
                    raise self._broken(error) from error
        if not waited:
            await trio.lowlevel.cancel_shielded_checkpoint()

    async def send_eof(self) -> None:
        """See `Conn.send_eof`."""
        await trio.lowlevel.checkpoint()
        self._check_open()
        self._sent_eof = True
        with contextlib.suppress(OSError):  # ENOTCONN: the peer has reset it; receive_some tells
            self._sock.shutdown(socket.SHUT_WR)

    def unsent(self) -> int:
        """See `Conn.unsent`. Only Linux tells; elsewhere 0."""
        if self.is_closed or sys.platform != "linux":
            return 0
        (queued,) = struct.unpack("i", fcntl.ioctl(self._sock.fileno(), _SIOCOUTQ, bytes(4)))
        if not queued:
            return 0
        state = self._state()
        if state == _STATE_CLOSED:  # after a reset the count stands still for ever, though nothing is queued
            return 0
        return int(queued) - (state in _STATES_WITH_FIN_IN_FLIGHT)

    def is_broken(self) -> bool:
        """See `Conn.is_broken`."""
        if self._reset is not None or self.is_closed or sys.platform != "linux":
            return self._reset is not None
        if self._ended and self._sent_eof:
            return False  # both ended properly: the kernel may be done with it
        # not SO_ERROR: reading it would take the error away from the one who must hear of it
        return self._state() == _STATE_CLOSED

    def set_user_timeout(self, seconds: float) -> None:
        """See `Conn.set_user_timeout`. Does nothing where the system has no such option."""
        if not self.is_closed:
            set_user_timeout(self._sock, seconds)

    def abort(self) -> None:
        """See `Conn.abort`."""
        if not self.is_closed:
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_CLOSE)
            self.close()

    def _state(self) -> int:
        return self._sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]

    def _broken(self, error: OSError) -> PeerReset:
        """What an error of the kernel on this connection means; remembers it for `receive_some`.

        EPIPE is not remembered: Linux says it first only when the peer's end of stream came before its reset, and then
        what can still be received does end with an end of stream.
        """
        message = error.strerror or str(error)
        if error.errno != errno.EPIPE:
            self._reset = message
        return PeerReset(self.side, message)


class SocketAcceptor(OwnedSocket):
    """A listening TCP socket."""

    def __init__(self, sock: socket.socket, address: Address) -> None:
        super().__init__(sock)
        self.address = address
        self._local = None if address.is_wildcard else address  # of every client: saves a call for each

    def set_user_timeout(self, seconds: float) -> None:
        """Of clients that come from now on, as `Conn.set_user_timeout`: they have it from here."""
        set_user_timeout(self._sock, seconds)

    async def accept(self) -> SocketConn:
        """See `Acceptor.accept`."""
        return await self._when_ready(self._accept)

    def accept_nowait(self) -> SocketConn | None:
        """See `Acceptor.accept_nowait`."""
        self._check_open()
        try:
            return self._accept()
        except BlockingIOError:
            return None

    def _accept(self) -> SocketConn:
        """The next client. Errors: `BlockingIOError`, `LocalShortage`."""
        while True:
            try:
                sock, raw = self._sock.accept()
            except BlockingIOError:
                raise
            except OSError as error:
                if error.errno in SHORTAGES:
                    raise shortage(error.errno) from error
                if error.errno not in ABANDONED:
                    raise
                continue
            try:
                return SocketConn(sock, Side.CLIENT, from_sockaddr(raw), self._local)
            except OSError:  # not on Linux: options of a socket that was reset meanwhile
                sock.close()


def open_acceptor(address: Address) -> SocketAcceptor:
    """Binds and listens on a literal address or host "". Raises `CannotBind`."""
    try:
        sock = bind_socket(address, socket.SOCK_STREAM)
    except OSError as error:
        raise bind_failure(error, "tcp", address) from error
    try:
        tune(sock)
        sock.listen(_LISTEN_QUEUE)
        return SocketAcceptor(sock, bound_address(sock, address))
    except OSError as error:
        sock.close()
        raise bind_failure(error, "tcp", address) from error


def tune(sock: socket.socket) -> None:
    """Small writes go out at once, and a peer that vanished while idle is found out within a minute.

    Accepted sockets have these options from their listener (Linux copies the whole socket), which spares five system
    calls for each client.
    """
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def set_user_timeout(sock: socket.socket, seconds: float) -> None:
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        # Rounded up: 0 would mean the system's own limit, which is about a quarter of an hour.
        milliseconds = max(1, round(seconds * 1000)) if seconds else 0
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
