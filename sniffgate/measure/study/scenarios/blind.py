"""One transport of the primary dies, the other lives: who notices under which probes, and what that costs."""

import time

from ..lab import Lab
from ..nodes import clock
from ..scenario import ArmPlan, scenario
from ..steady import Datagrams, Requests, lost, record_seen, since
from ..testimony import Watch, became_active, check_answers, lost_health, record_claims
from .settling import settled_udp_pair

BEFORE, AFTER = 0.5, 2.1  # seconds of traffic around the failure
EVERY = 0.02  # seconds between two datagrams, and between two requests
COUNTED = 100  # datagrams and requests after the failure
KINDS = {"tcp": "TCP", "udp": "UDP", "auto": "both kinds of"}


@scenario(
    "blind",
    "Cross-protocol blindness",
    "When one transport of a node dies, what is lost over it, and is it seen?",
    harness="second",
    trials=2,
    seconds=3.6,
    arms=tuple(
        ArmPlan(
            f"{dies}-dies-{probe}-probe",
            f"only {dies.upper()} dies, {KINDS[probe]} probes",
            {"nodes.probe": probe},
            {"dies": dies},
        )
        for dies in ("udp", "tcp")
        for probe in KINDS
    ),
)
def blind(lab: Lab) -> None:
    """Steady datagrams and requests; one port of node-a closes in their middle."""
    gateway, a, _ = settled_udp_pair(lab)
    dies, zero = str(lab.parameters["dies"]), clock()
    with (
        Watch(gateway, zero) as watch,
        Requests(gateway.door.port, zero, every=EVERY) as requests,
        Datagrams(gateway.door.port, zero, every=EVERY) as datagrams,
    ):
        time.sleep(BEFORE)
        struck = clock() - zero
        gone = (a.close_udp() if dies == "udp" else a.close_tcp()) - zero
        time.sleep(AFTER)
    for what, seen in (("datagram", datagrams.seen), ("request", requests.seen)):
        counted = since(seen, struck)[:COUNTED]
        lab.record(f"{what}s", "count", len(counted))
        lab.record(f"{what}s_lost", "count", len(lost(counted)))
        record_seen(lab, what, seen, struck)
    record_claims(lab, watch.claims, struck)
    noticed = lost_health(watch.claims, "node-a", struck)
    lab.record("noticed", "yes", noticed is not None)
    if noticed is not None:
        lab.record("noticed_ms", "ms", 1000 * (noticed - struck))
    for transport in ("tcp", "udp"):
        moved = became_active(watch.claims, "node-b", transport, struck)
        lab.record(f"switched_{transport}", "yes", moved is not None)
        if moved is not None:
            lab.record(f"switched_{transport}_ms", "ms", 1000 * (moved - struck))
        seen = requests.seen if transport == "tcp" else datagrams.seen
        check_answers(seen, watch.claims, transport, "node-b", moment=gone)
        if transport != dies:
            check_answers(seen, watch.claims, transport, "node-a", moment=gone)
