"""A gateway with a primary and a standby at rest: where most failures of the study begin."""

import random
import time
from typing import NamedTuple

from ..clients import NOBODY
from ..gateway import Gateway
from ..lab import Lab
from ..nodes import Node
from ..scenario import Absent

QUIET = 0.2  # seconds in which nothing is under way any more: more than the fast probes need


class Pair(NamedTuple):
    """A gateway, its primary node-a and its standby node-b."""

    gateway: Gateway
    a: Node
    b: Node


def settled_pair(lab: Lab) -> Pair:
    """Both nodes are healthy, or known to answer where nothing is probed; now is a moment between two probes."""
    a, b = lab.node("node-a", priority=10), lab.node("node-b", priority=5)
    gateway = lab.gateway([a, b])
    if a.fields.get("probe") != "none":
        gateway.until_healthy("node-a", "node-b")
    lab.check_active(gateway, "node-a")
    settle(lab)
    return Pair(gateway, a, b)


def settled_udp_pair(lab: Lab) -> Pair:
    """As `settled_pair`, and a datagram has been answered. Errors: `Absent` when none is."""
    pair = settled_pair(lab)
    if pair.gateway.door.ask_udp() == NOBODY:
        raise Absent("it does not forward UDP: a datagram had no answer before anything failed")
    return pair


def settle(lab: Lab) -> None:
    """Waits for a random moment between two regular probes, well after whatever was before."""
    time.sleep(QUIET + random.uniform(0.0, 1.1) * lab.setting("probe_interval_ms") / 1000)


def bring_back(lab: Lab, pair: Pair) -> float:
    """Starts node-a again and waits until it has its place back and all is at rest; milliseconds until it had it."""
    returned = pair.a.start()
    took = 1000 * (pair.gateway.until_active("node-a") - returned)
    settle(lab)
    return took
