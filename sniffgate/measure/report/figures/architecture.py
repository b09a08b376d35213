"""Figure 1: the paths of data and of control through the gateway. Nothing in it is measured."""

from typing import TYPE_CHECKING, Any

import attrs

from .style import FIRST, QUIET, SECOND, SMALLEST, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HEIGHT = 3.9
DATA_LINE: dict[str, Any] = {"color": SECOND.color, "linewidth": 2.4}
CONTROL_LINE: dict[str, Any] = {"color": FIRST.color, "linewidth": 1.0, "linestyle": (0, (4, 2))}
Point = tuple[float, float]


@attrs.frozen
class Box:
    """A part of the picture: its lower left corner, its size, and what it is called and does."""

    x: float
    y: float
    width: float
    height: float
    title: str
    text: str = ""
    fill: str = "#ffffff"

    def at(self, side: str, share: float = 0.5) -> Point:
        """A point on a side, `share` of the way along it (up or to the right)."""
        across, along = self.x + share * self.width, self.y + share * self.height
        return {
            "left": (self.x, along),
            "right": (self.x + self.width, along),
            "top": (across, self.y + self.height),
            "bottom": (across, self.y),
        }[side]


CLIENTS = Box(0, 66, 11, 20, "clients", "TCP, UDP")
LISTENERS = Box(17, 66, 16, 20, "listeners", "accept, receive,\nchoose a node", "#dceaf5")
RELAY = Box(43, 66, 39, 20, "relay", "bytes and datagrams;\nflows under leases that drain", "#dceaf5")
NODE_A = Box(88, 73, 12, 16, "node-a", "active")
NODE_B = Box(88, 52, 12, 16, "node-b", "standby")
BOARD = Box(17, 34, 16, 18, "board", "state,\nrouting table", "#eeeeee")
HUB = Box(43, 34, 19, 18, "hub", "owns the state,\nreduces events", "#eeeeee")
PROBERS = Box(70, 34, 12, 18, "probers", "TCP, UDP,\ntripwires", "#eeeeee")
OPERATOR = Box(0, 4, 11, 15, "operator", "ctl, tools")
SERVER = Box(17, 4, 16, 15, "control port", "JSON or words", "#eeeeee")
WATCHER = Box(43, 4, 19, 15, "watcher", "reads it anew", "#eeeeee")
FILE = Box(88, 4, 12, 15, "file", "TOML")
BOXES = (CLIENTS, LISTENERS, RELAY, NODE_A, NODE_B, BOARD, HUB, PROBERS, OPERATOR, SERVER, WATCHER, FILE)


def draw_architecture() -> "Figure":
    """The whole picture."""
    figure = new_figure(HEIGHT)
    axes = figure.add_subplot()
    axes.set_axis_off()
    axes.set_xlim(-1, 101)
    axes.set_ylim(-1, 103)
    _outline(axes)
    for box in BOXES:
        _box(axes, box)
    _data(axes)
    _control(axes)
    _key(axes)
    return figure


def _data(axes: "Axes") -> None:
    _arrow(axes, CLIENTS.at("right"), LISTENERS.at("left"), is_data=True, both=True)
    _arrow(axes, LISTENERS.at("right"), RELAY.at("left"), is_data=True, both=True)
    _arrow(axes, RELAY.at("right", 0.7), NODE_A.at("left", 0.45), is_data=True, both=True)
    _arrow(axes, RELAY.at("right", 0.25), NODE_B.at("left", 0.7), is_data=True, both=True)


def _control(axes: "Axes") -> None:
    _arrow(axes, HUB.at("left"), BOARD.at("right"))
    _says(axes, 38, 45.5, "publishes")
    _arrow(axes, BOARD.at("top"), LISTENERS.at("bottom"))
    _says(axes, 24, 59, "routes", align="right")
    _arrow(axes, RELAY.at("bottom", 9.5 / 39), HUB.at("top"))
    _says(axes, 53.8, 59, "evidence of live traffic", align="left")
    _arrow(axes, PROBERS.at("left"), HUB.at("right"))
    _says(axes, 66, 45.5, "results")
    _arrow(axes, PROBERS.at("right", 0.6), NODE_B.at("left", 0.2), both=True)
    _says(axes, 92.5, 46, "probes of\nevery node")
    _arrow(axes, OPERATOR.at("right"), SERVER.at("left"), both=True)
    _arrow(axes, BOARD.at("bottom", 0.4), SERVER.at("top", 0.4))
    _says(axes, 22.4, 26.5, "status", align="right")
    _arrow(axes, SERVER.at("top", 0.85), HUB.at("bottom", 0.15))
    _says(axes, 36.5, 28.5, "wishes", align="right")
    _arrow(axes, WATCHER.at("top"), HUB.at("bottom"))
    _says(axes, 53.8, 26.5, "new configuration", align="left")
    _arrow(axes, FILE.at("left"), WATCHER.at("right"))


def _outline(axes: "Axes") -> None:
    from matplotlib.patches import Rectangle

    axes.add_patch(Rectangle((14, 0), 70, 91, fill=False, edgecolor=QUIET, linewidth=0.8, linestyle=(0, (1, 2))))
    axes.text(15, 92.5, "one process", color="#444444", va="bottom")


def _box(axes: "Axes", box: Box) -> None:
    from matplotlib.patches import FancyBboxPatch

    axes.add_patch(
        FancyBboxPatch(
            (box.x, box.y), box.width, box.height, "round,pad=0,rounding_size=1.2", facecolor=box.fill, linewidth=0.9
        )
    )
    across, middle = box.x + box.width / 2, box.y + box.height / 2
    lines = box.text.count("\n") + 1 if box.text else 0
    axes.text(across, middle + 2.4 * lines, box.title, ha="center", va="center", weight="bold", size=SMALLEST + 0.5)
    if lines:
        axes.text(across, middle - 2.6, box.text, ha="center", va="center", linespacing=1.15)


def _arrow(
    axes: "Axes", start: Point, end: Point, *, is_data: bool = False, both: bool = False, backwards: bool = False
) -> None:
    style = "<|-|>" if both else "<|-" if backwards else "-|>"
    line = DATA_LINE if is_data else CONTROL_LINE
    arrow = {"arrowstyle": style, "shrinkA": 1, "shrinkB": 1, "mutation_scale": 9, **line}
    axes.annotate("", xy=end, xytext=start, arrowprops=arrow)


def _says(axes: "Axes", x: float, y: float, words: str, align: str = "center") -> None:
    axes.text(x, y, words, ha=align, va="center", style="italic", linespacing=1.1)


def _key(axes: "Axes") -> None:
    for x, words, is_data in ((44, "data", True), (60, "control and evidence", False)):
        _arrow(axes, (x, 99), (x + 6, 99), is_data=is_data)
        axes.text(x + 7.5, 99, words, va="center")
