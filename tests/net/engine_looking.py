"""What tests see of the engine from outside: what the kernel watches for it, and how often it wakes."""

import errno
import select
from pathlib import Path
from typing import cast

import trio

from sniffgate.net.engine_loop import EngineLoop
from sniffgate.net.pipes import Pipe
from sniffgate.net.sockets import SocketNetwork
from sniffgate.net.tcp_sockets import SocketConn
from tests.net.relay_flow import connect_pair

_NAMES = ((select.EPOLLIN, "in"), (select.EPOLLOUT, "out"))


def registered(loop: EngineLoop) -> dict[int, int]:
    """The descriptors in the engine's epoll set and their events, as the kernel has them, the wake-up call aside."""
    found = {}
    for line in Path(f"/proc/self/fdinfo/{loop._epoll.fileno()}").read_text().splitlines():
        if line.startswith("tfd:"):
            _, fd, _, events, *_ = line.split()
            if int(fd) != loop._wake:
                found[int(fd)] = int(events, 16)
    return found


def watched(loop: EngineLoop) -> list[tuple[str, ...]]:
    """What is waited for at each descriptor, errors aside."""
    return [tuple(name for bit, name in _NAMES if events & bit) for events in registered(loop).values()]


def pipes_in_use(loop: EngineLoop) -> list[Pipe]:
    """The pipes that flows have."""
    return [end.pipe for end in list(loop._ends.values()) if end.pipe is not None]


async def assert_quiet(loop: EngineLoop, seconds: float = 0.3) -> None:
    """The engine sleeps: nothing wakes it for a while."""
    before = loop.wakeups
    await trio.sleep(seconds)
    assert loop.wakeups <= before + 1


async def plain_pair() -> tuple[SocketConn, SocketConn]:
    """A connection of kernel sockets: the end that connected, and the end that was accepted."""
    left, right = await connect_pair(SocketNetwork())
    return cast("SocketConn", left), cast("SocketConn", right)


class Epoll:
    """An epoll set on which another thread is quicker, or where there is no room."""

    def __init__(self, real: select.epoll, *, room: int = 100, overtaken: bool = False) -> None:
        self.real = real
        self.room = room
        self.overtaken = overtaken

    def register(self, fd: int, events: int) -> None:
        if not self.room:
            raise OSError(errno.ENOSPC, "no room")
        self.room -= 1
        self.real.register(fd, events)

    def modify(self, fd: int, events: int) -> None:
        try:
            self.real.modify(fd, events)
        except FileNotFoundError:
            if self.overtaken:
                self.overtaken = False
                self.real.register(fd, select.EPOLLIN)
            raise

    def __getattr__(self, name: str) -> object:
        return getattr(self.real, name)
