"""The real program at rest: idle connections make no system call in the engine's thread."""

import contextlib
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.e2e.program import Process, Program

pytestmark = [pytest.mark.e2e, pytest.mark.realnet, pytest.mark.slow]

CROWD = Path(__file__).parents[1] / "soak" / "crowd.py"


def engine_of(pid: int) -> int:
    """The thread that waits in the epoll set with the most descriptors."""
    sets = {}
    for each in Path(f"/proc/{pid}/fdinfo").iterdir():
        with contextlib.suppress(OSError):
            sets[int(each.name)] = each.read_text().count("tfd:")
    epoll = max(sets, key=lambda fd: sets[fd])
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            _, *arguments = (task / "syscall").read_text().split()
        except PermissionError as error:
            pytest.skip(f"may not look at a child: {error}")
        if int(task.name) != pid and arguments and int(arguments[0], 16) == epoll:
            return int(task.name)
    raise AssertionError("no thread waits there")


def calls_of(thread: int, seconds: float) -> list[str]:
    """The system calls that a thread returns from; skips the test where tracing is not allowed."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("no strace here")
    tracer = subprocess.Popen(
        [strace, "-p", str(thread)], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, bufsize=1
    )
    assert tracer.stderr is not None
    first = tracer.stderr.readline()
    if "attached" not in first:
        tracer.kill()
        tracer.communicate()
        pytest.skip(f"cannot trace: {first.strip()}")
    time.sleep(seconds)
    tracer.send_signal(signal.SIGINT)
    _, said = tracer.communicate(timeout=10)
    return [line for line in said.splitlines() if " = " in line]


def test_idle_connections_cost_the_engine_no_system_call(tmp_path: Path) -> None:
    """No timer, no polling: two seconds of nothing are nothing."""
    with contextlib.ExitStack() as stack:
        node = stack.enter_context(Process(sys.executable, str(CROWD)))
        assert node.child.stdout is not None
        port = int(node.child.stdout.readline())
        table = f'[[nodes]]\nname = "a"\ntcp = "127.0.0.1:{port}"\nprobe = "none"\n'
        program = stack.enter_context(Program(tmp_path / "gateway.toml", table, tcp="idle_timeout_ms = 600000"))
        for _ in range(50):
            conn = stack.enter_context(program.connect())
            conn.sendall(b"x")
            assert b"x" == conn.recv(10)
        time.sleep(0.5)
        assert [] == calls_of(engine_of(program.child.pid), 2.0)
