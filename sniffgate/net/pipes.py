"""Pipes for splice: a few big ones, used again only when they are known to be empty.

A pipe that goes back with a byte left in it would hand one client's data to the next.
"""

import contextlib
import fcntl
import os

PIPE_BYTES = 1024 * 1024
MOST_PIPES = (
    32  # of PIPE_BYTES each: the per-user soft limit (fs.pipe-user-pages-soft) is 64 MiB, and it is not ours alone
)


class Pipe:
    """A non-blocking pipe and how many bytes are in it."""

    __slots__ = ("level", "reader", "writer")

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.level = 0
        with contextlib.suppress(OSError):  # EPERM above the soft limit: it works with the 64 KiB that it has
            fcntl.fcntl(self.writer, fcntl.F_SETPIPE_SZ, PIPE_BYTES)

    def close(self) -> None:
        """Closes both ends; what is inside is lost."""
        os.close(self.reader)
        os.close(self.writer)


class PipePool:
    """At most `most` pipes at once, in use or waiting."""

    def __init__(self, most: int = MOST_PIPES) -> None:
        self._most = most
        self._idle: list[Pipe] = []
        self.open = 0

    def take(self) -> Pipe | None:
        """An empty pipe; None when all are in use, or this machine has no descriptor left."""
        if self._idle:
            return self._idle.pop()
        if self.open >= self._most:
            return None
        try:
            pipe = Pipe()
        except OSError:
            return None
        self.open += 1
        return pipe

    def give_back(self, pipe: Pipe) -> None:
        """Takes a pipe back; one that is not empty is closed."""
        if pipe.level:
            pipe.close()
            self.open -= 1
        else:
            self._idle.append(pipe)

    def close(self) -> None:
        """Closes the pipes that wait."""
        for pipe in self._idle:
            pipe.close()
        self.open -= len(self._idle)
        self._idle.clear()
