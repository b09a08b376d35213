"""Child processes that die with their parent, and what Linux says of them: memory and processor time."""

import ctypes
import functools
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from ..errors import SniffgateError

LOAD = Path(__file__).with_name("load")
PR_SET_PDEATHSIG = 1  # prctl(2)
START_WITHIN = 10.0  # seconds for a script to say its first line
END_WITHIN = 2.0  # seconds that a process has after SIGTERM before it is killed
GRACE = 4.0  # seconds beyond its own time that a load has for its result

_libc = ctypes.CDLL(None)  # before any fork: a child must not load libraries


class RoundFailed(SniffgateError):
    """Something did not work or not in time: the round gives no figure. The message says what."""


def _die_with(parent: int) -> None:
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)  # SIGTERM, for nginx takes its workers along on it
    if os.getppid() != parent:  # which died before it was asked for: no signal will come
        os._exit(1)


def environment() -> dict[str, str]:
    """The environment of a child: compiled modules are used and kept, and this package is the one that is found."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**env, "PYTHONPATH": str(Path(__file__).parents[2])}


class Child:
    """A started process. *Closes:* `with` ends it, with SIGTERM first, and waits until it is gone."""

    def __init__(
        self, command: Sequence[str], *, folder: Path | None = None, talks: bool = False, stays: bool = False
    ) -> None:
        """`folder` gets its stderr, and is where it runs unless it `stays` where the parent is.

        `talks`: stdin and stdout are pipes, to it and from it. Errors: `RoundFailed` when it cannot be started.
        """
        pipe = subprocess.PIPE if talks else subprocess.DEVNULL
        errors = subprocess.DEVNULL if folder is None else (folder / "stderr.log").open("ab")
        try:
            self.process = subprocess.Popen(
                command,
                bufsize=0,
                stdin=pipe,
                stdout=pipe,
                stderr=errors,
                cwd=None if stays else folder,
                env=environment(),
                start_new_session=True,  # a terminal's Ctrl-C is for the parent, which then ends its children
                preexec_fn=functools.partial(_die_with, os.getpid()),
            )
        except OSError as error:
            raise RoundFailed(f"{command[0]} cannot be started: {error.strerror}") from None
        finally:
            if not isinstance(errors, int):
                errors.close()
        self._heard = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @property
    def pid(self) -> int:
        """Of the process."""
        return self.process.pid

    def end(self) -> None:
        """SIGTERM, after `END_WITHIN` SIGKILL; returns when it is gone."""
        for end in (self.process.terminate, self.process.kill):
            end()
            try:
                self.process.wait(END_WITHIN)
                break
            except subprocess.TimeoutExpired:
                continue
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()

    def say(self, line: str) -> None:
        """Sends one line to its stdin. Errors: `RoundFailed` when it is gone."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(line.encode() + b"\n")
        except OSError:
            raise RoundFailed("the load generator is gone") from None

    def next_line(self, within: float) -> str:
        """The next line of its stdout. Errors: `RoundFailed` when it ends, or `within` seconds, without one."""
        assert self.process.stdout is not None
        deadline = time.monotonic() + within
        while b"\n" not in self._heard:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise RoundFailed(f"no result within {within:.1f} s")
            more = os.read(self.process.stdout.fileno(), 4096)
            if not more:
                raise RoundFailed("a connection failed, or a datagram was lost")
            self._heard += more
        line, _, self._heard = self._heard.partition(b"\n")
        return line.decode()

    def memory(self) -> int:
        """Resident bytes of it and its children. Errors: `RoundFailed` when it is gone."""
        try:
            pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in _family(self.pid))
        except OSError:
            raise RoundFailed("the gateway is gone") from None
        return pages * os.sysconf("SC_PAGE_SIZE")

    def processor_time(self) -> float:
        """Seconds that it and its children have spent on processors so far. Errors: `RoundFailed` when it is gone."""
        try:
            tasks = [task for pid in _family(self.pid) for task in Path(f"/proc/{pid}/task").iterdir()]
            return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9
        except OSError:
            raise RoundFailed("the gateway is gone") from None


def _family(pid: int) -> list[int]:
    """A process and its descendants."""
    found = [pid]
    for each in found:  # grows as it goes
        for task in Path(f"/proc/{each}/task").iterdir():
            found += map(int, (task / "children").read_text().split())
    return found


def script(name: str, *arguments: object) -> Child:
    """Starts one of the scripts beside this module, apart from whatever else is installed."""
    return Child([sys.executable, "-I", "-S", str(LOAD / name), *map(str, arguments)], talks=True)


class Load(Child):
    """A client process: ready to go once made."""

    def __init__(self, kind: str, port: int, seconds: float, count: int = 1) -> None:
        """`seconds` it runs; `count` of flows, datagrams or connections. Errors: `RoundFailed`."""
        command = [sys.executable, "-I", "-S", str(LOAD / "client.py"), kind, str(port), str(seconds), str(count)]
        super().__init__(command, talks=True)
        self.seconds = seconds
        try:
            self.next_line(START_WITHIN)
        except BaseException:
            self.end()
            raise

    def go(self) -> None:
        """Lets it begin."""
        self.say("go")

    def result(self, within: float = 0.0) -> Mapping[str, float]:
        """Waits for what it has measured. Errors: `RoundFailed`."""
        result: dict[str, float] = json.loads(self.next_line(within or self.seconds + GRACE))
        return result
