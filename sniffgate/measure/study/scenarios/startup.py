"""How soon it serves, and what it does while nothing happens."""

import time

from ..claims import check_probes
from ..control import Control, dig
from ..lab import Lab
from ..nodes import clock
from ..scenario import TrialFailed, scenario

IDLE = 2.0  # seconds without traffic over which probes are counted
LOOKS = 200  # at the status
LONG = "65,536 bytes"
HOSTILE = {
    "unknown command": b"frobnicate",
    "bad JSON": b'{"cmd":',
    "deep nesting": b"[" * 5000,
    LONG: b"x" * 65536,
    "HTTP": b"GET / HTTP/1.1",
}


@scenario(
    "startup",
    "Start, control port and idle probes",
    "How soon does it serve, what does a look at it cost, and how often does it probe an idle node?",
    harness="first",
    trials=3,
    seconds=3.0,
)
def startup(lab: Lab) -> None:
    """Starts it before two healthy nodes and watches it."""
    a, b = lab.node("node-a", priority=10), lab.node("node-b", priority=5)
    gateway = lab.gateway([a, b])
    lab.record("control_open_ms", "ms", 1000 * gateway.control_open)
    lab.record("data_open_ms", "ms", 1000 * gateway.data_open)
    lab.record("healthy_ms", "ms", 1000 * (gateway.until_healthy("node-a", "node-b") - gateway.started))
    lab.check_active(gateway, "node-a")
    lab.record("rss_mb", "MB", gateway.memory() / 1e6)
    for _ in range(LOOKS):
        began = clock()
        gateway.status()
        lab.record("status_us", "µs", 1e6 * (clock() - began))
    for node in (a, b):
        with lab.perhaps(f"idle_probes_{node.name}"):
            before, claimed_before = node.seen(), dig(gateway.node(node.name), "stats", "probe_ok")
            began = clock()
            time.sleep(IDLE / 2)
            claimed, after = dig(gateway.node(node.name), "stats", "probe_ok") - claimed_before, node.seen()
            lab.record(f"idle_probes_{node.name}", "1/s", (after.accepted - before.accepted) / (clock() - began))
            check_probes(node.name, claimed, before, after)
    _send_hostile_input(lab, gateway.admin)


def _send_hostile_input(lab: Lab, port: int) -> None:
    """What the control port says to lines that no operator writes, and how much."""
    for name, line in HOSTILE.items():
        control = Control(port)
        try:
            reply = control.ask_anything(line)
            lab.record("hostile_replies", "word", f"{name}: {'refused' if reply.get('ok') is False else 'accepted'}")
            if name == LONG:
                lab.record("long_line_reply_bytes", "bytes", control.reply_bytes)
        except TrialFailed:
            lab.record("hostile_replies", "word", f"{name}: no reply")
        finally:
            control.close()
