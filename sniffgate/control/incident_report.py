"""What `status` says of one incident, milliseconds after the first evidence."""

from ..tasks.incidents import Incident
from .words import clip, node_names


def incident_report(incident: Incident) -> dict[str, object]:
    """The incident as JSON; what has not come yet is None."""

    def after(moment: float | None) -> float | None:
        return None if moment is None else round((moment - incident.evidence_at) * 1000, 3)

    return {
        "route": str(incident.route),
        "node": incident.node,
        "evidence": clip(incident.evidence),
        "evidence_ms": incident.wall_ms,
        "verdict_ms": after(incident.verdict_at),
        "switched_ms": after(incident.switched_at),
        "first_good_ms": after(incident.good_at),
        "drained_ms": after(incident.drained_at),
        "outage_ms": after(incident.good_at),
        "epoch": incident.epoch,
        "after": node_names(incident.after),
        "slow": incident.slow,
        "lost": incident.lost,
        "over": incident.is_over,
    }
