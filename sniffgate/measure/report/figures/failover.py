"""Figure 2: how long detection, the first request and the way back take, by how the failure shows itself."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs

from ..reading import Reading, number
from .style import FIRST, QUIET, SECOND, SMALLEST, THIRD, Series, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LANE = 0.21  # inches of height for each lane
LEAST_LANES = 2  # of a manifestation, whose label has two lines
MARGIN = 0.5  # lanes between two manifestations
FRAME = 1.1  # inches for the axis and the key
LIMITS = (0.4, 4000.0)  # ms
CLOSE = 3.0  # a mark nearer than this factor would stand in a label
STEPS = ("routes switched", "first new request answered", "traffic back at the recovered node")
LOOKS = (FIRST, SECOND, THIRD)


@attrs.frozen
class Manifestation:
    """One way in which a failure shows itself: readings in ms for each of `STEPS`, and the original's, where known."""

    label: str
    readings: tuple[Reading | None, Reading | None, Reading | None]  # None: not a question of this scenario
    original: tuple[float | None, float | None, float | None] = (None, None, None)


def draw_failover(rows: Sequence[Manifestation]) -> "Figure":
    """A lane for each step of each row: the median, and a line from the least to the most."""
    heights = [max(LEAST_LANES, sum(reading is not None for reading in row.readings)) + MARGIN for row in rows]
    figure = new_figure(FRAME + LANE * sum(heights))
    axes = figure.add_subplot()
    top, middles = 0.0, []
    for place, (row, height) in enumerate(zip(rows, heights, strict=True)):
        if place % 2:
            axes.axhspan(top, top + height, color="#f2f2f2", linewidth=0, zorder=0)
        middles.append(top + height / 2)
        _row(axes, row, middles[-1])
        top += height
    axes.set_xscale("log")
    axes.set_xlim(*_limits(rows))
    axes.set_ylim(top, 0)
    axes.set_xlabel("time since the failure, or since the recovery (ms, logarithmic)")
    axes.xaxis.set_major_formatter(lambda value, _: number(value))
    axes.set_yticks(middles, [row.label for row in rows])
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color="#cccccc", linewidth=0.5)
    axes.set_axisbelow(True)
    _key(figure)
    return figure


def _limits(rows: Sequence[Manifestation]) -> tuple[float, float]:
    """Those of `LIMITS`, or wider ones where something lies beyond."""
    seen = [end for row in rows for reading in row.readings if reading and reading.numbers for end in reading.ends]
    return min([LIMITS[0], *(end / 2 for end in seen)]), max([LIMITS[1], *(2 * end for end in seen)])


def _row(axes: "Axes", row: Manifestation, middle: float) -> None:
    lanes = [
        (look, reading, other)
        for look, reading, other in zip(LOOKS, row.readings, row.original, strict=True)
        if reading is not None
    ]
    for place, (look, reading, other) in enumerate(lanes):
        height = middle + place - (len(lanes) - 1) / 2
        _lane(axes, height, look, reading, other)
        if other is not None:
            axes.plot(other, height, marker=look.marker, color=QUIET, markerfacecolor="white", markersize=5)


def _lane(axes: "Axes", height: float, look: Series, reading: Reading, other: float | None) -> None:
    if reading.median is None:
        axes.text(
            0.01, height, "not measured", transform=axes.get_yaxis_transform(), va="center", color=QUIET, style="italic"
        )
        return
    least, most = reading.ends
    axes.plot((least, most), (height, height), color=look.color, linewidth=1.6, solid_capstyle="butt")
    axes.plot(reading.median, height, marker=look.marker, color=look.color, markersize=5.5, linestyle="none")
    is_in_the_way = other is not None and most < other < CLOSE * most
    end, offset, side = (least, -6, "right") if is_in_the_way else (most, 6, "left")
    words = number(reading.median)
    axes.annotate(words, (end, height), (offset, 0), textcoords="offset points", va="center", ha=side, size=SMALLEST)


def _key(figure: "Figure") -> None:
    from matplotlib.lines import Line2D

    marks = [
        Line2D([], [], color=look.color, marker=look.marker, markersize=5.5, linewidth=1.6, label=step)
        for look, step in zip(LOOKS, STEPS, strict=True)
    ]
    hollow = Line2D([], [], color=QUIET, marker="o", markerfacecolor="white", linestyle="none")
    hollow.set_label("hollow: the original, on Windows")
    figure.legend(handles=[*marks, hollow], loc="outside upper center", ncols=2, frameon=False)
