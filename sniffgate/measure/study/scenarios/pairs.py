"""What most scenarios begin with: a primary and its standby behind a fresh gateway, known to be fine."""

import random
import time

from ..gateway import Gateway
from ..lab import Lab
from ..nodes import Node

SETTLE = 0.2  # seconds after the last verdict before anything is done to a node
PHASE = 0.11  # seconds: up to so much more, for a failure must not always come at the same moment between two probes


def open_pair(lab: Lab, *, is_probed: bool = True) -> tuple[Gateway, Node, Node]:
    """A gateway with its primary node-a and its standby node-b; node-a is seen to have the traffic.

    Errors: `TrialFailed`, `Lied`.
    """
    a, b = lab.node("node-a", priority=10), lab.node("node-b", priority=5)
    gateway = lab.gateway([a, b])
    if is_probed:
        gateway.until_healthy("node-a", "node-b")
    time.sleep(SETTLE + random.uniform(0.0, PHASE))
    lab.check_active(gateway, "node-a")
    return gateway, a, b


def since(began: float, at: float) -> float:
    """Milliseconds from one moment of the clock to another."""
    return 1000 * (at - began)
