"""A UDP socket connected to a node on the kernel, with the kernel's error queue: which datagram was refused."""

import errno
import socket
import struct
import sys
from collections import deque

from ..address import Address
from ..errors import ConnectFailed, DatagramRefused, LocalShortage
from .errno_map import PENDING, REFUSALS, connect_failure, shortage
from .owned_socket import OwnedSocket
from .sockaddr import family_of, from_sockaddr, to_sockaddr
from .udp_listener import enlarge_buffers

_IP_RECVERR = 11  # Linux; Python has no names for these
_IPV6_RECVERR = 25
_MSG_ERRQUEUE = 0x2000
_REPORT = struct.Struct("=IBBBBII")  # struct sock_extended_err: errno, origin, type, code, pad, info, data
_FROM_ICMP = (2, 3)  # SO_EE_ORIGIN_ICMP, SO_EE_ORIGIN_ICMP6; 1 is local: a send of ours that said so itself
_QUOTE_LIMIT = {
    socket.AF_INET: 520,
    socket.AF_INET6: 1184,
}  # payload bytes; measured, and the same on every kernel seen
_WHOLE = 65535

# A limit, not memory in use: a node may answer one datagram with a burst. Ten thousand sessions share the machine.
SESSION_BUFFER = 1024 * 1024

_SEND_TRIES = 3  # a second error after the first one was taken away is rare, a third says that there is no way at all
_CONNECT_TRIES = 3


class SocketDatagramConn(OwnedSocket):
    """A connected UDP socket.

    A refusal is first a pending error that the next call of any kind gets instead of doing its work, and on Linux also
    a report in the error queue, which keeps the socket readable. Only the queue counts here: `send_nowait` sends again
    after taking a pending error away, `receive` reads the reports. Elsewhere the pending error is the report.
    """

    def __init__(self, sock: socket.socket, local: Address, peer: Address) -> None:
        super().__init__(sock)
        self.local = local
        self.peer = peer
        self._quote_limit = _QUOTE_LIMIT[socket.AddressFamily(sock.family)]
        self._reports: deque[DatagramRefused] = deque()
        self._look = False  # a pending error was seen: the queue comes before datagrams, or a busy node would hide it

    async def receive(self) -> bytes:
        """See `DatagramConn.receive`."""
        return await self._when_ready(self._receive)

    def send_nowait(self, data: bytes) -> None:
        """See `DatagramConn.send_nowait`."""
        self._check_open()
        for tries_left in reversed(range(_SEND_TRIES)):
            try:
                self._sock.send(data)
                return
            except OSError as error:
                own = error.errno not in PENDING or (error.errno not in REFUSALS and not tries_left)
                if own:
                    raise shortage(error.errno or errno.ENOBUFS) from error
                self._note_pending_error(error.errno)
        # Not about earlier datagrams, then: there is no way to the node any more, and this datagram is the refused one.
        self._report(DatagramRefused(bytes(data)))

    def look_for_reports(self) -> None:
        """Somebody else who used the socket saw an error: the queue comes before datagrams now."""
        self._look = True

    def _receive(self) -> bytes:
        while True:
            if self._look:
                self._look = False
                self._read_reports()
            if self._reports:
                raise self._reports.popleft()
            try:
                return self._sock.recv(_WHOLE)
            except BlockingIOError:
                # Also without a pending error: unread reports of any kind would make the wait return at once, for ever.
                self._read_reports()
                if not self._reports:
                    raise
            except OSError as error:
                if error.errno not in PENDING:
                    raise
                self._note_pending_error(error.errno)

    def _note_pending_error(self, number: int | None) -> None:
        """After a pending error: the queue says more. It is read by `receive` alone, whom it keeps awake until then.

        With a queue, a pending error without a report means nothing new: the kernel queues first and sets the error
        after, so the report may have been read in between.
        """
        if sys.platform == "linux":
            self._look = True
        elif number in REFUSALS:
            self._report(DatagramRefused())

    def _report(self, refusal: DatagramRefused) -> None:
        self._reports.append(refusal)
        self._wake_waiters()

    def _read_reports(self) -> None:
        if sys.platform != "linux":
            return
        while True:
            try:
                quote, ancillary, _, _ = self._sock.recvmsg(_WHOLE, 512, _MSG_ERRQUEUE)
            except OSError:  # EAGAIN: no more
                return
            if any(_is_refusal(*item) for item in ancillary):
                self._reports.append(DatagramRefused(quote, cut=len(quote) >= self._quote_limit))


def open_datagram_conn(address: Address) -> SocketDatagramConn:
    """Connects a UDP socket to a literal address. Errors: see `Network.connect_udp`."""
    rejected: list[socket.socket] = []
    try:
        for _ in range(_CONNECT_TRIES):
            sock = _connected(address)
            local = from_sockaddr(sock.getsockname())
            if sock.getsockname() != sock.getpeername():
                return SocketDatagramConn(sock, local, address)
            # The kernel picked the very port that we connect to, where nobody is: it would answer itself. Kept open
            # until another socket has another port.
            rejected.append(sock)
        raise LocalShortage(f"{address}: no local port but the node's own")
    finally:
        for sock in rejected:
            sock.close()


def _connected(address: Address) -> socket.socket:
    sock: socket.socket | None = None
    try:
        family = family_of(address)
        raw = to_sockaddr(address, family)
        sock = socket.socket(family, socket.SOCK_DGRAM)
        sock.setblocking(False)
        enlarge_buffers(sock, SESSION_BUFFER)
        if sys.platform == "linux":
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, _IPV6_RECVERR, 1)
            else:
                sock.setsockopt(socket.IPPROTO_IP, _IP_RECVERR, 1)
        number = sock.connect_ex(raw)
        if number:
            raise OSError(number, "")
        if not sock.getsockname()[1]:  # connect says EAGAIN; some report success without a port
            raise OSError(errno.EAGAIN, "")
    except OSError as error:
        if sock:
            sock.close()
        raise _failure(error, address) from error
    return sock


def _failure(error: OSError, address: Address) -> ConnectFailed | LocalShortage:
    return connect_failure(error.errno or 0, address)


def _is_refusal(level: int, kind: int, content: bytes) -> bool:
    if (level, kind) not in ((socket.IPPROTO_IP, _IP_RECVERR), (socket.IPPROTO_IPV6, _IPV6_RECVERR)):
        return False
    number, origin, *_ = _REPORT.unpack_from(content)
    return origin in _FROM_ICMP and number in REFUSALS
