"""A node as the harness holds it: a process that can be killed, frozen, muted and asked what it has seen."""

import json
import signal
import sys
import time
from pathlib import Path
from typing import Self

import attrs

from ..processes import START_WITHIN, Child, RoundFailed
from ..targets import HOST as HOST  # where the study finds it
from ..targets import free_ports
from .artifact import Setting
from .scenario import TrialFailed
from .tuning import table

SCRIPT = Path(__file__).with_name("node_process.py")
clock = time.perf_counter


def since(began: float, at: float) -> float:
    """Milliseconds from one moment of the clock to another."""
    return 1000 * (at - began)


@attrs.frozen
class Seen:
    """What a node itself counted since it was started. A probe over TCP is a connection, over UDP a datagram."""

    accepted: int
    open: int
    requests: int
    bytes: int
    datagrams: int
    datagram_bytes: int


_given: set[int] = set()


def free_port() -> int:
    """A port that nothing serves now, on TCP and UDP, and that was not given before. Errors: `RoundFailed`."""
    while True:
        (port,) = free_ports(1)
        if port not in _given:
            _given.add(port)
            return port


class Node:
    """A node process. Every fault returns the moment (`clock`) that figures count from. *Closes:* `with` kills it.

    Start it in the main thread: Linux takes a child down with the thread that started it.
    """

    def __init__(self, name: str, fields: dict[str, Setting] | None = None, *, port: int | None = None) -> None:
        self.name, self.port, self.fields = name, port or free_port(), fields or {}
        self.starts, self.is_up = 0, False
        self.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> float:
        """Starts it, or starts it again; when it was ready."""
        self.child = Child([sys.executable, "-I", "-S", str(SCRIPT), self.name, str(self.port)], talks=True)
        self._expect("ready")
        self.starts, self.is_up = self.starts + 1, True
        return clock()

    def kill(self) -> float:
        """kill -9; returns, once nothing of it is left, when it was asked for."""
        began, self.is_up = clock(), False
        self.child.process.kill()
        self.child.end()
        return began

    def freeze(self) -> float:
        """SIGSTOP: the kernel goes on accepting, nobody answers. When it was asked for."""
        began, self.is_up = clock(), False
        self.child.process.send_signal(signal.SIGSTOP)
        return began

    def thaw(self) -> float:
        """SIGCONT. When it was asked for."""
        began, self.is_up = clock(), True
        self.child.process.send_signal(signal.SIGCONT)
        return began

    def mute(self) -> float:
        """Accepts and reads from now on, and never answers. When that was so."""
        return self._do("mute")

    def unmute(self) -> float:
        """Answers again. When that was so."""
        return self._do("unmute")

    def close_udp(self) -> float:
        """Closes the UDP port and goes on over TCP. When that was so."""
        return self._do("close-udp")

    def open_udp(self) -> float:
        """Opens the UDP port again. When that was so."""
        return self._do("open-udp")

    def close_tcp(self) -> float:
        """Closes the TCP port and goes on over UDP; open connections stay. When that was so."""
        return self._do("close-tcp")

    def swallow(self) -> float:
        """Lets SYNs vanish from now on. When that was so."""
        return self._do("swallow")

    def seen(self) -> Seen:
        """What it counted. Errors: `TrialFailed` when it is dead or frozen."""
        self._tell("report")
        return Seen(**json.loads(self._line()))

    def table(self, **fields: Setting) -> str:
        """Its `[[nodes]]` table; a field that is None is left out."""
        address = f"{HOST}:{self.port}"
        return table("[[nodes]]", {"name": self.name, "tcp": address, "udp": address, **self.fields, **fields})

    def _do(self, word: str) -> float:
        self._tell(word)
        self._expect("done")
        return clock()

    def _tell(self, word: str) -> None:
        if not self.is_up:
            raise TrialFailed(f"{self.name} is dead or frozen and was told to {word}")
        try:
            self.child.say(word)
        except RoundFailed:
            raise TrialFailed(f"{self.name} died by itself") from None

    def _expect(self, word: str) -> None:
        line = self._line()
        if line != word:
            raise TrialFailed(f"{self.name} said {line!r} instead of {word!r}")

    def _line(self) -> str:
        try:
            return self.child.next_line(START_WITHIN)
        except RoundFailed:
            raise TrialFailed(f"{self.name} did not answer the harness") from None
