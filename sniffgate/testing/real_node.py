"""A node as a real process on loopback, with the same script and the same faults as a virtual one."""

import contextlib
import os
import signal
import subprocess
import sys
from types import TracebackType
from typing import Self

import trio

from ..address import Address
from .faults import Trouble

HOST = "127.0.0.1"
START_LIMIT = 20.0  # seconds


class RealNode:
    """`python -m sniffgate.testing.node` as a child, from `await node.wait_ready()` on; killed at the block's end.

        with RealNode("node-a", "lines") as node:
            await node.wait_ready()

    Faults are asked for at once and take effect a moment later; `wait_ready` returns when all that were asked for have
    (not while it is frozen). Frozen and killed are states of the process, SIGSTOP and SIGKILL; a killed one is started
    again by `recover`, on the same ports. It lives on a leash: it dies when this process does.
    """

    def __init__(self, name: str, script: str = "echo", *, tcp: bool = True, udp: bool = True) -> None:
        """`script` is a name in `sniffgate.testing.scripts.SCRIPTS`, or `module:name` of a `Script`."""
        self.name = name
        self._script = script
        self._ports = [0 if wanted else None for wanted in (tcp, udp)]
        self._child: subprocess.Popen[bytes] | None = None
        self._asked = self._confirmed = 0
        self._unread = b""

    @property
    def tcp(self) -> Address | None:
        """Where it serves TCP; known once it is ready."""
        return None if self._ports[0] is None else Address(HOST, self._ports[0])

    @property
    def udp(self) -> Address | None:
        """Where it serves UDP; known once it is ready."""
        return None if self._ports[1] is None else Address(HOST, self._ports[1])

    @property
    def pid(self) -> int | None:
        """The process; None while there is none."""
        return None if self._child is None else self._child.pid

    def start(self) -> None:
        """Starts the process if there is none, on the ports that it had."""
        if self._child is not None:
            return
        ports = ["-" if port is None else str(port) for port in self._ports]
        command = [sys.executable, "-m", "sniffgate.testing.node", self.name, self._script, *ports]
        pipe = subprocess.PIPE
        self._child = subprocess.Popen(command, stdin=pipe, stdout=pipe, process_group=0)  # Ctrl-C is not for it
        self._asked, self._confirmed, self._unread = 1, 0, b""

    async def wait_ready(self) -> None:
        """Returns when it serves, and every fault that was asked for is in force.

        Errors: `RuntimeError` if the process ends before, `trio.TooSlowError`.
        """
        await trio.lowlevel.checkpoint()
        with trio.fail_after(START_LIMIT):
            while self._child is not None and self._confirmed < self._asked:
                await self._read_confirmation(self._child)

    async def _read_confirmation(self, child: subprocess.Popen[bytes]) -> None:
        assert child.stdout is not None
        await trio.lowlevel.wait_readable(child.stdout)
        received = os.read(child.stdout.fileno(), 4096)
        if not received:
            raise RuntimeError(f"{self.name}: the process ended by itself, status {child.wait()}")
        *lines, self._unread = (self._unread + received).split(b"\n")
        for line in lines:
            self._confirmed += 1
            word, *ports = line.split()
            if word == b"ready":
                self._ports = [None if port == b"-" else int(port) for port in ports]

    # --- what may happen to it --------------------------------------------------------------------

    def kill(self) -> Trouble:
        """SIGKILL. Returns when nothing of it is left."""
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.wait()
            for pipe in (child.stdin, child.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):  # an order that it had not read
                        pipe.close()
            self._asked = self._confirmed = 0
        return Trouble(self.recover)

    def freeze(self) -> Trouble:
        """SIGSTOP."""
        if self._child is not None:
            self._child.send_signal(signal.SIGSTOP)
        return Trouble(self.recover)

    def refuse(self) -> Trouble:
        """Closes both of its ports; connections go on."""
        return self._order("refuse")

    def black_hole(self) -> Trouble:
        """Lets SYNs and datagrams vanish, and stops answering clients. What they send is still acknowledged."""
        return self._order("black_hole")

    def close_udp(self) -> Trouble:
        """Closes its UDP port; TCP goes on."""
        return self._order("close_udp")

    def slow(self, seconds: float) -> Trouble:
        """Answers come `seconds` late from now on."""
        return self._order(f"slow {seconds}")

    def reset_mid_stream(self, after: int) -> Trouble:
        """Resets each connection that has had `after` bytes of answers, instead of the next one."""
        return self._order(f"reset_after {after}")

    def recover(self) -> None:
        """Ends every fault; starts the process again if it was killed."""
        if self._child is None:
            self.start()
        else:
            self._child.send_signal(signal.SIGCONT)
            self._order("recover")

    def _order(self, line: str) -> Trouble:
        if self._child is not None:
            assert self._child.stdin is not None
            os.write(self._child.stdin.fileno(), line.encode() + b"\n")
            self._asked += 1
        return Trouble(self.recover)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
