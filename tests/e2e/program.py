"""The program and its nodes as real processes, for end-to-end tests. Plain blocking code: what is tested is outside."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

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


def free_port() -> int:
    """A port that nothing serves now, on TCP and UDP."""
    while True:
        with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp:
            port = int(tcp.getsockname()[1])
            with contextlib.suppress(OSError):
                udp.bind(("127.0.0.1", port))
                return port


def until(condition: Callable[[], Any], what: str = "the condition") -> Any:
    """Waits for `condition` to be true and returns it; fails after LIMIT."""
    give_up = time.monotonic() + LIMIT
    while not (result := condition()):
        assert time.monotonic() < give_up, f"{what} did not come about in {LIMIT} s"
        time.sleep(0.005)
    return result


class Process:
    """A child process that is gone when its block is left."""

    def __init__(self, *command: str, env: dict[str, str] | None = None) -> None:
        self.child = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(env or {}), "PYTHONUNBUFFERED": "1"},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """kill -9, and waits until it is gone."""
        self.child.kill()
        self.child.wait(LIMIT)
        for stream in (self.child.stdout, self.child.stderr):
            if stream is not None:
                stream.close()

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
        assert self._process is not None
        self._process.signal(signal.SIGSTOP)

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

    def __init__(self, path: Path, nodes: str, *, settings: str = "", fast: str = FAST, listeners: str = "") -> None:
        self.path = path
        self.port = free_port()
        self.admin = free_port()
        self.settings = f'[global]\nadmin_listen = "127.0.0.1:{self.admin}"\n{fast}{settings}\n'
        self.listeners = listeners or (
            f'[[listeners]]\nname = "tcp"\nprotocol = "tcp"\nlisten = "127.0.0.1:{self.port}"\n'
            f'[[listeners]]\nname = "udp"\nprotocol = "udp"\nlisten = "127.0.0.1:{self.port}"\n'
        )
        self.write(nodes)
        super().__init__(sys.executable, "-m", "sniffgate", "run", "-c", str(path))
        until(self._answers, "the control port")

    def write(self, nodes: str) -> None:
        """Writes the file in place, with these nodes."""
        self.path.write_text(self.settings + self.listeners + nodes)

    def _answers(self) -> bool:
        assert self.child.poll() is None, self.child.communicate()[1]
        try:
            return bool(self.control("status")["ok"])
        except OSError:
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

    def connect(self) -> socket.socket:
        """A client's TCP connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=LIMIT)

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
