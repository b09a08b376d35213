"""A network of its own for a scenario: a child process in a new network namespace, where settings may change."""

import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIMIT = 10  # seconds, in the child
NOT_HERE = 77  # the child's exit status when this kernel does not let a setting be made

_CHILD = """
import trio
from {module} import {name} as scenario
async def main():
    with trio.fail_after({limit}):
        await scenario()
trio.run(main)
"""


def run_isolated(scenario: Callable[[], Awaitable[None]], *settings: str) -> None:
    """Runs a module's coroutine function behind `settings` (shell lines), loopback up; skips where that fails."""
    unshare = shutil.which("unshare")
    if unshare is None or shutil.which("ip") is None:
        pytest.skip("needs unshare and ip")
    if subprocess.run([unshare, "-rn", "true"], capture_output=True, check=False).returncode:
        pytest.skip("network namespaces are not allowed here")
    child = _CHILD.format(module=scenario.__module__, name=scenario.__name__, limit=LIMIT)
    shell = "\n".join(
        ["ip link set lo up", *(f"{setting} || exit {NOT_HERE}" for setting in settings), 'exec "$0" -c "$1"']
    )
    done = subprocess.run(
        [unshare, "-rn", "sh", "-ec", shell, sys.executable, child],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=2 * LIMIT,
        check=False,
    )
    if done.returncode == NOT_HERE:
        pytest.skip(done.stderr)
    assert 0 == done.returncode, done.stderr
