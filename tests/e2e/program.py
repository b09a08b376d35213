"""The program and its nodes as real processes, for end-to-end tests. Plain blocking code: what is tested is outside."""

import atexit
import contextlib
import functools
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Self

NODE = Path(__file__).with_name("node.py")
LIMIT = 20.0  # seconds for anything to happen
FAST = """
probe_interval_ms = 100
probe_timeout_ms = 300
connect_timeout_ms = 500
drain_timeout_ms = 1000
config_poll_interval_ms = 100
shutdown_grace_ms = 1000
"""


# Below the range from which Linux takes the ports of outgoing connections: what is free now is not gone in a moment.
PORTS = range(12_000, 32_000)
SNIFFGATE = (sys.executable, "-m", "sniffgate")


@functools.cache
def bytecode() -> str:
    """A folder for compiled modules, shared by all children: without one every start compiles everything anew."""
    folder = tempfile.mkdtemp(prefix="sniffgate-bytecode-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def environment(**more: str) -> dict[str, str]:
    """The environment of a child process."""
    env = {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONPYCACHEPREFIX": bytecode(), **more}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    return env


def free_port() -> int:
    """A port that nothing serves now, on TCP and UDP."""
    while True:
        port = random.choice(PORTS)
        with (
            contextlib.suppress(OSError),
            socket.create_server(("127.0.0.1", port)),
            socket.socket(type=socket.SOCK_DGRAM) as udp,
        ):
            udp.bind(("127.0.0.1", port))
            return port


def until(condition: Callable[[], Any], what: str = "the condition", limit: float = LIMIT) -> Any:
    """Waits for `condition` to be true and returns it; fails after `limit` seconds."""
    give_up = time.monotonic() + limit
    while not (result := condition()):
        assert time.monotonic() < give_up, f"{what} did not come about in {limit} s"
        time.sleep(0.005)
    return result


def sniffgate(*arguments: str | Path, limit: float = LIMIT) -> subprocess.CompletedProcess[str]:
    """Runs a command of the program to its end."""
    return subprocess.run(
        [*SNIFFGATE, *map(str, arguments)], capture_output=True, text=True, timeout=limit, env=environment()
    )


class Process:
    """A child process that is gone when its block is left."""

    def __init__(
        self, *command: str, env: dict[str, str] | None = None, stderr: int | IO[str] = subprocess.DEVNULL
    ) -> None:
        self.child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            env=environment(**(env or {})),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """kill -9, and waits until it is gone."""
        self.child.kill()
        self.child.wait(LIMIT)
        if self.child.stdout is not None:
            self.child.stdout.close()

    def wait(self) -> int:
        """Waits for its end; the exit status."""
        return self.child.wait(LIMIT)

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal."""
        self.child.send_signal(number)


class NodeProcess:
    """A backend that can die and come back on its port."""

    def __init__(self, name: str, transports: tuple[str, ...] = ("tcp", "udp"), port: int = 0) -> None:
        self.name = name
        self.port = port or free_port()
        self._transports = transports
        self._process: Process | None = None
        self.start()

    def start(self, *transports: str) -> None:
        """Starts it, or starts it again."""
        self._process = Process(sys.executable, str(NODE), self.name, str(self.port), *(transports or self._transports))
        assert self._process.child.stdout is not None
        assert "ready\n" == self._process.child.stdout.readline()

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process = None

    def freeze(self) -> None:
        """SIGSTOP."""
        self.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        self.signal(signal.SIGCONT)

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal."""
        assert self._process is not None
        self._process.signal(number)

    def next_line(self) -> str:
        """The next line that the node prints."""
        assert self._process is not None
        assert self._process.child.stdout is not None
        return self._process.child.stdout.readline().strip()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


class Program(Process):
    """`sniffgate run` on a configuration file, with its ports and its control connection."""

    def __init__(
        self,
        path: Path,
        nodes: str,
        *,
        settings: str = "",
        fast: str = FAST,
        tcp: str = "",
        wrap: Sequence[str] = (),
        env: dict[str, str] | None = None,
        stderr: int | None = None,
    ) -> None:
        """`settings` go into `[global]`, `tcp` into the TCP listener; `wrap` stands before the command.

        What it says goes into a file, see `said`, unless `stderr` is a descriptor for it.
        """
        self.path = path
        self.log = path.with_suffix(".log")
        self.port = free_port()
        self.admin = free_port()
        self.settings = f'[global]\nadmin_listen = "127.0.0.1:{self.admin}"\n{fast}{settings}\n'
        self.listeners = "".join(
            f'[[listeners]]\nname = "{each}"\nprotocol = "{each}"\nlisten = "127.0.0.1:{self.port}"\n{more}\n'
            for each, more in (("tcp", tcp), ("udp", ""))
        )
        self.write(nodes)
        self._command = (*wrap, *SNIFFGATE, "run", "-c", str(path))
        self._env = env
        self._stderr = stderr
        self._conns: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self.start()

    def __exit__(self, *_: object) -> None:
        for conn in list(self._conns):
            conn.close()
        self.kill()

    def start(self) -> None:
        """Starts it, or starts it again; returns when it serves."""
        with self.log.open("a") as log:
            super().__init__(*self._command, env=self._env, stderr=log if self._stderr is None else self._stderr)
        try:
            until(self._answers, "the control port")
        except BaseException:
            self.kill()
            raise

    def said(self) -> str:
        """What it has written to stderr."""
        return self.log.read_text()

    def wait_said(self, pattern: str) -> str:
        """Waits for a line of the log that matches."""

        def line() -> str | None:
            return next((line for line in self.said().splitlines() if re.search(pattern, line)), None)

        found: str = until(line, f"a line like {pattern!r}")
        return found

    def content(self, nodes: str) -> str:
        """The configuration with these nodes."""
        return self.settings + self.listeners + nodes

    def write(self, nodes: str) -> None:
        """Writes the file in place, with these nodes."""
        self.path.write_text(self.content(nodes))

    def _answers(self) -> bool:
        assert self.child.poll() is None, self.said()
        try:
            return bool(self.control("status")["ok"])
        except (OSError, ValueError):  # a connection that the start ends in the middle
            return False

    def control(self, line: str) -> dict[str, Any]:
        """Asks the control port one line."""
        with socket.create_connection(("127.0.0.1", self.admin), timeout=LIMIT) as conn:
            conn.sendall(line.encode() + b"\n")
            with conn.makefile() as lines:
                reply: dict[str, Any] = json.loads(lines.readline())
                return reply

    def active(self, transport: str = "tcp") -> str | None:
        """The active node."""
        name: str | None = self.control("status")["active"][transport]
        return name

    def node(self, name: str) -> dict[str, Any]:
        """What `status` says of a node."""
        return next(node for node in self.control("status")["nodes"] if node["name"] == name)

    def wait_healthy(self, *names: str) -> None:
        """Waits until probes have found nodes healthy, on both transports where they have both."""
        until(lambda: all(self.node(name)["state"] == "healthy" for name in names), f"health of {names}")

    def connect(self) -> socket.socket:
        """A client's TCP connection; closed with the program at the latest, so that a failure leaves nothing behind."""
        conn = socket.create_connection(("127.0.0.1", self.port), timeout=LIMIT)
        self._conns.add(conn)
        return conn

    def ask(self, text: bytes = b"hi") -> bytes:
        """One TCP request on a connection of its own: `name:text`."""
        with self.connect() as conn:
            conn.sendall(text)
            return conn.recv(1000)

    @contextlib.contextmanager
    def udp(self) -> Iterator[socket.socket]:
        """A client's UDP socket."""
        with socket.socket(type=socket.SOCK_DGRAM) as port:
            port.settimeout(LIMIT)
            port.connect(("127.0.0.1", self.port))
            yield port

    def descriptors(self) -> int:
        """How many descriptors the program holds."""
        return len(os.listdir(f"/proc/{self.child.pid}/fd"))

    def resident_kb(self) -> int:
        """Resident memory in KiB."""
        for line in Path(f"/proc/{self.child.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1])
        raise AssertionError("no VmRSS")


def node_table(node: NodeProcess, priority: int = 0, more: str = "") -> str:
    """The `[[nodes]]` table of a node."""
    address = f"127.0.0.1:{node.port}"
    return f'[[nodes]]\nname = "{node.name}"\npriority = {priority}\ntcp = "{address}"\nudp = "{address}"\n{more}\n'
