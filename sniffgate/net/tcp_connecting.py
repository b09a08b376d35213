"""Opening a TCP connection on the kernel's sockets: over at once, or when the kernel says so."""

import errno
import socket
from types import TracebackType
from typing import Self

import trio

from ..address import Address
from ..errors import ConnectFailed, ConnectRefused, LocalShortage, Side, Unreachable
from .errno_map import connect_failure
from .sockaddr import family_of, to_sockaddr
from .tcp_sockets import SocketConn, set_user_timeout, tune


class SocketConnecting:
    """A connection being opened: over at once, or when the kernel says so."""

    def __init__(self, address: Address, user_timeout: float) -> None:
        self._address = address
        self._sock: socket.socket | None = None
        self._conn: SocketConn | None = None
        self._error: ConnectFailed | LocalShortage | None = None
        try:
            raw = to_sockaddr(address, family_of(address))
            sock = self._sock = socket.socket(family_of(address), socket.SOCK_STREAM)
            sock.setblocking(False)
            tune(sock)
            if user_timeout:
                set_user_timeout(sock, user_timeout)
            number = sock.connect_ex(raw)
            if number == errno.EINPROGRESS:
                # Always the first answer: what the peer said meanwhile is only looked at when the call returns. On
                # loopback it has said all by then.
                number = sock.connect_ex(raw)
            if number not in (errno.EINPROGRESS, errno.EALREADY):
                self._finish(0 if number == errno.EISCONN else number)
        except OSError as error:
            if self._sock is not None:
                self._sock.close()
                self._sock = None
            self._fail(_connect_failure(error, address), error)

    def fileno(self) -> int:
        """The descriptor to wait at until it is writable; -1 once it is over."""
        return -1 if self._sock is None else self._sock.fileno()

    def settle(self) -> None:
        """Takes down how it went, once the descriptor is writable."""
        assert self._sock is not None
        self._finish(self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))

    def settle_if_over(self) -> bool:
        """The same where the descriptor may not be writable yet; False then, and nothing was done. Linux only."""
        assert self._sock is not None
        number = self._sock.connect_ex(to_sockaddr(self._address, family_of(self._address)))
        if number in (errno.EINPROGRESS, errno.EALREADY):
            return False
        self._finish(0 if number == errno.EISCONN else number)
        return True

    def result_nowait(self) -> SocketConn | None:
        """See `Connecting.result_nowait`."""
        conn, self._conn = self._conn, None
        return conn

    def failure_nowait(self) -> ConnectFailed | LocalShortage | None:
        """See `Connecting.failure_nowait`."""
        return self._error

    async def wait(self) -> SocketConn:
        """See `Connecting.wait`. *Cancellation:* the attempt is given up."""
        try:
            if self._sock is not None:
                await trio.lowlevel.wait_writable(self._sock)
                self.settle()
            else:
                await trio.lowlevel.checkpoint()
            if self._error is not None:
                raise self._error
            conn = self.result_nowait()
            assert conn is not None
            return conn
        finally:
            self.close()

    def close(self) -> None:
        """Gives the attempt up, or the connection that nobody took."""
        if self._sock is not None:
            self._sock.close()
            self._sock = None
        if self._conn is not None:
            self._conn.close()
            self._conn = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _finish(self, number: int) -> None:
        """The kernel is done, with this error number (0: connected)."""
        sock, self._sock = self._sock, None
        assert sock is not None
        try:
            if number:
                raise OSError(number, "")
            conn = SocketConn(sock, Side.UPSTREAM, self._address)
        except OSError as error:
            sock.close()
            self._fail(_connect_failure(error, self._address), error)
            return
        if _is_own_peer(sock, self._address.port):
            conn.abort()  # so that it leaves no TIME_WAIT on the port of the node we look for
            self._error = ConnectRefused(f"{self._address}: nobody listens there, the attempt met itself")
        else:
            self._conn = conn

    def _fail(self, failure: ConnectFailed | LocalShortage, cause: OSError) -> None:
        failure.__cause__ = cause
        self._error = failure


def _connect_failure(error: OSError, address: Address) -> ConnectFailed | LocalShortage:
    number = error.errno or 0
    if number == errno.EADDRNOTAVAIL and ":" in address.host and _ipv6_is_off():
        return Unreachable(f"{address}: this machine has no IPv6 address")
    return connect_failure(number, address)


def _ipv6_is_off() -> bool:
    """With IPv6 switched off, connecting fails with EADDRNOTAVAIL, as it does when no local port is left."""
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as trial:
            trial.bind(("::1", 0))
    except OSError as error:
        return error.errno == errno.EADDRNOTAVAIL
    return False


def _is_own_peer(sock: socket.socket, port: int) -> bool:
    """A connect to a free loopback port in the ephemeral range may pick that port as its own and meet itself."""
    try:
        own = sock.getsockname()
        return bool(own[1] == port and own == sock.getpeername())
    except OSError:
        return False
