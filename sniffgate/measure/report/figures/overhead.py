"""Figure 4: what the gateway costs: round trips, bulk and connections, beside no gateway and beside other gateways."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs

from ...study.summary import Figure as Seen
from ..reading import Reading, number, ratio
from .style import QUIET, SMALLEST, Series, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HEIGHT = 2.1
BAR = 0.7  # of the distance between two bars
SHORT = 25  # letters that fit into a panel
ROOM = 1.7  # of the longest bar: what stands behind its end
WAYS = ("direct", "gateway", "haproxy", "nginx")
LOOKS = {  # bars need outlines and hatches, not dark areas
    "direct": Series("#ffffff", "o", ""),
    "gateway": Series("#0072B2", "^", ""),
    "haproxy": Series("#f3d9a4", "D", "...."),
    "nginx": Series("#dddddd", "s", "////"),
}


@attrs.frozen
class Panel:
    """One kind of load: what each of `WAYS` reached, and the original's ratio to direct, as the paper prints it."""

    title: str
    unit: str
    seen: tuple[Reading, ...]
    original: str = ""


def draw_overhead(panels: Sequence[Panel]) -> "Figure":
    """A panel for each load: bars are medians, lines the middle half of the values."""
    figure = new_figure(HEIGHT)
    for place, (axes, panel) in enumerate(zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True)):
        _panel(axes, panel)
        axes.set_yticks(range(len(WAYS)), WAYS if not place else [""] * len(WAYS))
    return figure


def _panel(axes: "Axes", panel: Panel) -> None:
    seen = zip(WAYS, panel.seen, strict=True)
    ends = [_bar(axes, place, LOOKS[way], reading) for place, (way, reading) in enumerate(seen)]
    axes.set_xlim(0, ROOM * max(ends) or 1)
    axes.set_ylim(len(WAYS) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.locator_params(axis="x", nbins=3)
    axes.xaxis.set_major_formatter(lambda value, _: number(value))
    axes.set_xlabel(panel.unit)
    axes.set_title(f"{panel.title}\n{_ratio(panel)}", loc="left", size=SMALLEST, linespacing=1.3)


def _bar(axes: "Axes", place: int, look: Series, reading: Reading) -> float:
    if not isinstance(reading.seen, Seen):
        words = reading.absent if len(reading.absent) < SHORT else "absent"
        axes.text(0, place, f" {words}", va="center", color=QUIET, style="italic")
        return 0.0
    lower, upper = reading.seen.quartiles
    axes.barh(place, reading.seen.median, BAR, color=look.color, edgecolor="black", hatch=look.hatch, linewidth=0.8)
    axes.plot((lower, upper), (place, place), color="black", linewidth=3.2, solid_capstyle="butt")
    axes.plot((lower, upper), (place, place), color="white", linewidth=1.4, solid_capstyle="butt")
    words = number(reading.seen.median)
    end = max(upper, reading.seen.median)
    axes.annotate(words, (end, place), (4, 0), textcoords="offset points", va="center", size=SMALLEST)
    return end


def _ratio(panel: Panel) -> str:
    quotient = ratio(panel.seen[WAYS.index("gateway")], panel.seen[WAYS.index("direct")])
    ours = f"here × {quotient.text}" if quotient.median is not None else ""
    return f"{ours}\noriginal × {panel.original}" if panel.original else f"{ours}\n"
