"""All nodes are dead: what a client is told, and how soon it is served again."""

import time

from ..clients import NOBODY
from ..control import Reply, node_of
from ..gateway import Gateway
from ..lab import Lab
from ..nodes import clock, since
from ..scenario import ArmPlan, TrialFailed, scenario
from .settling import settled_pair

CLIENTS = 3
SERVED_WITHIN = 10.0  # seconds
PAUSE = 0.002  # seconds between two clients that look whether they are served


@scenario(
    "failmode",
    "All nodes are dead",
    "Is a client refused or kept waiting, for how long, and when is it served after a node has come back?",
    harness="first",
    trials=3,
    seconds=1.6,
    arms=(
        ArmPlan("open", "fail_open: the last node is tried all the same", {"fail_open": True}),
        ArmPlan("closed", "fail closed: nobody is tried", {"fail_open": False}),
    ),
)
def failmode(lab: Lab) -> None:
    """Kills both nodes, lets clients come once both are known to be dead, and starts node-a again."""
    gateway, a, b = settled_pair(lab)
    died = a.kill()
    b.kill()
    lab.record("both_found_dead_ms", "ms", since(died, gateway.until(_are_dead, "the verdict on both nodes")))
    for _ in range(CLIENTS):
        _come(lab, gateway)
    lab.record("udp_answer", "word", gateway.door.ask_udp(within=0.5))
    ready = a.start()
    while gateway.door.ask() == NOBODY:
        if clock() > ready + SERVED_WITHIN:
            raise TrialFailed(f"nobody was served within {SERVED_WITHIN:g} s of node-a's return")
        time.sleep(PAUSE)
    lab.record("served_again_ms", "ms", since(ready, clock()))


def _are_dead(status: Reply) -> bool:
    return not any(node_of(status, name).get("healthy") for name in ("node-a", "node-b"))


def _come(lab: Lab, gateway: Gateway) -> None:
    """One client: whether it was accepted, how and when its connection ended, and what it had received by then."""
    began = clock()
    try:
        conn = gateway.door.connect()
    except OSError:
        lab.record("ending", "word", "refused")
        lab.record("refused_ms", "ms", since(began, clock()))
        return
    with conn:
        lab.record("accepted_ms", "ms", since(began, clock()))
        received = b""
        try:
            conn.sendall(b"hi")
            received = conn.recv(100)
            ending = "closed" if not received else "answered"
        except TimeoutError:
            ending = "open"
        except OSError:
            ending = "reset"
        lab.record("ended_ms", "ms", since(began, clock()))
        lab.record("ending", "word", ending)
        lab.record("received", "count", len(received))
