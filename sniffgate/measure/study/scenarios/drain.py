"""What becomes of an open connection when an operator moves new traffic to another node."""

import time
from contextlib import closing

from ..clients import exchange
from ..lab import Lab
from ..nodes import clock, since
from ..scenario import ArmPlan, TrialFailed, scenario
from .settling import settled_pair

WATCHED = 2.2  # seconds, as in the paper: more than twice the drain timeout
HALFWAY = 0.3  # seconds after the switch at which the old connection is used once more


@scenario(
    "drain",
    "A switch by hand with a connection open",
    "Which connections are drained, when are they closed, and what does a timeout of zero mean?",
    harness="first",
    trials=3,
    seconds=1.9,
    arms=(
        ArmPlan("both", "switch over both transports", parameters={"command": "switch node-b"}),
        ArmPlan("tcp-only", "switch over TCP alone", parameters={"command": "switch node-b tcp"}),
        ArmPlan("zero", "drain timeout 0", {"drain_timeout_ms": 0}, {"command": "switch node-b"}),
    ),
)
def drain(lab: Lab) -> None:
    """Holds a connection through node-a, moves to node-b, and waits for the connection's end."""
    gateway, *_ = settled_pair(lab)
    with closing(gateway.door.connect()) as old:
        if exchange(old) != "node-a":
            raise TrialFailed("the connection to be drained is not with node-a")
        began = clock()
        gateway.ask(str(lab.parameters["command"]))
        lab.record("command_ms", "ms", since(began, clock()))
        lab.record("claimed_draining", "yes", bool(gateway.node("node-a").get("draining")))
        lab.check_active(gateway, "node-b")
        if lab.setting("drain_timeout_ms") > 0:
            time.sleep(max(0.0, began + HALFWAY - clock()))
            lab.record("old_connection_node", "word", exchange(old))
        old.settimeout(max(0.01, began + WATCHED - clock()))
        try:
            rest = old.recv(1)
            lab.record("closed_ms", "ms", since(began, clock()))
            lab.record("closed", "yes", rest == b"")
        except TimeoutError:
            lab.record("closed", "yes", False)
            lab.record("alive_ms", "ms", since(began, clock()))
        except OSError:
            lab.record("closed_ms", "ms", since(began, clock()))
            lab.record("closed", "yes", True)
            lab.note("the old connection ended with a reset")
