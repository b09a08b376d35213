"""A kill that no client meets, with an idle connection to the node and without: who notices, and when."""

from ..lab import Lab
from ..scenario import ArmPlan, scenario
from .settling import bring_back, settled_pair

INTERVALS = (100, 1000)  # milliseconds


@scenario(
    "tripwire",
    "Tripwire on and off",
    "How much sooner is a crash noticed that no client meets?",
    harness="beyond",
    trials=5,
    seconds=3.2,
    arms=tuple(
        ArmPlan(
            f"{'on' if on else 'off'}-{interval}",
            f"tripwire {'on' if on else 'off'}, probes every {interval} ms",
            {**({"nodes.tripwire": True} if on else {}), "probe_interval_ms": interval},
        )
        for interval in INTERVALS
        for on in (False, True)
    ),
)
def tripwire(lab: Lab) -> None:
    """Kills node-a while nobody asks for anything, then starts it again."""
    pair = settled_pair(lab)
    died = pair.a.kill()
    lab.record("detection_ms", "ms", 1000 * (pair.gateway.until_active("node-b") - died))
    lab.check_active(pair.gateway, "node-b")
    lab.record("recovery_ms", "ms", bring_back(lab, pair))
    lab.check_active(pair.gateway, "node-a")
