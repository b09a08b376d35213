"""Clients that ask without a pause, and what they met."""

import contextlib
import socket
import threading
import time
from types import TracebackType
from typing import Self

from tests.e2e.program import LIMIT, Program


class Load:
    """TCP requests at a steady rate, each on a connection of its own, while the block lasts.

    `failures` are the requests that were not answered by a node as they should.
    """

    def __init__(self, program: Program, per_second: float = 100, clients: int = 4, size: int = 2) -> None:
        self.failures: list[str] = []
        self.answered = 0
        self._program = program
        self._pause = clients / per_second
        self._payload = b"x" * size
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._ask_forever, daemon=True) for _ in range(clients)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends the clients."""
        self._stop.set()
        for thread in self._threads:
            thread.join(LIMIT)

    def _ask_forever(self) -> None:
        due = time.monotonic()
        while not self._stop.is_set():
            try:
                answer = self._program.ask(self._payload)
            except OSError as error:
                self.failures.append(f"{type(error).__name__}: {error}")
            else:
                if answer.partition(b":")[2] == self._payload:
                    self.answered += 1
                else:
                    self.failures.append(repr(answer))
            due = max(due + self._pause, time.monotonic())
            self._stop.wait(due - time.monotonic())


def ended_after(conn: socket.socket, since: float) -> float:
    """Waits for the end of a connection, orderly or not; seconds from `since` to it."""
    conn.settimeout(LIMIT)
    with contextlib.suppress(ConnectionResetError):
        assert b"" == conn.recv(100)
    return time.monotonic() - since


def held(program: Program, node: str = "node-a") -> socket.socket:
    """A connection that has reached a node."""
    conn = program.connect()
    echo(conn, node)
    return conn


def echo(conn: socket.socket, node: str = "node-a") -> None:
    """Checks that a connection works, and leads to that node."""
    conn.sendall(b"hello")
    assert f"{node}:hello".encode() == conn.recv(100)


def refused(port: int) -> bool:
    """Whether nobody takes connections there."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=LIMIT):
            return False
    except ConnectionRefusedError:
        return True
