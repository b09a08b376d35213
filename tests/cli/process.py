"""The program as a real process, for tests of what only a process has: signals, exit statuses, pipes, limits."""

import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

SOON = 20.0  # seconds: far more than anything here takes, so that a loaded machine fails no test
COMMAND = [sys.executable, "-m", "sniffgate"]

CONFIG = """
[global]
admin_listen = ""
config_poll_interval_ms = 20
{settings}
[[listeners]]
name = "web"
protocol = "tcp"
listen = "{listen}"
[[nodes]]
name = "{node}"
tcp = "127.0.0.1:9"
probe = "none"
"""


def config(*, listen: str = "127.0.0.1:0", node: str = "node-a", settings: str = "") -> str:
    """A small configuration."""
    return CONFIG.format(listen=listen, node=node, settings=settings)


class Program:
    """A started process and what it says on stderr."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.said: list[str] = []
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def close(self) -> None:
        """Kills the process if it still runs, and closes its pipes."""
        self.process.kill()
        self.process.wait(SOON)
        self._reader.join(SOON)
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()

    def wait_for_line(self, pattern: str) -> str:
        """Returns the next line that matches."""
        deadline = time.monotonic() + SOON
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                line = None
            if line is None:
                raise AssertionError(f"no {pattern!r} in {self.said}")
            self.said.append(line)
            if re.search(pattern, line):
                return line

    def wait_listening(self) -> tuple[str, int]:
        """Returns where the first listener is bound, once the gateway is ready."""
        found = re.search(r'listeners="?[\w-]+=([\d.]+):(\d+)', self.wait_for_line("info sniffgate: ready"))
        assert found is not None
        return found[1], int(found[2])

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal."""
        self.process.send_signal(number)

    def wait(self) -> int:
        """Returns the exit status, and gathers what was said last."""
        status = self.process.wait(SOON)
        while (line := self._lines.get(timeout=SOON)) is not None:
            self.said.append(line)
        return status


@contextmanager
def started(*arguments: str | Path, command: Sequence[str] = COMMAND) -> Iterator[Program]:
    """Starts the program; kills it in the end if it still runs."""
    process = subprocess.Popen(
        [*command, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    program = Program(process)
    try:
        yield program
    finally:
        program.close()


def finished(
    *arguments: str | Path, text: str = "", command: Sequence[str] = COMMAND
) -> subprocess.CompletedProcess[str]:
    """Runs the program to its end."""
    return subprocess.run(
        [*command, *map(str, arguments)], input=text, capture_output=True, text=True, timeout=SOON, check=False
    )


def wait_for(condition: Callable[[], bool]) -> None:
    """Returns once something outside this process is so."""
    deadline = time.monotonic() + SOON
    while not condition():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.001)


def wait_until_caught(pid: int, number: signal.Signals) -> None:
    """Returns once the process has a handler for a signal: from then on it is not the kernel that answers."""

    def is_caught() -> bool:
        caught = re.search(r"^SigCgt:\s*([0-9a-f]+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
        return caught is not None and bool(int(caught[1], 16) >> (number - 1) & 1)

    wait_for(is_caught)
