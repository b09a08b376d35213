"""Detection over a grid of probe intervals and failure thresholds, for both kinds of probe.

Each trial is one gateway and three failures of its primary, each at a random moment between two probes: a kill that
nobody meets but probes, a kill with a request just after it, and silence.
"""

import time

from ....address import Address
from ....config.schema import GlobalConfig, NodeConfig, ProbeKind, Transport
from ....state.detection import Answer, Bounds, detection_bounds
from ..clients import NOBODY
from ..lab import Lab
from ..scenario import ArmPlan, scenario
from ..testimony import claimed_switch
from ..tuning import TUNING
from .settling import Pair, bring_back, settled_pair

INTERVALS = (50, 100, 200, 400)  # milliseconds
THRESHOLDS = (1, 3, 5)
MARGIN = 15.0  # milliseconds beyond the bounds that a machine at rest may cost


def schedule(transport: str, interval: float, threshold: int, answered: Answer) -> Bounds:
    """What this gateway's rules say that detection takes in a cell without traffic, in seconds."""
    place = Address("127.0.0.1", 1)
    node = NodeConfig(name="node-a", tcp=place, udp=place, probe=ProbeKind(transport))
    rules = GlobalConfig(
        probe_interval=interval / 1000,
        failure_threshold=threshold,
        probe_timeout=_tuned("probe_timeout_ms") / 1000,
        connect_timeout=_tuned("connect_timeout_ms") / 1000,
    )
    return detection_bounds(rules, node, Transport(transport), answered=answered, with_traffic=False)


def _tuned(key: str) -> float:
    value = TUNING[key]
    assert isinstance(value, int | float)
    return value


@scenario(
    "grid",
    "Detection over probe interval and failure threshold",
    "Is detection a schedule or a constant, and what does a client see of it?",
    harness="second",
    trials=3,
    seconds=3.2,
    arms=tuple(
        ArmPlan(
            f"{probe}-{interval}-{threshold}",
            f"{probe.upper()} probes every {interval} ms, threshold {threshold}",
            {"nodes.probe": probe, "probe_interval_ms": interval, "failure_threshold": threshold},
            {"probe": probe, "interval_ms": interval, "threshold": threshold},
        )
        for probe in ("tcp", "udp")
        for interval in INTERVALS
        for threshold in THRESHOLDS
    ),
)
def grid(lab: Lab) -> None:
    """One cell."""
    pair = settled_pair(lab)
    wall, died = time.time(), pair.a.kill()
    took = 1000 * (pair.gateway.until_active("node-b") - died)
    lab.record("detection_ms", "ms", took)
    _compare(lab, "detection_ms", Answer.REFUSED, took)
    with lab.perhaps("detection_claimed_ms"):
        lab.record("detection_claimed_ms", "ms", claimed_switch(pair.gateway, "node-b", "tcp", wall, took))
    lab.check_active(pair.gateway, "node-b")
    lab.record("recovery_ms", "ms", bring_back(lab, pair))
    _kill_with_a_request(lab, pair)
    bring_back(lab, pair)
    silent = pair.a.swallow() if lab.parameters["probe"] == "tcp" else pair.a.freeze()
    took = 1000 * (pair.gateway.until_active("node-b") - silent)
    lab.record("silent_detection_ms", "ms", took)
    _compare(lab, "silent_detection_ms", Answer.SILENT, took)
    lab.check_active(pair.gateway, "node-b")


def _kill_with_a_request(lab: Lab, pair: Pair) -> None:
    died = pair.a.kill()
    node, took = pair.gateway.door.timed_ask()
    lab.record("first_request_node", "word", node)
    if node != NOBODY:
        lab.record("first_request_ms", "ms", took)
    lab.record("detection_with_request_ms", "ms", 1000 * (pair.gateway.until_active("node-b") - died))


def _compare(lab: Lab, key: str, answered: Answer, took: float) -> None:
    """Records what the schedule says beside what was found, and says where they part."""
    probe, interval, threshold = (lab.parameters[each] for each in ("probe", "interval_ms", "threshold"))
    assert isinstance(interval, int)
    assert isinstance(threshold, int)
    least, most = (1000 * each for each in schedule(str(probe), interval, threshold, answered))
    lab.record(f"{key.removesuffix('_ms')}_schedule_ms", "ms", round(least, 3), round(most, 3))
    if not least - MARGIN <= took <= most + MARGIN:
        lab.note(f"{key} {took:.1f} is outside the schedule of {least:.0f} to {most:.0f} ms")
