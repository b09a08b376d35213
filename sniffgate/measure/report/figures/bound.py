"""What the figures show, taken from a study and from the paper. Pure."""

import itertools
from collections.abc import Iterator, Mapping

from ...study.artifact import Observation
from ..facts import Facts
from ..original import Original
from .failover import Manifestation
from .overhead import WAYS, Panel
from .passive import OURS, Clients, Ejection


def manifestations(facts: Facts, paper: Original) -> list[Manifestation]:
    """The rows of figure 2."""
    at, of, traffic = facts.at, paper.number, "failover/traffic"
    return [
        Manifestation(
            "killed, a client\ncomes at once",
            (at(f"{traffic}/switch_ms"), at(f"{traffic}/first_request_ms"), at(f"{traffic}/recovery_ms")),
            (of("FailoverSwitchMs"), of("FailoverFirstMs"), of("FailoverBackMs")),
        ),
        Manifestation("killed,\nno client", (at("failover/quiet/switch_ms"), None, at("failover/quiet/recovery_ms"))),
        Manifestation("killed,\nTCP probes", (at("probe/tcp/switch_ms"), None, None), (of("ProbeTcpMs"), None, None)),
        Manifestation("killed,\nUDP probes", (at("probe/udp/switch_ms"), None, None), (of("ProbeUdpMs"), None, None)),
        Manifestation(
            "accepts, never\nanswers", (at("gray/expecting/switch_ms"), None, None), (of("GrayMs"), None, None)
        ),
        Manifestation("frozen\n(SIGSTOP)", (at("frozen/words/noticed_ms"), None, None)),
        *(_black_hole(facts, arm, label) for arm, label in (("default", "hedging"), ("hedge-off", "no hedging"))),
    ]


def _black_hole(facts: Facts, arm: str, label: str) -> Manifestation:
    detection, first = (facts.at(f"blackhole/{arm}/{key}") for key in ("detection_ms", "first_request_ms"))
    return Manifestation(f"black hole,\n{label}", (detection, first, None))


def clients(facts: Facts) -> list[Clients]:
    """The left of figure 3."""
    found = []
    for label, look in OURS:
        waited = list(_waited(facts, label.replace(" ", "-")))
        if waited:
            found.append(Clients(f"here, {label}", look, tuple(waited)))
    return found


def ejections(facts: Facts, paper: Original) -> list[Ejection]:
    """The right of figure 3: the original's two, and ours: those that ended, or the one watched least."""
    found: list[Ejection] = []
    for label, _ in OURS:
        trials = facts.trials("passive", label.replace(" ", "-"))
        seen = [each for trial in trials for each in _ejections(f"here,\n{label}", trial.observations)]
        ended = [each for each in seen if each.ended is not None]
        found += ended or sorted(seen, key=lambda each: each.watched)[:1]
    longest = max((each.watched for each in found), default=1000.0)
    return [
        Ejection(f"original,\nejection {place}", paper.number(f"PassiveOne{word}ResurrectionMs"), longest)
        for place, word in ((1, "First"), (2, "Second"))
    ] + found


def panels(facts: Facts, paper: Original) -> list[Panel]:
    """Figure 4."""
    loads = (
        ("TCP round trip", "µs", "tcp_rtt_us", "OverheadTcpRatio"),
        ("UDP round trip", "µs", "udp_rtt_us", "OverheadUdpRatio"),
        ("bulk, 32 MiB", "MB/s", "bulk_mb_s", "OverheadBulkRatio"),
        ("connection", "ms", "connection_ms", ""),
    )
    return [
        Panel(title, unit, tuple(facts.at(f"overhead/{way}/{key}") for way in WAYS), paper.figures.get(original, ""))
        for title, unit, key, original in loads
    ]


def _waited(facts: Facts, arm: str) -> Iterator[tuple[float, ...]]:
    trials = [trial.observations["attempt_ms"].values for trial in facts.trials("passive", arm)]
    for waits in zip(*trials, strict=False):  # a client of each trial
        yield tuple(float(wait) for wait in waits)


def _ejections(label: str, seen: Mapping[str, Observation]) -> Iterator[Ejection]:
    """Those of one trial; the last one may have been watched to the end."""
    if "ejected_at_ms" not in seen or "watched_ms" not in seen:
        return
    returns = seen["resurrected_after_ms"].values if "resurrected_after_ms" in seen else []
    for began, ended in itertools.zip_longest(map(float, seen["ejected_at_ms"].values), map(float, returns)):
        if began is not None:
            yield Ejection(label, ended, float(seen["watched_ms"].values[0]) - began)
