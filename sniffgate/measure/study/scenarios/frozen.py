"""The primary is stopped (SIGSTOP): its kernel goes on accepting connections, nobody answers them."""

import time

from ..lab import Lab
from ..nodes import clock
from ..scenario import ArmPlan, scenario
from ..steady import Requests, lost, record_seen, since, under_way
from ..testimony import Watch, became_active, check_answers, lost_health, record_claims
from .settling import settled_pair

BEFORE, FROZEN, AFTER = 0.4, 1.6, 0.6  # seconds
CLIENTS, EVERY = 4, 0.05
PATIENCE = 0.5  # seconds that a client waits for its answer


@scenario(
    "frozen",
    "A frozen node",
    "Is a node that accepts and never answers found out, and what does it cost until then?",
    harness="beyond",
    trials=3,
    seconds=4.2,
    arms=(
        ArmPlan("connect", "probes that only connect"),
        ArmPlan("words", "probes that expect an answer", {"nodes.probe_payload": "ping", "nodes.probe_expect": "ping"}),
    ),
)
def frozen(lab: Lab) -> None:
    """Four clients ask all the time; node-a is frozen for a while."""
    gateway, a, _ = settled_pair(lab)
    zero = clock()
    with (
        Watch(gateway, zero) as watch,
        Requests(gateway.door.port, zero, every=EVERY, clients=CLIENTS, limit=PATIENCE) as requests,
    ):
        time.sleep(BEFORE)
        struck = a.freeze() - zero
        time.sleep(FROZEN)
        thawed = a.thaw() - zero
        time.sleep(AFTER)
    seen = requests.seen
    dead = since(seen, struck, thawed) + under_way(since(seen, 0.0, struck), (struck, struck))
    noticed = lost_health(watch.claims, "node-a", struck)
    lab.record("noticed", "yes", noticed is not None)
    if noticed is not None:
        lab.record("noticed_ms", "ms", 1000 * (noticed - struck))
    lab.record("requests", "count", len(dead))
    lab.record("requests_lost", "count", len(lost(dead)))
    back = became_active(watch.claims, "node-a", "tcp", thawed)
    if noticed is not None and back is not None:
        lab.record("back_ms", "ms", 1000 * (back - thawed))
    record_seen(lab, "request", seen, struck)
    record_claims(lab, watch.claims, struck)
    until_thawed = [claim for claim in watch.claims if claim.at < thawed]
    check_answers(since(seen, 0.0, thawed), until_thawed, "tcp", "node-b", moment=struck)
