"""A node that dies at once, and one that stays open and says nothing."""

import socket
import time
from contextlib import closing

from ..clients import NOBODY, exchange
from ..gateway import Gateway
from ..lab import Lab
from ..nodes import clock, since
from ..scenario import ArmPlan, TrialFailed, scenario
from ..watching import Watcher
from .settling import settled_pair

DOWN = 0.5  # seconds that a killed node stays down
PAUSE = 0.002  # seconds between two clients that look whether traffic has returned
RETURN_WITHIN = 10.0  # seconds
STUCK = 4.0  # seconds that a client waits for a node that says nothing
BLIND = 3.0  # seconds that a failure which no probe can see is watched
WORDS = {"nodes.probe_payload": "ping", "nodes.probe_expect": "ping"}  # what makes silence a failure


@scenario(
    "failover",
    "Fail-stop of the active node (kill -9), and its return",
    "When does the first new client reach the standby, when does new traffic move for good, and when does it return?",
    harness="first",
    trials=5,
    seconds=1.8,
    arms=(
        ArmPlan("traffic", "a client comes right after the kill", parameters={"client": True}),
        ArmPlan("quiet", "no client until new traffic has moved", parameters={"client": False}),
    ),
)
def failover(lab: Lab) -> None:
    """Kills node-a, waits for the switch, starts it again."""
    gateway, a, _ = settled_pair(lab)
    with closing(gateway.door.connect()) as held:
        exchange(held)
        with Watcher(gateway) as watcher:
            died = a.kill()
            lab.record("dying_ms", "ms", since(died, clock()))
            if lab.parameters["client"]:
                node, took = gateway.door.timed_ask()
                lab.record("first_request_ms", "ms", took)
                lab.record("first_request_node", "word", node)
            lab.record("switch_ms", "ms", since(died, _first_switch(watcher, "node-b")))
        held.settimeout(STUCK)
        lab.record("open_connection_ended", "yes", _has_ended(held))
    lab.check_active(gateway, "node-b")
    time.sleep(DOWN)
    _return(lab, gateway, a.start())


def _return(lab: Lab, gateway: Gateway, ready: float) -> None:
    """From when the node listens again to the first client that meets it, and to the status that says so."""
    with Watcher(gateway) as watcher:
        while gateway.door.ask() != "node-a":
            if clock() > ready + RETURN_WITHIN:
                raise TrialFailed(f"traffic did not return to node-a within {RETURN_WITHIN:g} s")
            time.sleep(PAUSE)
        lab.record("recovery_ms", "ms", since(ready, clock()))
        lab.record("return_ms", "ms", since(ready, _first_switch(watcher, "node-a")))
    lab.check_active(gateway, "node-a")


def _first_switch(watcher: Watcher, name: str) -> float:
    return watcher.until(lambda change: change.transport == "tcp" and change.after == name, f"the switch to {name}").at


def _has_ended(conn: socket.socket) -> bool:
    try:
        return conn.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


@scenario(
    "gray",
    "A node that accepts and never answers",
    "When is a listener that is open but silent found out, and what does it take to find it out?",
    harness="first",
    trials=3,
    seconds=3.5,
    arms=(
        ArmPlan("expecting", "probes that expect an answer", WORDS),
        ArmPlan("connect-only", "probes that only connect", parameters={"blind": True}),
    ),
)
def gray(lab: Lab) -> None:
    """Mutes node-a, and lets a client wait for it."""
    gateway, a, _ = settled_pair(lab)
    with Watcher(gateway) as watcher:
        began = a.mute()
        if lab.parameters.get("blind"):
            _watch_blindly(lab, gateway, watcher, began)
            return
        with closing(gateway.door.connect()) as stuck:
            stuck.sendall(b"hi")
            lab.record("switch_ms", "ms", since(began, _first_switch(watcher, "node-b")))
            lab.check_active(gateway, "node-b")
            stuck.settimeout(STUCK)
            if _has_ended(stuck):
                lab.record("stuck_client_ended_ms", "ms", since(began, clock()))
            lab.record("stuck_client_ended", "yes", "stuck_client_ended_ms" in lab.observations)


def _watch_blindly(lab: Lab, gateway: Gateway, watcher: Watcher, began: float) -> None:
    asked = answered = 0
    while clock() < began + BLIND:
        asked += 1
        answered += gateway.door.ask(within=0.3) != NOBODY
    lab.record("requests", "count", asked)
    lab.record("requests_answered", "count", answered)
    lab.record("switched", "yes", bool(watcher.of("tcp")))
    lab.record("claimed_healthy", "yes", bool(gateway.node("node-a").get("healthy")))
    lab.record("watched_ms", "ms", since(began, clock()))
