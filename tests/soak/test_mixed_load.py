"""Everything at once for a while, through the real program, with a switch every second: nothing wrong, nothing left.

`SOAK_S` is how long, in seconds; the last quarter must need no more memory than the second did.
"""

import contextlib
import hashlib
import os
import random
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.node import pattern
from tests.e2e.program import LIMIT, NodeProcess, Program, node_table, until

pytestmark = [pytest.mark.e2e, pytest.mark.soak]

SECONDS = float(os.environ.get("SOAK_S", "60"))
GROWTH_KB = 8 * 1024  # of resident memory between the second quarter and the end: what fragmentation may cost
SETTINGS = "probe_interval_ms = 500\nudp_session_timeout_ms = 2000\nfailback_drain_timeout_ms = 60000\n"


class Clients:
    """Threads that each do one thing again and again, until they are stopped; what went wrong is kept."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.wrong: list[str] = []
        self.done: Counter[str] = Counter()
        self.uploads: set[str] = set()  # what the nodes should have read
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self, work: Callable[[random.Random], None], count: int, pause: float) -> None:
        """Starts `count` of a kind."""
        for number in range(count):
            thread = threading.Thread(target=self._repeat, args=(work, random.Random(number), pause), daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """Lets each finish what it is at."""
        self._stop.set()
        for thread in self._threads:
            thread.join(2 * LIMIT)
            assert not thread.is_alive()

    def _repeat(self, work: Callable[[random.Random], None], dice: random.Random, pause: float) -> None:
        while not self._stop.is_set():
            try:
                work(dice)
                self.done[work.__name__] += 1
            except Exception as error:
                self.wrong.append(f"{work.__name__}: {error!r}")
            self._stop.wait(pause)

    # --- the kinds ------------------------------------------------------------------------------------

    def transfer(self, dice: random.Random) -> None:
        """A bulk transfer each way, whole or wrong."""
        up, down = pattern(dice.randrange(3_000_000), seed=3), dice.choice((0, 1, 70_000, 2_000_000))
        self.uploads.add(f"read {len(up)} {hashlib.sha256(up).hexdigest()}")
        with self.program.connect() as conn:
            conn.sendall(b"HASH %d\n" % down)
            conn.sendall(up)
            conn.shutdown(socket.SHUT_WR)
            answer = bytearray()
            while chunk := conn.recv(262144):
                answer += chunk
        assert pattern(down) == answer, f"{len(answer)} bytes of {down}"

    def break_off(self, dice: random.Random) -> None:
        """A bulk transfer that its client resets in the middle, with pipes full."""
        with self.program.connect() as conn:
            conn.sendall(b"PUSH 20000000\n")
            conn.recv(dice.randrange(1, 200_000))
            conn.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")

    def chat(self, dice: random.Random) -> None:
        """Small requests on one connection."""
        with self.program.connect() as conn:
            for _ in range(dice.randrange(1, 20)):
                text = dice.randbytes(dice.randrange(1, 100))
                conn.sendall(text)
                answer = b""
                while len(answer) < len(text) + 7:
                    chunk = conn.recv(1000)
                    assert chunk, "ended"
                    answer += chunk
                assert text == answer[7:]

    def question(self, dice: random.Random) -> None:
        """A UDP session of some datagrams; each answer fits a question and comes once."""
        with self.program.udp() as port:
            port.settimeout(LIMIT)  # a busy machine takes a second now and then; what is lost does not come later
            asked, answered = dice.randrange(1, 60), []
            with contextlib.suppress(TimeoutError):
                for number in range(asked):
                    port.send(b"%d" % number)
                    answered.append(int(port.recv(1000).split(b":")[1]))
            assert list(range(asked)) == answered


@pytest.fixture
def nodes() -> Iterator[list[NodeProcess]]:
    """Two backends."""
    with NodeProcess("node-a") as a, NodeProcess("node-b") as b:
        yield [a, b]


def take_reports(node: NodeProcess, reports: set[str]) -> None:
    """Takes what a node prints, so that it never waits for that. Its threads may write into each other's lines."""
    assert node._process is not None
    assert node._process.child.stdout is not None
    with contextlib.suppress(ValueError):  # closed
        for line in node._process.child.stdout:
            reports.update(re.findall(r"read \d+ [0-9a-f]{64}", line))


def leftovers(program: Program) -> tuple[int, int]:
    """The program's sockets and pipes."""
    kinds: Counter[str] = Counter()
    folder = Path(f"/proc/{program.child.pid}/fd")
    for each in folder.iterdir():
        with contextlib.suppress(OSError):
            kinds[os.readlink(each).split(":")[0]] += 1
    return kinds["socket"], kinds["pipe"]


def threads(program: Program) -> int:
    """How many threads the program has."""
    return len(os.listdir(f"/proc/{program.child.pid}/task"))


def test_mixed_load_with_a_switch_every_second(tmp_path: Path, nodes: list[NodeProcess]) -> None:
    """Hashes are right, no client sees a switch, and memory, descriptors, pipes and threads come back."""
    tables = node_table(nodes[0], 20) + node_table(nodes[1], 10)
    with Program(tmp_path / "gateway.toml", tables, fast=SETTINGS) as program:
        program.wait_healthy("node-a", "node-b")
        sockets, _ = leftovers(program)
        read: set[str] = set()
        for node in nodes:
            threading.Thread(target=take_reports, args=(node, read), daemon=True).start()
        clients = Clients(program)
        clients.start(clients.transfer, 3, 0.1)
        clients.start(clients.break_off, 2, 0.1)
        clients.start(clients.chat, 6, 0.02)
        clients.start(clients.question, 6, 0.02)
        began, resident = time.monotonic(), []
        while (passed := time.monotonic() - began) < SECONDS:
            program.control(f"switch {('node-b', 'node-a')[int(passed) % 2]}")
            resident.append(program.resident_kb())
            time.sleep(1.0)
        clients.stop()
        until(lambda: leftovers(program)[0] <= sockets, "the end of every flow and session", 3 * LIMIT)
        _, pipes = leftovers(program)
        print(dict(clients.done), f"resident {resident[0]}, {max(resident)}, {resident[-1]} KiB", f"{pipes} pipe ends")

        assert [] == clients.wrong
        assert min(clients.done.values()) > 0.1 * SECONDS
        until(lambda: clients.uploads <= read, "what the nodes have read")
        assert pipes <= 2 * 32 + 6
        assert threads(program) <= 16
        assert program.control("status")["ok"]
        quarter = len(resident) // 4
        second, last = max(resident[quarter : 2 * quarter] or resident), max(resident[3 * quarter :])
        print(f"second quarter {second}, last {last} KiB")
        assert last - second <= GROWTH_KB
        assert "crashed" not in program.said()
