"""Packets to the primary vanish: what clients wait for, with and without hedging. New connections only: open ones live.

The accept queue of the node is kept full, so that the kernel drops every SYN, as a firewall does.
"""

import time

from ..lab import Lab
from ..nodes import clock
from ..scenario import ArmPlan, scenario
from ..steady import Requests, answered_by, lost, record_seen, since
from ..testimony import Watch, became_active, check_answers, record_claims
from .settling import bring_back, settled_pair

AFTER = 1.2  # seconds: longer than any detection here, and than two connects that time out


@scenario(
    "blackhole",
    "Black hole, with and without hedging",
    "How long does a client wait for a node that says nothing at all?",
    harness="beyond",
    trials=5,
    seconds=3.3,
    arms=(
        ArmPlan("default", "hedging as by default"),
        ArmPlan("hedge-100", "hedging after 100 ms", {"hedge_delay_ms": 100}),
        ArmPlan("hedge-off", "no hedging", {"hedge_delay_ms": 0}),
    ),
)
def blackhole(lab: Lab) -> None:
    """Once without traffic, once with a client that asks again as soon as it has its answer."""
    pair = settled_pair(lab)
    silent = pair.a.swallow()
    lab.record("detection_ms", "ms", 1000 * (pair.gateway.until_active("node-b") - silent))
    lab.check_active(pair.gateway, "node-b")
    pair.a.kill()
    bring_back(lab, pair)
    zero = clock()
    with Watch(pair.gateway, zero) as watch:
        struck = pair.a.swallow() - zero
        with Requests(pair.gateway.door.port, zero, every=0.01) as requests:
            time.sleep(AFTER)
    seen = requests.seen
    first = answered_by(since(seen, struck), "node-b")
    if first is not None:
        lab.record("first_request_ms", "ms", first.ms)
    switched = became_active(watch.claims, "node-b", "tcp", struck)
    if switched is not None:
        lab.record("detection_with_requests_ms", "ms", 1000 * (switched - struck))
        lab.record("requests_before_detection", "count", len(since(seen, struck, switched)))
    lab.record("requests_lost", "count", len(lost(seen)))
    lab.record("slowest_ms", "ms", max(asked.ms for asked in seen))
    record_seen(lab, "request", seen, struck)
    record_claims(lab, watch.claims, struck)
    check_answers(seen, watch.claims, "tcp", "node-b", moment=struck)
