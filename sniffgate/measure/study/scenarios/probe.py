"""The same death, noticed by probes over one transport or the other."""

from ..lab import Lab
from ..nodes import since
from ..scenario import ArmPlan, TrialFailed, scenario
from ..watching import TRANSPORTS, Watcher
from .settling import settled_pair


@scenario(
    "probe",
    "The same fail-stop under TCP and under UDP probes",
    "What does the transport of a probe change in when a death is noticed?",
    harness="first",
    trials=3,
    seconds=1.4,
    arms=(
        ArmPlan("tcp", "probes over TCP", {"nodes.probe": "tcp"}),
        ArmPlan("udp", "probes over UDP", {"nodes.probe": "udp"}),
    ),
)
def probe(lab: Lab) -> None:
    """Kills node-a; no client comes."""
    gateway, a, _ = settled_pair(lab)
    own = lab.arm.name
    with Watcher(gateway) as watcher:
        died = a.kill()
        change = watcher.until(lambda change: change.transport == own and change.after == "node-b", "the switch")
        lab.record("switch_ms", "ms", since(died, change.at))
        for each in TRANSPORTS:
            try:
                moved = watcher.until(lambda c, each=each: c.transport == each, "", within=1.0)  # type: ignore[misc]
            except TrialFailed:
                lab.note(f"new traffic over {each} was not moved within a second of the switch over {own}")
                continue
            lab.record(f"switch_{each}_ms", "ms", since(died, moved.at))
    lab.check_active(gateway, "node-b", own)
