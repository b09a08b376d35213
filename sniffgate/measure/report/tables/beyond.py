"""What the paper did not show: black holes, frozen nodes, tripwires, modes of failback, a stream of datagrams."""

from ..facts import Facts
from ..original import Original
from ..table import Table
from .rows import Measure, by_arm


def blackhole(facts: Facts, _paper: Original) -> Table:
    """A node whose packets vanish."""
    measures = (
        Measure("first request, ms", "first_request_ms"),
        Measure("moved, quiet, ms", "detection_ms"),
        Measure("moved, with clients, ms", "detection_with_requests_ms"),
        Measure("slowest, ms", "slowest_ms"),
        Measure("lost", "requests_lost"),
    )
    return by_arm("blackhole", "A node becomes a black hole", "blackhole", measures, facts)


def frozen(facts: Facts, _paper: Original) -> Table:
    """A node that accepts and never answers, four clients."""
    measures = (
        Measure("noticed", "noticed"),
        Measure("after, ms", "noticed_ms"),
        Measure("requests lost", "requests_lost", of="requests"),
    )
    return by_arm("frozen", "A node is frozen under four clients", "frozen", measures, facts)


def tripwire(facts: Facts, _paper: Original) -> Table:
    """A crash that no client meets."""
    measures = Measure("moved after, ms", "detection_ms"), Measure("back after, ms", "recovery_ms")
    return by_arm("tripwire", "A crash that no client meets", "tripwire", measures, facts)


def failback(facts: Facts, _paper: Original) -> Table:
    """The primary returns."""
    measures = (
        Measure("traffic back after, ms", "failback_ms"),
        Measure("first answer after, ms", "first_answer_ms"),
        Measure("standby's connection cut, ms", "old_connection_cut_ms"),
        Measure("requests lost", "requests_lost"),
    )
    return by_arm("failback", "The primary returns", "failback", measures, facts)


def udpstream(facts: Facts, _paper: Original) -> Table:
    """Datagrams while their node dies."""
    measures = (
        Measure("lost", "datagrams_lost", of="datagrams"),
        Measure("doubled", "datagrams_doubled"),
        Measure("first answer, ms", "first_answer_ms"),
        Measure("moved after, ms", "switched_ms"),
    )
    return by_arm("udpstream", "A steady stream of datagrams while its node dies", "udpstream", measures, facts)
