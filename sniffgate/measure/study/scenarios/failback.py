"""The primary returns after a failure: when traffic does, and what becomes of the connections at the standby."""

import socket
import time

from ..clients import exchange
from ..lab import Lab
from ..nodes import clock
from ..scenario import ArmPlan, Lied, TrialFailed, scenario
from ..steady import Requests, answered_by, lost, record_seen, since
from ..testimony import Watch, became_active, look_before, record_claims
from .settling import settled_pair

EVERY = 0.02
WAIT = 1.0  # seconds that node-a is back before an operator says `auto`, where it needs one
CUT_WITHIN = 3.0  # seconds, more than any drain here


@scenario(
    "failback",
    "Failback modes",
    "When does traffic return to a recovered primary, and how long do connections at the standby live on?",
    harness="beyond",
    trials=3,
    seconds=4.0,
    arms=(
        ArmPlan("auto", "at once"),
        ArmPlan("delay-500", "after 500 ms of health", {"failback_delay_ms": 500}),
        ArmPlan("manual", "when an operator says so", {"failback": "manual"}, {"operator": True}),
        ArmPlan("drain-300", "at once, drain of 300 ms at failback", {"failback_drain_timeout_ms": 300}),
    ),
)
def failback(lab: Lab) -> None:
    """Kills node-a, lets node-b take over, opens a connection there, and starts node-a again."""
    gateway, a, _ = settled_pair(lab)
    a.kill()
    gateway.until_active("node-b")
    time.sleep(0.3)
    zero = clock()
    with (
        Watch(gateway, zero) as watch,
        Requests(gateway.door.port, zero, every=EVERY) as requests,
        gateway.door.connect(CUT_WITHIN) as old,
    ):
        if exchange(old) != "node-b":
            raise TrialFailed("the connection to be drained was not answered by node-b")
        began = returned = a.start() - zero
        if lab.parameters.get("operator"):
            time.sleep(WAIT)
            _check_that_it_stayed(requests, returned)
            began = clock() - zero
            gateway.ask("auto")
        gateway.until_active("node-a")
        was_cut = _is_cut(old)
        cut = clock() - zero
    seen = requests.seen
    switched = became_active(watch.claims, "node-a", "tcp", returned)
    met = answered_by(since(seen, returned), "node-a")
    if switched is None or met is None:
        raise Lied("claimed: node-a is active again; seen: it answered nobody")
    lab.record("failback_ms", "ms", 1000 * (switched - began))
    lab.record("first_answer_ms", "ms", 1000 * (met.over - began))
    lab.record("old_connection_cut", "yes", was_cut)
    if was_cut:
        lab.record("old_connection_cut_ms", "ms", 1000 * (cut - look_before(watch.looked, switched)))
    lab.record("requests_lost", "count", len(lost(seen)))
    record_seen(lab, "request", seen, returned)
    record_claims(lab, watch.claims, returned)


def _is_cut(conn: socket.socket) -> bool:
    """Waits until the connection ends, for its own timeout at most."""
    try:
        conn.recv(1)
    except TimeoutError:
        return False
    except ConnectionResetError:
        pass
    return True


def _check_that_it_stayed(requests: Requests, returned: float) -> None:
    """Errors: `TrialFailed` when node-a has traffic that nobody gave it."""
    if answered_by(since(requests.seen, returned), "node-a") is not None:
        raise TrialFailed("node-a took over although failback is the operator's")
