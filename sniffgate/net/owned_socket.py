"""The life of one non-blocking socket: tried first, waited for, closed under its waiters."""

import contextlib
import socket
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self, TypeVar

import trio

T = TypeVar("T")


class OwnedSocket:
    """Owns a socket until closed; the base of every port on the real network."""

    def __init__(self, sock: socket.socket) -> None:
        if sock.gettimeout() != 0.0:  # known without a system call, which setting it again would be
            sock.setblocking(False)
        self._sock = sock
        self._waiting = 0  # tasks that wait on it

    def __repr__(self) -> str:
        return f"<{type(self).__name__} fd={self._sock.fileno()}>"

    def fileno(self) -> int:
        """The descriptor, for whoever moves the bytes in our place; -1 once closed. Stays ours to close."""
        return self._sock.fileno()

    @property
    def plain(self) -> socket.socket:
        """The plain socket, for the relay engine to move bytes with. Stays ours to close."""
        return self._sock

    @property
    def is_closed(self) -> bool:
        """True after `close` (or `abort`)."""
        return self._sock.fileno() < 0

    def close(self) -> None:
        """Closes at once, and wakes a waiting task with `trio.ClosedResourceError`; does nothing the second time."""
        if self._sock.fileno() >= 0:
            self._wake_waiters()
            self._sock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _wake_waiters(self) -> None:
        if not self._waiting:  # asking Trio costs more than the rest of closing, and most flows never wait here
            return
        with contextlib.suppress(RuntimeError):  # outside a Trio run nobody can be waiting
            trio.lowlevel.notify_closing(self._sock)

    def _check_open(self) -> None:
        if self._sock.fileno() < 0:
            raise trio.ClosedResourceError("this socket was closed")

    async def _when_ready(
        self, attempt: Callable[[], T], wait: Callable[[socket.socket], Awaitable[None]] = trio.lowlevel.wait_readable
    ) -> T:
        """Calls `attempt` until it does not raise BlockingIOError, waiting in between, and returns its result.

        The first call comes before any wait, since most often the socket is ready. *Cancellation:* never between a
        successful attempt and the return, so nothing taken from the kernel is lost.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        self._check_open()
        try:
            result = attempt()
        except BlockingIOError:
            pass
        else:
            await trio.lowlevel.cancel_shielded_checkpoint()
            return result
        while True:
            with contextlib.suppress(trio.ClosedResourceError):  # closed, or woken to look again
                await self._wait(wait)
            self._check_open()
            try:
                return attempt()
            except BlockingIOError:
                continue

    async def _wait(self, wait: Callable[[socket.socket], Awaitable[None]]) -> None:
        self._waiting += 1
        try:
            await wait(self._sock)
        finally:
            self._waiting -= 1
