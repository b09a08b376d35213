"""Figure 4: what the gateway costs: round trips, bulk and connections, beside talking to the node directly."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs

from ..reading import Reading, number, ratio
from .style import QUIET, SMALLEST, Series, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HEIGHT = 2.9
BAR = 0.22  # of the distance between two groups
WAYS = ("direct", "gateway", "haproxy", "nginx")
LOOKS = {  # bars need outlines and hatches, not dark areas: their numbers stand above them
    "direct": Series("#ffffff", "o", ""),
    "gateway": Series("#0072B2", "^", ""),
    "haproxy": Series("#f3d9a4", "D", "...."),
    "nginx": Series("#dddddd", "s", "////"),
}


@attrs.frozen
class Cost:
    """One group of bars: what was done, and how long or how much it was without and with the gateway."""

    label: str
    seen: tuple[Reading, ...]  # one for each of `WAYS`
    original: str = ""  # the original's ratio to direct, as the paper prints it


@attrs.frozen
class Panel:
    """Groups of one unit."""

    title: str
    unit: str
    costs: tuple[Cost, ...]


def draw_overhead(panels: Sequence[Panel]) -> "Figure":
    """A panel for each unit: bars are medians, lines from the least to the most, the ratio below."""
    figure = new_figure(HEIGHT)
    widths = [len(panel.costs) for panel in panels]
    for axes, panel in zip(figure.subplots(1, len(panels), width_ratios=widths, squeeze=False)[0], panels, strict=True):
        _panel(axes, panel)
    _key(figure)
    return figure


def _panel(axes: "Axes", panel: Panel) -> None:
    top = 0.0
    for place, cost in enumerate(panel.costs):
        for side, (way, reading) in enumerate(zip(WAYS, cost.seen, strict=True)):
            across = place + (side - (len(WAYS) - 1) / 2) * BAR
            top = max(top, _bar(axes, across, LOOKS[way], reading))
    axes.set_xticks(range(len(panel.costs)), [_under(cost) for cost in panel.costs])
    axes.tick_params(axis="x", length=0)
    axes.set_xlim(-0.6, len(panel.costs) - 0.4)
    axes.set_ylim(0, 1.18 * top or 1)
    axes.set_title(panel.title, loc="left")
    axes.set_ylabel(panel.unit)
    axes.yaxis.set_major_formatter(lambda value, _: number(value))


def _bar(axes: "Axes", across: float, look: Series, reading: Reading) -> float:
    if reading.median is None:
        axes.text(across, 0, "not\nmeasured", ha="center", va="bottom", color=QUIET, style="italic", rotation=90)
        return 0.0
    least, most = reading.ends
    axes.bar(across, reading.median, BAR, color=look.color, edgecolor="black", hatch=look.hatch, linewidth=0.8)
    axes.plot((across, across), (least, most), color="black", linewidth=1.2)
    words = number(reading.median)
    axes.annotate(words, (across, most), (0, 3), textcoords="offset points", ha="center", size=SMALLEST)
    return most


def _under(cost: Cost) -> str:
    quotient = ratio(cost.seen[1], cost.seen[0])
    lines = [cost.label, f"× {quotient.text}" if quotient.median is not None else ""]
    if cost.original:
        lines.append(f"original × {cost.original}")
    return "\n".join(lines)


def _key(figure: "Figure") -> None:
    from matplotlib.patches import Patch

    marks = [
        Patch(facecolor=look.color, edgecolor="black", hatch=look.hatch, label=name) for name, look in LOOKS.items()
    ]
    figure.legend(handles=marks, loc="outside upper right", ncols=4, frameon=False)
