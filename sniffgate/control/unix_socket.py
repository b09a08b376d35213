"""The control port as a Unix socket: reachable by its owner only, and never taken from who still uses it.

Nobody can connect to a bound socket before `listen` (unix(7): ECONNREFUSED). So the mode is set between the two,
whatever the umask is, and the umask, which belongs to the whole process, is left alone. Looking at what stands at the
path, removing it and binding happen under a lock on the directory: two gateways that start together would otherwise
both find a stale socket, and the second would remove the first one's live one.
"""

import contextlib
import errno
import fcntl
import os
import socket
import stat
from collections.abc import Iterator

import trio

from ..errors import CannotBind, ConfigError, Fault, LocalShortage, PeerReset, Side

LONGEST_PATH = 107  # bytes; sockaddr_un has 108, the last for a NUL
_SHORTAGES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class UnixConn:
    """One accepted client; as much of `net.ports.Conn` as the control port needs."""

    def __init__(self, sock: trio.socket.SocketType) -> None:
        """*Closes:* `sock`."""
        self._sock = sock
        self._stream = trio.SocketStream(sock)

    async def receive_some(self, max_bytes: int) -> bytes:
        """Waits for data; b"" is the end of stream. Errors: `PeerReset`."""
        try:
            return bytes(await self._stream.receive_some(max_bytes))
        except trio.BrokenResourceError as error:
            raise PeerReset(Side.CLIENT) from error

    async def send_all(self, data: bytes) -> None:
        """Returns when the kernel has taken all of `data`. Errors: `PeerReset`."""
        try:
            await self._stream.send_all(data)
        except trio.BrokenResourceError as error:
            raise PeerReset(Side.CLIENT) from error

    async def send_eof(self) -> None:
        """Ends our direction; nothing happens if the peer is gone."""
        with contextlib.suppress(trio.BrokenResourceError):
            await self._stream.send_eof()

    def close(self) -> None:
        """Closes at once."""
        self._sock.close()


class UnixAcceptor:
    """The listening socket at `path`. Closing removes the file, if it is still ours."""

    def __init__(self, path: str, sock: socket.socket) -> None:
        """*Closes:* `sock`, bound and listening."""
        self.path = path
        status = os.lstat(path)
        self._identity = status.st_dev, status.st_ino
        sock.setblocking(False)
        self._sock = trio.socket.from_stdlib_socket(sock)
        self._is_closed = False

    async def accept(self) -> UnixConn:
        """Waits for a client. Errors: `LocalShortage`."""
        while True:
            try:
                sock, _ = await self._sock.accept()
            except OSError as error:
                if error.errno in _SHORTAGES:
                    raise LocalShortage(f"unix:{self.path}: {error.strerror}") from error
                if error.errno == errno.ECONNABORTED:
                    continue
                raise
            return UnixConn(sock)

    def close(self) -> None:
        """Closes, and removes the file unless another has taken its place."""
        if self._is_closed:
            return
        self._is_closed = True
        # first the file, while our open socket keeps its inode's number from being used again
        with contextlib.suppress(OSError, CannotBind), _locked(self.path):
            status = os.lstat(self.path)
            if (status.st_dev, status.st_ino) == self._identity:
                os.unlink(self.path)
        self._sock.close()


def open_unix(path: str) -> UnixAcceptor:
    """Listens at `path`, mode 0600. Replaces a socket that nobody listens at any more; everything else stays.

    Errors: `ConfigError` when no socket can be at that path, `CannotBind`.
    """
    _check_path(path)
    try:
        with _locked(path):
            _clear(path)
            return _bind(path)
    except OSError as error:
        raise _cannot(path, error.strerror or str(error)) from error


def _check_path(path: str) -> None:
    name = f"unix:{path}"
    if not path or path.endswith("/") or "\0" in path:
        raise ConfigError(Fault("admin_listen", 0, "", f"{name!a} has no path of a socket"))
    if len(os.fsencode(path)) > LONGEST_PATH:
        sentence = f"the path in {name} has {len(os.fsencode(path))} bytes, a socket's has at most {LONGEST_PATH}"
        raise ConfigError(Fault("admin_listen", 0, "", sentence))


def _bind(path: str) -> UnixAcceptor:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.bind(path)
        os.chmod(path, 0o600)
        sock.listen(64)
        return UnixAcceptor(path, sock)
    except BaseException:
        sock.close()
        raise


def _clear(path: str) -> None:
    """Removes a stale socket. Errors: `CannotBind` when something else is there, or somebody listens."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(status.st_mode):
        raise _cannot(path, "something that is not a socket stands there")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trial:
        trial.setblocking(False)  # a full backlog is a live one
        number = trial.connect_ex(path)
    if number == errno.ECONNREFUSED:
        os.unlink(path)
    elif number not in (errno.ENOENT,):
        live = number in (0, errno.EAGAIN, errno.EPROTOTYPE)
        raise _cannot(path, "another process listens there" if live else os.strerror(number))


@contextlib.contextmanager
def _locked(path: str) -> Iterator[None]:
    """Holds the lock of the directory of `path`. Errors: `CannotBind`, OSError."""
    parent = os.path.dirname(path) or "."
    try:
        directory = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise _cannot(path, f"the directory {parent} does not exist") from error
    try:
        try:
            fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise _cannot(path, f"another process has the lock of {parent}: try again") from error
        yield
    finally:
        os.close(directory)


def _cannot(path: str, why: str) -> CannotBind:
    return CannotBind(f"cannot listen at unix:{path}: {why}")
