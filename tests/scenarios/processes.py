"""The gateway and its nodes as real processes, and what a client of them measures. Times are `time.perf_counter`'s.

Plain blocking code: whatever this harness does between two looks at the clock is part of the figure.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

NODE = Path(__file__).with_name("node.py")
LIMIT = 20.0  # seconds for anything to happen
POLL = 0.0005  # seconds between two looks at the gateway
clock = time.perf_counter

SETTINGS: dict[str, Any] = {
    "probe_interval_ms": 100,
    "probe_timeout_ms": 300,
    "probe_fast_interval_ms": 20,
    "connect_timeout_ms": 500,
    "hedge_delay_ms": 200,
    "drain_timeout_ms": 1000,
    "config_poll_interval_ms": 100,
    "failure_threshold": 3,
    "success_threshold": 2,
    "passive_eject_threshold": 3,
    "passive_eject_window_ms": 5000,
    "shutdown_grace_ms": 100,
}


_given: set[int] = set()


def free_port() -> int:
    """A port that nothing serves now, on TCP and UDP, and that was not given before."""
    while True:
        with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp:
            port = int(tcp.getsockname()[1])
            if port in _given:
                continue
            with contextlib.suppress(OSError):
                udp.bind(("127.0.0.1", port))
                _given.add(port)
                return port


class Backend:
    """A node as a process of its own."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.port = free_port()
        self.start()

    def start(self) -> float:
        """Starts it, or starts it again; when it was ready."""
        command = [sys.executable, "-I", "-S", str(NODE), self.name, str(self.port)]
        self._child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self._expect("ready")
        return clock()

    def kill(self) -> float:
        """kill -9; returns, once nothing of it is left, when it was asked for."""
        began = clock()
        self._child.kill()
        self._child.wait(LIMIT)
        if self._child.stdout is not None:
            self._child.stdout.close()
        return began

    def freeze(self) -> float:
        """SIGSTOP; when it was asked for."""
        began = clock()
        self._child.send_signal(signal.SIGSTOP)
        return began

    def close_udp(self) -> float:
        """Closes the UDP port and goes on over TCP; when that was done."""
        self._child.send_signal(signal.SIGUSR1)
        self._expect("done")
        return clock()

    def swallow(self) -> float:
        """Lets SYNs vanish from now on; when that was so."""
        self._child.send_signal(signal.SIGUSR2)
        self._expect("done")
        return clock()

    def _expect(self, word: str) -> None:
        assert self._child.stdout is not None
        assert f"{word}\n" == self._child.stdout.readline()

    def table(self, priority: int = 0, **settings: Any) -> str:
        """Its `[[nodes]]` table. Settings are those of the file; None leaves one out."""
        address = f"127.0.0.1:{self.port}"
        fields = {"name": self.name, "priority": priority, "tcp": address, "udp": address, **settings}
        return "[[nodes]]\n" + _lines(fields)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


class Gateway:
    """`python -m sniffgate run` on a file, with one control connection that stays open."""

    def __init__(self, nodes: str, listeners: str = "", **settings: Any) -> None:
        self.port, self.admin = free_port(), free_port()
        self._directory = tempfile.TemporaryDirectory()
        self.path = Path(self._directory.name) / "gateway.toml"
        listeners += listener_table("tcp", "tcp", self.port) + listener_table("udp", "udp", self.port)
        tables = {"admin_listen": f"127.0.0.1:{self.admin}", **SETTINGS, **settings}
        self._head = "[global]\n" + _lines(tables) + listeners
        self.write(nodes)
        self._log = (Path(self._directory.name) / "log").open("w+")
        command = [sys.executable, "-m", "sniffgate", "run", "-c", str(self.path)]
        self.started = clock()
        self.child = subprocess.Popen(command, stdout=self._log, stderr=self._log)
        try:
            self._control = self._connect_soon(self.admin)
            self.control_open = clock() - self.started
            self._connect_soon(self.port).close()
            self.data_open = clock() - self.started
        except BaseException:
            self._end()
            raise
        self._lines = self._control.makefile()

    def write(self, nodes: str) -> None:
        """Writes the file in place, with these nodes."""
        self.path.write_text(self._head + nodes)

    def _connect_soon(self, port: int) -> socket.socket:
        give_up = clock() + LIMIT
        while True:
            conn = socket.socket()
            conn.settimeout(LIMIT)
            is_open = conn.connect_ex(("127.0.0.1", port)) == 0
            if is_open and conn.getsockname() != conn.getpeername():  # a client may be given that very port
                conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return conn
            conn.close()
            assert clock() < give_up, self.log()
            assert self.child.poll() is None, self.log()
            time.sleep(POLL)

    def log(self) -> str:
        """What it has logged so far."""
        self._log.flush()
        return Path(self._log.name).read_text()

    def control(self, line: str) -> dict[str, Any]:
        """Asks the control port one line."""
        self._control.sendall(line.encode() + b"\n")
        reply: dict[str, Any] = json.loads(self._lines.readline())
        assert reply["ok"], reply
        return reply

    def until(self, condition: Callable[[dict[str, Any]], Any]) -> float:
        """Asks for the status until it fulfils `condition`; when the first such answer had come."""
        give_up = clock() + LIMIT
        while not condition(self.control("status")):
            assert clock() < give_up, self.log()
            time.sleep(POLL)
        return clock()

    def until_active(self, name: str, transport: str = "tcp") -> float:
        """When new traffic is seen to go to a node."""
        return self.until(lambda status: status["active"][transport] == name)

    def until_healthy(self, *names: str) -> None:
        """Returns once probes have found these nodes healthy."""
        self.until(lambda status: all(node["state"] == "healthy" for node in status["nodes"] if node["name"] in names))

    def connect(self) -> socket.socket:
        """A client's TCP connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=LIMIT)

    def ask(self, text: bytes = b"hi") -> bytes:
        """The node that answers one TCP request on a connection of its own."""
        with self.connect() as conn:
            conn.sendall(text)
            return conn.recv(1000).partition(b":")[0]

    @contextlib.contextmanager
    def udp(self) -> Iterator[socket.socket]:
        """A client's UDP socket."""
        with socket.socket(type=socket.SOCK_DGRAM) as port:
            port.settimeout(LIMIT)
            port.connect(("127.0.0.1", self.port))
            yield port

    def resident(self) -> int:
        """Resident memory in bytes."""
        pages = int(Path(f"/proc/{self.child.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.close()
        self._control.close()
        self._end()

    def _end(self) -> None:
        self.child.kill()
        self.child.wait(LIMIT)
        self._log.close()
        self._directory.cleanup()


def listener_table(name: str, protocol: str, port: int, **settings: object) -> str:
    """A `[[listeners]]` table."""
    fields = {"name": name, "protocol": protocol, "listen": f"127.0.0.1:{port}", **settings}
    return "[[listeners]]\n" + _lines(fields)


def _lines(table: dict[str, Any]) -> str:
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in table.items() if value is not None)
