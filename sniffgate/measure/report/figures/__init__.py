"""The four figures. matplotlib is imported when one is drawn, not before."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ..facts import Facts
from ..original import Original
from .architecture import draw_architecture
from .bound import clients, ejections, manifestations, panels
from .failover import draw_failover
from .overhead import draw_overhead
from .passive import draw_passive
from .style import drawing, save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CAPTIONS: Mapping[str, str] = {
    "fig1_architecture": "Paths of data and of control. What decides is one value, which the hub alone changes.",
    "fig2_failover": "Failover by how the failure shows itself: medians, and lines from the least to the most.",
    "fig3_passive": "Without probes: what a client waits, and how long the dead node stays out. The original's clients "
    "had a threshold of 2, its two ejections one of 1.",
    "fig4_overhead": "What forwarding costs: medians, and in them the middle half of the values.",
}


def draw_figures(facts: Facts, paper: Original, folder: Path) -> Iterator[Path]:
    """Draws them all into a folder and yields each file. Errors: `NoFigures` when matplotlib is not installed."""
    with drawing():
        for name, figure in drawn(facts, paper):
            yield from save(figure, folder, name)


def drawn(facts: Facts, paper: Original) -> "Iterator[tuple[str, Figure]]":
    """Each figure with its name, within `drawing()`."""
    yield "fig1_architecture", draw_architecture()
    yield "fig2_failover", draw_failover(manifestations(facts, paper))
    waited = paper.number("PassiveTwoAttemptMs")
    yield "fig3_passive", draw_passive(clients(facts), ejections(facts, paper), waited)
    yield "fig4_overhead", draw_overhead(panels(facts, paper))
