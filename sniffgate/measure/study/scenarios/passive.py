"""A node without probes that dies: only forwarding failures can tell, and nothing should tell that it is back."""

import time

from ..control import dig
from ..gateway import Gateway
from ..lab import Lab
from ..nodes import clock, since
from ..scenario import ArmPlan, scenario
from ..watching import Watcher
from .settling import settled_pair

ATTEMPTS = 6  # as in the paper
PAUSE = 0.02  # seconds between two later clients
WATCHED = 3.0  # seconds from the kill


@scenario(
    "passive",
    "A node without probes that dies under requests",
    "How many clients pay for it before it is ejected, and does it come back while it is dead?",
    harness="first",
    trials=3,
    seconds=4.2,
    overrides={"nodes.probe": "none"},
    arms=(
        ArmPlan("threshold-2", "ejected after two failures", {"passive_eject_threshold": 2}),
        ArmPlan("threshold-1", "ejected after one failure", {"passive_eject_threshold": 1}),
    ),
)
def passive(lab: Lab) -> None:
    """Kills node-a; six clients come at once, one after another, and more of them until three seconds have passed."""
    gateway, a, b = settled_pair(lab)
    before, seen_before = gateway.node("node-a"), b.seen()
    with Watcher(gateway) as watcher:
        died = a.kill()
        _come(lab, gateway, died)
        while clock() < died + WATCHED:
            time.sleep(PAUSE)
            node, took = gateway.door.timed_ask()
            lab.record("later_ms", "ms", took)
            lab.record("later_node", "word", node)
        lab.record("watched_ms", "ms", since(died, clock()))
        _record_timeline(lab, watcher, died)
    seen = b.seen()
    own = [node for key in ("attempt_node", "later_node") for node in lab.observations[key].values if node == "node-b"]
    lab.record("unasked_connections", "count", seen.accepted - seen_before.accepted - len(own))
    after = gateway.node("node-a")
    for key, name in (("probe_ok", "probes_claimed"), ("passive_ejects", "ejections_claimed")):
        with lab.perhaps(name):
            lab.record(name, "count", dig(after, "stats", key) - dig(before, "stats", key))
    claimed = str(dig(gateway.status(), "active", "tcp"))
    lab.record("active_claimed", "word", claimed)
    if claimed == "node-b":  # a dead node that is named as active answers nobody, whether it is tried or not
        lab.check_active(gateway, claimed)


def _come(lab: Lab, gateway: Gateway, died: float) -> None:
    for _ in range(ATTEMPTS):
        lab.record("attempt_at_ms", "ms", since(died, clock()))
        node, took = gateway.door.timed_ask()
        lab.record("attempt_ms", "ms", took)
        lab.record("attempt_node", "word", node)


def _record_timeline(lab: Lab, watcher: Watcher, died: float) -> None:
    """Ejections since the kill; each return to the dead node since the ejection before it."""
    ejected = None
    returns = 0
    for change in watcher.of("tcp"):
        if change.before == "node-a":
            ejected = change.at
            lab.record("ejected_at_ms", "ms", since(died, change.at))
        elif change.after == "node-a" and ejected is not None:
            returns += 1
            lab.record("resurrected_after_ms", "ms", since(ejected, change.at))
            lab.record("resurrected_at_ms", "ms", since(died, change.at))
    lab.record("ejections", "count", sum(change.before == "node-a" for change in watcher.of("tcp")))
    lab.record("resurrections", "count", returns)
