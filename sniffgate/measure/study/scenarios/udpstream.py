"""A steady stream of datagrams while its node dies in one way or another: what is lost, what comes twice."""

import random
import time

from ..lab import Lab
from ..nodes import clock
from ..scenario import ArmPlan, scenario
from ..steady import Datagrams, answered_by, lost, record_seen, since
from ..testimony import Watch, became_active, check_answers, record_claims
from .settling import settled_udp_pair

BEFORE, AFTER = 0.3, 0.8  # seconds around the failure


@scenario(
    "udpstream",
    "A UDP stream while its node dies",
    "How many datagrams of a steady stream are lost?",
    harness="beyond",
    trials=3,
    seconds=2.5,
    arms=(
        *(
            ArmPlan(f"killed-{pace}", f"node killed, {pace} ms apart", {}, {"fault": "kill", "pace_ms": pace})
            for pace in (1, 5, 20)
        ),
        ArmPlan("closed-5", "UDP port closed, 5 ms apart", {}, {"fault": "close", "pace_ms": 5}),
        ArmPlan(
            "frozen-5",
            "node frozen, UDP probes, 5 ms apart",
            {"nodes.probe": "udp"},
            {"fault": "freeze", "pace_ms": 5},
        ),
    ),
)
def udpstream(lab: Lab) -> None:
    """One client sends all the time; node-a fails in the middle."""
    gateway, a, _ = settled_udp_pair(lab)
    strike = {"kill": a.kill, "close": a.close_udp, "freeze": a.freeze}[str(lab.parameters["fault"])]
    pace, zero = float(lab.parameters["pace_ms"] or 0) / 1000, clock()
    with Watch(gateway, zero) as watch, Datagrams(gateway.door.port, zero, every=pace) as datagrams:
        time.sleep(BEFORE + random.uniform(0, pace))
        struck = clock() - zero
        strike()
        gone = clock() - zero
        time.sleep(AFTER)
    seen = datagrams.seen
    lab.record("datagrams", "count", len(seen))
    lab.record("datagrams_lost", "datagrams", len(lost(seen)))
    lab.record("datagrams_doubled", "datagrams", datagrams.doubled)
    for asked in lost(seen):
        lab.record("lost_at_ms", "ms", 1000 * (asked.at - struck))
    met = answered_by(seen, "node-b")
    if met is not None:
        lab.record("first_answer_ms", "ms", 1000 * (met.over - struck))
    switched = became_active(watch.claims, "node-b", "udp", struck)
    if switched is not None:
        lab.record("switched_ms", "ms", 1000 * (switched - struck))
    record_seen(lab, "datagram", since(seen, struck - 0.1), struck)
    record_claims(lab, watch.claims, struck)
    check_answers(seen, watch.claims, "udp", "node-b", moment=gone)
