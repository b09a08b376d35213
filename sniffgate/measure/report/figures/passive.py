"""Figure 3: without probes, what each client waits for a dead node, and how long it stays out once it is ejected."""

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs

from ..reading import number
from .style import FIRST, QUIET, SECOND, SMALLEST, Series, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HEIGHT = 3.4
LIMITS = (0.3, 2000)  # ms
OUT, IN = "#dceaf5", "#bbbbbb"
BAR = 0.62


@attrs.frozen
class Clients:
    """The clients of an arm in the order in which they came: for each, what it waited in each trial, in ms."""

    label: str
    look: Series
    waited: tuple[tuple[float, ...], ...]


@attrs.frozen
class Ejection:
    """One ejection: `ended` ms later the dead node was back, or it was still out `watched` ms later (`ended` None)."""

    label: str
    ended: float | None
    watched: float


OURS = (("threshold 2", FIRST), ("threshold 1", SECOND))


def draw_passive(clients: Sequence[Clients], ejections: Sequence[Ejection], original_wait: float) -> "Figure":
    """Two panels. `original_wait`: what the original's clients waited, ms."""
    figure = new_figure(HEIGHT)
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.15))
    _waits(left, clients, original_wait)
    _timeline(right, ejections)
    return figure


def _waits(axes: "Axes", clients: Sequence[Clients], original_wait: float) -> None:
    most = max((len(each.waited) for each in clients), default=6) or 6
    axes.axhline(original_wait, color=QUIET, linestyle=(0, (4, 2)), linewidth=1)
    axes.annotate(
        f"original: {number(original_wait)} ms each",
        (most + 0.4, original_wait),
        (0, 4),
        textcoords="offset points",
        ha="right",
        color="#444444",
    )
    for place, each in enumerate(clients):
        across = [1 + client + (place - 0.5) * 0.24 for client in range(len(each.waited))]
        for x, waits in zip(across, each.waited, strict=True):
            axes.plot((x, x), (min(waits), max(waits)), color=each.look.color, linewidth=1.4)
        middle = [statistics.median(waits) for waits in each.waited]
        axes.plot(across, middle, marker=each.look.marker, color=each.look.color, linestyle="none", label=each.label)
    axes.set_yscale("log")
    least = min((wait for each in clients for waits in each.waited for wait in waits), default=LIMITS[0])
    axes.set_ylim(min(LIMITS[0], least / 2), LIMITS[1])
    axes.yaxis.set_major_formatter(lambda value, _: number(value))
    axes.set_xlim(0.5, most + 0.5)
    axes.set_xticks(range(1, most + 1))
    axes.set_xlabel("client after the kill, in order")
    axes.set_ylabel("waited (ms, logarithmic)")
    axes.set_title("What a client pays", loc="left")
    axes.grid(axis="y", color="#cccccc", linewidth=0.5)
    axes.set_axisbelow(True)
    if clients:
        axes.legend(loc="upper center", bbox_to_anchor=(0.42, -0.2), ncols=2, frameon=False, handletextpad=0.2)


def _timeline(axes: "Axes", ejections: Sequence[Ejection]) -> None:
    end = max((each.watched for each in ejections), default=1000)
    for place, each in enumerate(reversed(ejections)):
        out = each.ended or each.watched
        axes.barh(place, out - 1, BAR, left=1, color=OUT, edgecolor="black", linewidth=0.8)
        if each.ended is not None:
            left = each.ended
            axes.barh(place, end - left, BAR, left=left, color=IN, edgecolor="black", linewidth=0.8, hatch="////")
            _says(axes, (left, place), f"back after {number(left)} ms", 4, "left")
        else:
            _says(axes, (out, place), f"still out after {number(out)} ms", -4, "right")
    axes.set_xscale("log")
    axes.set_xlim(1, end * 1.05)
    axes.xaxis.set_major_formatter(lambda value, _: number(value))
    axes.set_yticks(range(len(ejections)), [each.label for each in reversed(ejections)])
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("time since the ejection (ms, logarithmic)")
    axes.set_title("How long the dead node stays out", loc="left")
    _key(axes)


def _says(axes: "Axes", at: tuple[float, float], words: str, offset: float, side: str) -> None:
    paper = {"boxstyle": "square,pad=0.15", "facecolor": "white", "edgecolor": "none"}
    axes.annotate(words, at, (offset, 0), textcoords="offset points", ha=side, va="center", size=SMALLEST, bbox=paper)


def _key(axes: "Axes") -> None:
    from matplotlib.patches import Patch

    marks = [
        Patch(facecolor=OUT, edgecolor="black", label="ejected"),
        Patch(facecolor=IN, edgecolor="black", hatch="////", label="has clients again, dead"),
    ]
    axes.legend(
        handles=marks, loc="upper center", bbox_to_anchor=(0.4, -0.2), ncols=2, frameon=False, columnspacing=1.2
    )
