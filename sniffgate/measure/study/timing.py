"""What the harness itself costs: the steps of its clock, a node without a gateway, and a look at the gateway."""

import itertools
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from .artifact import ClockFigures
from .clients import Door, exchange
from .gateway import POLL, Gateway
from .nodes import Node, clock
from .tuning import TUNING
from .watching import Watcher

READS = 1000  # of the clock, one after another
LAPS = 200
PAYLOAD = bytes(64)


def measure_harness(command: str) -> tuple[ClockFigures, str | None]:
    """What it costs, and the engine and version that the gateway under test names.

    Errors: `TrialFailed` when that gateway does not start or does not answer on its control port.
    """
    with Node("node-a") as node, tempfile.TemporaryDirectory(prefix="sniffgate-study-") as folder:
        door = Door(node.port)
        with door.connect() as conn:
            rtt = _laps(lambda: exchange(conn, PAYLOAD))
        connect = _laps(door.ask)
        with Gateway(command, TUNING, node.table(), Path(folder)) as gateway:
            status = gateway.status()
            engine = f"{status.get('engine', 'unnamed')} {status.get('version', '')}".strip()
            asked = _laps(gateway.status)
            figures = ClockFigures(_resolution(), _reads(), rtt, connect, asked, _looks(gateway))
    return figures, engine


def _looks(gateway: Gateway) -> list[float]:
    """Microseconds from each look of a watcher to its next one."""
    with Watcher(gateway) as watcher:
        while len(watcher.looked) <= LAPS:
            time.sleep(POLL)
    return [1e6 * (after - before) for before, after in itertools.pairwise(watcher.looked)]


def _laps(act: Callable[[], object]) -> list[float]:
    took = []
    for _ in range(LAPS):
        began = clock()
        act()
        took.append(1e6 * (clock() - began))
    return took


def _reads() -> list[float]:
    moments = [clock() for _ in range(READS)]
    return [1e6 * (after - before) for before, after in itertools.pairwise(moments)]


def _resolution() -> float:
    """Microseconds: the smallest step other than none."""
    return min(step for step in _reads() if step > 0)
