"""The second harness: the grid of detection, blindness across transports, flapping, ejection under load, no probes."""

from collections.abc import Iterator

from ..facts import Facts
from ..original import Original
from ..reading import NOTHING, Reading, number
from ..table import Cell, Column, Table, figure, table, words
from .rows import Measure, by_arm

GRID = (
    Column("probe"),
    Column("interval, ms"),
    Column("threshold"),
    Column("killed"),
    Column("scheduled"),
    Column("silent"),
    Column("scheduled"),
    Column("first request"),
)


def grid(facts: Facts, _paper: Original) -> Table:
    """Detection in each cell beside what the rules say it takes, and what a client saw of it."""
    return table(
        "grid", "Detection over interval and threshold, and the first request after a kill; ms", GRID, _cells(facts)
    )


def blind(facts: Facts, _paper: Original) -> Table:
    """One transport dies: what is lost, and who notices."""
    measures = (
        Measure("datagrams lost", "datagrams_lost", of="datagrams"),
        Measure("requests lost", "requests_lost", of="requests"),
        Measure("noticed", "noticed"),
        Measure("after, ms", "noticed_ms"),
        Measure("TCP moved", "switched_tcp"),
        Measure("UDP moved", "switched_udp"),
    )
    return by_arm("blind", "One transport of a node dies", "blind", measures, facts)


def flap(facts: Facts, _paper: Original) -> Table:
    """A node that dies and returns again and again."""
    measures = (
        Measure("deaths", "deaths"),
        Measure("switches", "switches"),
        Measure("requests lost", "requests_lost", of="requests"),
        Measure("at the dying node", "requests_lost_at_the_dying_node"),
        Measure("ejections", "ejections"),
    )
    return by_arm("flap", "A node that flaps", "flap", measures, facts)


def load(facts: Facts, _paper: Original) -> Table:
    """Many clients and no probes."""
    measures = (
        Measure("ejected after, ms", "ejected_ms"),
        Measure("failures", "failures"),
        Measure("requests lost", "requests_lost"),
        Measure("at the dying node", "requests_lost_at_the_dying_node"),
        Measure("slowest, ms", "slowest_ms"),
    )
    return by_arm("load", "Passive ejection under load: sixteen clients, no probes", "load", measures, facts)


def none(facts: Facts, _paper: Original) -> Table:
    """Nobody probes the node that dies and returns."""
    measures = (
        Measure("switched after, ms", "switched_at_ms"),
        Measure("requests lost", "requests_lost", of="requests_while_dead"),
        Measure("resurrections", "resurrections"),
        Measure("probes claimed", "probes_claimed"),
        Measure("back after its return, ms", "back_ms"),
    )
    return by_arm("none", "No probes: one client, a node that dies and returns", "none", measures, facts)


def _cells(facts: Facts) -> Iterator[tuple[Cell, ...]]:
    found = facts.study.scenarios.get("grid")
    if found is None or not found.arms:
        yield tuple(Cell(NOTHING, (found and found.reason) or "not measured") for _ in GRID)
        return
    for name in found.arms:
        probe, interval, threshold = name.split("-")
        at = f"grid/{name}"
        yield (
            *words(probe.upper(), interval, threshold),
            figure(facts.at(f"{at}/detection_ms")),
            Cell(_range(facts.at(f"{at}/detection_schedule_ms"))),
            figure(facts.at(f"{at}/silent_detection_ms")),
            Cell(_range(facts.at(f"{at}/silent_detection_schedule_ms"))),
            figure(facts.at(f"{at}/first_request_ms")),
        )


def _range(schedule: Reading) -> str:
    if not schedule.numbers:
        return NOTHING
    return f"{number(min(schedule.numbers))}–{number(max(schedule.numbers))}"
