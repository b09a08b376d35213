"""Detection on real processes over a grid of settings, held against the formula.

    python -m tests.scenarios.grid [--json FILE]

Each cell of the grid is one gateway with eight nodes, each alone in a pool: two transports, refusing and silent, with a
client at the moment of the failure and without. When a node was found out is what the gateway itself says, to the
millisecond.
"""

import argparse
import json
import os
import random
import socket
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import attrs

from sniffgate.config.load import load_text
from sniffgate.config.schema import Transport
from sniffgate.state.detection import Answer, detection_bounds
from tests.scenarios.processes import Gateway, Node, free_port, listener_table

INTERVALS = (50, 100, 200, 500, 1000)  # milliseconds
THRESHOLDS = range(1, 6)
EARLY, LATE = 5.0, 15.0  # milliseconds beyond the bounds that a machine at rest may need
WORDS = {"probe_payload": "ping", "probe_expect": "ping"}


@attrs.frozen
class Victim:
    """A node that is to fail in one way over one transport, with a client just then or without."""

    transport: Transport
    answered: Answer
    with_traffic: bool

    @property
    def name(self) -> str:
        """Of the node, its pool and its listener."""
        client = "client" if self.with_traffic else "quiet"
        return f"{self.transport.value}-{self.answered.value}-{client}"

    def table(self, backend: Node) -> str:
        """Its node."""
        fields: dict[str, Any] = {"pool": self.name, self.transport.sibling.value: None}
        if self.answered is Answer.SILENT or self.transport is Transport.UDP:
            fields |= WORDS
        return backend.table(priority=0, **fields)

    def strike(self, backend: Node) -> None:
        """Lets it fail."""
        if self.answered is Answer.REFUSED:
            backend.kill()
        else:
            backend.freeze()

    def visit(self, port: int) -> socket.socket:
        """One client's request, whatever becomes of it."""
        kind = socket.SOCK_DGRAM if self.transport is Transport.UDP else socket.SOCK_STREAM
        client = socket.socket(type=kind)
        client.setblocking(False)
        client.connect_ex(("127.0.0.1", port))
        if self.transport is Transport.UDP:
            client.send(b"hi")
        return client


@attrs.frozen
class Cell:
    """What was measured, in milliseconds."""

    interval: int
    threshold: int
    name: str
    least: float
    found: float  # since the client came, or else since the node was dead
    most: float
    dying: float  # how long before that it was asked to die: somewhere in between it did

    @property
    def is_within(self) -> bool:
        """Whether the formula holds, but for what a machine at rest costs."""
        return self.is_not_early and self.found <= self.most + LATE

    @property
    def is_not_early(self) -> bool:
        """Whether it took as long as the formula says it must."""
        return self.least - EARLY <= self.found + self.dying


VICTIMS = [
    Victim(transport, answered, with_traffic)
    for transport in Transport
    for answered in Answer
    for with_traffic in (False, True)
]


def measure(interval: int, threshold: int) -> list[Cell]:
    """The eight figures of one cell of the grid."""
    with ExitStack() as stack:
        backends = {victim: stack.enter_context(Node(victim.name)) for victim in VICTIMS}
        ports = {victim: free_port() for victim in VICTIMS}
        listeners = "".join(
            listener_table(victim.name, victim.transport.value, ports[victim], pool=victim.name) for victim in VICTIMS
        )
        pools = "".join(f'[[pools]]\nname = "{victim.name}"\n' for victim in VICTIMS)
        nodes = pools + "".join(victim.table(backends[victim]) for victim in VICTIMS)
        gateway = stack.enter_context(
            Gateway(nodes, listeners, probe_interval_ms=interval, failure_threshold=threshold)
        )
        gateway.until_healthy(*(victim.name for victim in VICTIMS))
        time.sleep(random.uniform(0.2, 0.2 + 1.1 * interval / 1000))
        latency = {node["name"]: node["probe_latency_us"] / 1e6 for node in gateway.status()["nodes"]}
        asked, struck = {}, {}
        for victim in VICTIMS:
            asked[victim] = 1000 * time.time()
            victim.strike(backends[victim])
            struck[victim] = 1000 * time.time()
            if victim.with_traffic:
                stack.enter_context(victim.visit(ports[victim]))
        gateway.until(lambda status: all(node["state"] == "unhealthy" for node in status["nodes"]), "every verdict")
        changed = {node["name"]: node["last_change_ms"] for node in gateway.status()["nodes"]}
        config = load_text(gateway.path.read_bytes(), file=str(gateway.path))
    cells = []
    for victim in VICTIMS:
        node = config.node(victim.name)
        assert node is not None
        least, most = detection_bounds(
            config.globals,
            node,
            victim.transport,
            answered=victim.answered,
            with_traffic=victim.with_traffic,
            latency=latency[victim.name],
        )
        found, dying = changed[victim.name] - struck[victim], struck[victim] - asked[victim]
        cells.append(Cell(interval, threshold, victim.name, 1000 * least, found, 1000 * most, dying))
    return cells


def main() -> int:
    """Measures the whole grid; 1 if a figure is outside."""
    options = argparse.ArgumentParser(prog="python -m tests.scenarios.grid")
    options.add_argument("--json", type=Path, metavar="FILE")
    chosen = options.parse_args()
    print(f"load {os.getloadavg()[0]:.2f}; milliseconds; least and most by the formula\n")
    print(f"| interval | threshold | {'node':<20} |  least |  found |   most |         |")
    print(f"|---------:|----------:|{'-' * 22}|-------:|-------:|-------:|---------|")
    cells = []
    for interval in INTERVALS:
        for threshold in THRESHOLDS:
            for cell in measure(interval, threshold):
                cells.append(cell)
                figures = f"{cell.least:>6.0f} | {cell.found:>6.0f} | {cell.most:>6.0f}"
                verdict = "" if cell.is_within else "OUTSIDE"
                print(f"| {interval:>8} | {threshold:>9} | {cell.name:<20} | {figures} | {verdict:<7} |", flush=True)
    outside = sum(not cell.is_within for cell in cells)
    print(f"\n{outside} of {len(cells)} outside; load at the end {os.getloadavg()[0]:.2f}")
    if chosen.json is not None:
        chosen.json.write_text(json.dumps([attrs.asdict(cell) for cell in cells], indent=1))
    return int(outside > 0)


if __name__ == "__main__":
    sys.exit(main())
