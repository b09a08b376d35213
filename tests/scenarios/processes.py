"""The study's nodes and gateway, under the tuning of the failover table. Times are `time.perf_counter`'s."""

import tempfile
from pathlib import Path

from sniffgate.measure.study.artifact import Setting
from sniffgate.measure.study.clients import Door
from sniffgate.measure.study.control import LIMIT
from sniffgate.measure.study.gateway import DEFAULT_COMMAND
from sniffgate.measure.study.gateway import Gateway as StudyGateway
from sniffgate.measure.study.nodes import HOST, Node, clock, free_port
from sniffgate.measure.study.tuning import TUNING, table

__all__ = ["LIMIT", "Door", "Gateway", "Node", "clock", "free_port", "listener_table"]

SETTINGS: dict[str, Setting] = {
    **TUNING,
    "probe_fast_interval_ms": 20,
    "hedge_delay_ms": 200,
    "shutdown_grace_ms": 100,
}


class Gateway(StudyGateway):
    """`python -m sniffgate run` on a file of its own, with one control connection that stays open."""

    def __init__(self, nodes: str, listeners: str = "", **settings: Setting) -> None:
        self._directory = tempfile.TemporaryDirectory()
        try:
            folder = Path(self._directory.name)
            super().__init__(DEFAULT_COMMAND, {**SETTINGS, **settings}, nodes, folder, listeners)
        except BaseException:
            self._directory.cleanup()
            raise

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self._directory.cleanup()


def listener_table(name: str, protocol: str, port: int, **settings: Setting) -> str:
    """A `[[listeners]]` table."""
    return table("[[listeners]]", {"name": name, "protocol": protocol, "listen": f"{HOST}:{port}", **settings})
