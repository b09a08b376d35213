"""Many clients and no probes: live traffic alone ejects the primary, and what that costs the clients."""

import time

from ..control import dig, node_of
from ..lab import Lab
from ..nodes import clock
from ..scenario import ArmPlan, scenario
from ..steady import Requests, lost, record_seen, since, under_way
from ..testimony import Watch, became_active, check_answers, record_claims
from .settling import settled_pair

THRESHOLDS = (1, 2, 3, 5)
CLIENTS, EVERY = 16, 0.02
BEFORE, AFTER = 0.4, 0.9  # seconds around the failure: the ejection outlasts them


@scenario(
    "load",
    "Passive ejection under load",
    "How soon do many clients alone eject a node, and how many of them lose a request?",
    harness="second",
    trials=3,
    seconds=2.4,
    overrides={"nodes.probe": "none"},
    arms=(
        *(
            ArmPlan(f"killed-{each}", f"node killed, threshold {each}", {"passive_eject_threshold": each})
            for each in THRESHOLDS
        ),
        ArmPlan("silent-3", "black hole, threshold 3", {"passive_eject_threshold": 3}, {"silent": True}),
    ),
)
def load(lab: Lab) -> None:
    """Sixteen clients ask all the time; node-a fails in their middle."""
    gateway, a, _ = settled_pair(lab)
    zero = clock()
    with Watch(gateway, zero) as watch, Requests(gateway.door.port, zero, every=EVERY, clients=CLIENTS) as requests:
        time.sleep(BEFORE)
        struck = clock() - zero
        if lab.parameters.get("silent"):
            a.swallow()
        else:
            a.kill()
        gone = clock() - zero
        time.sleep(AFTER)
        status = gateway.status()
    seen = requests.seen
    after = since(seen, struck)
    ejected = became_active(watch.claims, "node-b", "tcp", struck)
    lab.record("ejected", "yes", ejected is not None)
    if ejected is not None:
        lab.record("ejected_ms", "ms", 1000 * (ejected - struck))
        lab.record("requests_before_ejection", "count", len(since(seen, struck, ejected)))
    lab.record("requests_lost", "count", len(lost(seen)))
    lab.record("requests_lost_at_the_dying_node", "count", len(under_way(lost(seen), (struck, gone))))
    lab.record("slowest_ms", "ms", max((asked.ms for asked in after if asked.node), default=0.0))
    with lab.perhaps("failures"):
        lab.record("failures", "count", dig(node_of(status, "node-a"), "stats", "tcp_conns_failed"))
        lab.record("ejections", "count", dig(node_of(status, "node-a"), "stats", "passive_ejects"))
    record_seen(lab, "request", seen, struck)
    record_claims(lab, watch.claims, struck)
    check_answers(seen, watch.claims, "tcp", "node-b", moment=gone)
