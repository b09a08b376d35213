"""The system calls of the engine's thread in the real program: none at rest, no more than it takes for a datagram."""

import contextlib
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.program import NodeProcess, Process, Program

pytestmark = [pytest.mark.e2e, pytest.mark.realnet, pytest.mark.slow]

CROWD = Path(__file__).parents[1] / "soak" / "crowd.py"


def engine_of(pid: int) -> int:
    """Of the threads beside Trio's that wait in an epoll set, the one whose set has the most descriptors."""
    sets = {}
    for each in Path(f"/proc/{pid}/fdinfo").iterdir():
        with contextlib.suppress(OSError):
            sets[int(each.name)] = each.read_text().count("tfd:")
    waiting = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            _, *arguments = (task / "syscall").read_text().split()
        except PermissionError as error:
            pytest.skip(f"may not look at a child: {error}")
        if int(task.name) != pid and arguments:
            waiting[int(task.name)] = sets.get(int(arguments[0], 16), 0)
    return max(waiting, key=lambda thread: waiting[thread])


@contextlib.contextmanager
def calls_of(thread: int, log: Path) -> Iterator[list[str]]:
    """The system calls that a thread returns from while the block runs, known when it has ended.

    They go through a file: a tracer that waits for its reader stops the traced. Skips the test where tracing is not
    allowed.
    """
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("no strace here")
    tracer = subprocess.Popen(
        [strace, "-o", str(log), "-p", str(thread)], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    assert tracer.stderr is not None
    first = tracer.stderr.readline()
    if "attached" not in first:
        tracer.kill()
        tracer.communicate()
        pytest.skip(f"cannot trace: {first.strip()}")
    calls: list[str] = []
    try:
        yield calls
    finally:
        tracer.send_signal(signal.SIGINT)
        tracer.communicate(timeout=10)
        calls += [line for line in log.read_text().splitlines() if " = " in line]


def test_idle_connections_cost_the_engine_no_system_call(tmp_path: Path) -> None:
    """No timer, no polling: two seconds of nothing are nothing, fifty connections and a session or not."""
    with contextlib.ExitStack() as stack:
        node = stack.enter_context(Process(sys.executable, str(CROWD)))
        assert node.child.stdout is not None
        port = int(node.child.stdout.readline())
        echo = stack.enter_context(NodeProcess("a", ("udp",)))
        table = f'[[nodes]]\nname = "a"\ntcp = "127.0.0.1:{port}"\nudp = "127.0.0.1:{echo.port}"\nprobe = "none"\n'
        program = stack.enter_context(Program(tmp_path / "gateway.toml", table, tcp="idle_timeout_ms = 600000"))
        for _ in range(50):
            conn = stack.enter_context(program.connect())
            conn.sendall(b"x")
            assert b"x" == conn.recv(10)
        session = stack.enter_context(socket.socket(type=socket.SOCK_DGRAM))
        session.settimeout(10)
        session.connect(("127.0.0.1", program.port))
        for _ in range(3):
            ask(session)
        time.sleep(0.5)
        with calls_of(engine_of(program.child.pid), tmp_path / "calls") as calls:
            time.sleep(2.0)
        assert [] == calls


def ask(conn: socket.socket) -> None:
    """One question and its answer."""
    conn.send(b"x")
    assert conn.recv(100)


def test_a_datagram_and_its_answer_take_six_system_calls(tmp_path: Path) -> None:
    """Waiting, receiving and sending, each way: a seventh call would be a twentieth of the round trip."""
    with (
        NodeProcess("a", ("udp",)) as node,
        Program(tmp_path / "gateway.toml", f'[[nodes]]\nname = "a"\nudp = "127.0.0.1:{node.port}"\n') as program,
        socket.socket(type=socket.SOCK_DGRAM) as conn,
    ):
        conn.settimeout(10)
        conn.connect(("127.0.0.1", program.port))
        for _ in range(10):  # the engine carries a session after its first few datagrams
            ask(conn)
        time.sleep(0.5)
        with calls_of(engine_of(program.child.pid), tmp_path / "calls") as calls:
            for _ in range(100):
                ask(conn)
        names = Counter(call.partition("(")[0] for call in calls)
        assert 200 <= names["sendto"] + names["sendmsg"]
        assert 620 > names.total() - names["futex"]  # which is the interpreter's lock
