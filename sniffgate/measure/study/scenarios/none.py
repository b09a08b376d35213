"""`probe = "none"`: a node that nobody probes dies and returns. What ejects it, and what brings it back."""

import time

from ..control import dig, node_of
from ..gateway import Gateway
from ..lab import Lab
from ..nodes import Node, clock
from ..scenario import ArmPlan, TrialFailed, scenario
from ..steady import Requests, lost, record_seen, since
from ..testimony import Watch, record_claims, switches
from .settling import settled_pair

THRESHOLDS = (1, 2, 3)
EVERY = 0.05  # seconds between two requests of the one client
QUIET_INTERVALS = 5
BEFORE = 0.2  # seconds of traffic, and of looks at the status, before the failure
DEAD = 1.5  # seconds: longer than a first ejection here, shorter than the second one
BACK_WITHIN = 5.0  # seconds


@scenario(
    "none",
    "No probes",
    "Without probes, is a dead node ejected, is it resurrected while it is dead, and does it come back?",
    harness="second",
    trials=3,
    seconds=5.0,
    overrides={"nodes.probe": "none"},
    arms=tuple(
        ArmPlan(f"threshold-{each}", f"passive threshold {each}", {"passive_eject_threshold": each})
        for each in THRESHOLDS
    ),
)
def none(lab: Lab) -> None:
    """One client asks all the time; node-a is killed and later started again."""
    gateway, a, _ = settled_pair(lab)
    _count_probes(lab, gateway, a)
    zero = clock()
    with Watch(gateway, zero) as watch, Requests(gateway.door.port, zero, every=EVERY) as requests:
        time.sleep(BEFORE)
        struck = a.kill() - zero
        gone = clock() - zero  # what was at the node until then died with it
        time.sleep(DEAD)
        status = gateway.status()
        returned = a.start() - zero
        back = _wait_for_an_answer(requests, returned)
    seen = requests.seen
    dead = since(seen, gone, returned)
    record_seen(lab, "request", seen, struck)
    record_claims(lab, watch.claims, struck)
    lab.record("dead_ms", "ms", 1000 * (returned - struck))
    lab.record("requests_while_dead", "count", len(dead))
    lab.record("requests_lost", "count", len(lost(dead)))
    with lab.perhaps("ejections"):
        lab.record("ejections", "count", dig(node_of(status, "node-a"), "stats", "passive_ejects"))
    turns = [claim for claim in switches(watch.claims, "tcp") if claim.at < returned]
    lab.record("resurrections", "count", sum(claim.tcp == "node-a" for claim in turns))
    for claim in turns:
        lab.record("switched_at_ms", "ms", 1000 * (claim.at - struck))
    lab.record("back_ms", "ms", 1000 * (back - returned))


def _count_probes(lab: Lab, gateway: Gateway, a: Node) -> None:
    """How many good probes are claimed in a quiet time, and how many there were: not probing is no success."""
    with lab.perhaps("probes_claimed"):
        before, claimed_before = a.seen(), dig(gateway.node("node-a"), "stats", "probe_ok")
        time.sleep(QUIET_INTERVALS * lab.setting("probe_interval_ms") / 1000)
        claimed, after = dig(gateway.node("node-a"), "stats", "probe_ok"), a.seen()
        lab.record("probes_claimed", "count", claimed - claimed_before)
        lab.record("probes_seen", "count", after.accepted - before.accepted + after.datagrams - before.datagrams)


def _wait_for_an_answer(requests: Requests, returned: float) -> float:
    """When node-a answered first after its return, in seconds on the requests' axis. Errors: `TrialFailed`."""
    give_up = clock() + BACK_WITHIN
    while clock() < give_up:
        answers = [asked for asked in requests.seen if asked.node == "node-a" and asked.over >= returned]
        if answers:
            return answers[0].over
        time.sleep(0.01)
    raise TrialFailed(f"node-a answered nobody within {BACK_WITHIN:g} s of its return")
