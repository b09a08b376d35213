"""How every figure looks: readable in grey print, for colour-blind readers, and the same bytes from the same study.

Series differ in lightness, marker and hatch, so that none of the three is needed alone; each is labelled where it is.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from ....errors import SniffgateError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH = 6.3  # inches: the text width of A4 with usual margins, so that a point is a point in print
SMALLEST = 8.0  # points
NEEDED = "figures need matplotlib: install it with `pip install '/path/to/sniffgate[figures]'`, or take --no-figures."
SETTINGS: Any = {  # matplotlib's own type for it lists every setting there is
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same letters on every machine
    "font.size": SMALLEST,
    "axes.titlesize": SMALLEST + 1,
    "axes.labelsize": SMALLEST,
    "xtick.labelsize": SMALLEST,
    "ytick.labelsize": SMALLEST,
    "legend.fontsize": SMALLEST,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "hatch.linewidth": 0.6,
    "lines.linewidth": 1.1,
    "pdf.fonttype": 42,  # outlines, which publishers ask for, instead of type 3
    "svg.fonttype": "path",  # no font is needed where it is looked at
    "svg.hashsalt": "sniffgate",  # otherwise ids are made of dice
    "figure.dpi": 100,
    "savefig.dpi": 200,
}
UNDATED: dict[str, dict[str, None]] = {
    "pdf": {"CreationDate": None},
    "svg": {"Date": None},
    "png": {"Software": None},
}


class NoFigures(SniffgateError):
    """Nothing here can draw. The message says what to install."""


@attrs.frozen
class Series:
    """One kind of value in a figure: a colour of Okabe and Ito's set, a marker for points, a hatch for areas."""

    color: str
    marker: str
    hatch: str


FIRST = Series("#000000", "o", "")  # the lightness (CIE L*) of the four is 0, 46, 70 and 90
SECOND = Series("#0072B2", "^", "////")
THIRD = Series("#E69F00", "D", "....")
FOURTH = Series("#F0E442", "s", "\\\\\\\\")
SERIES = (FIRST, SECOND, THIRD, FOURTH)
QUIET = "#767676"  # grey that is still 4.5 : 1 on white


@contextmanager
def drawing() -> Iterator[None]:
    """Gives the block matplotlib with the settings above, without a display. Errors: `NoFigures`."""
    try:
        import matplotlib
    except ImportError:
        raise NoFigures(NEEDED) from None
    with matplotlib.rc_context(SETTINGS):
        yield


def new_figure(height: float) -> "Figure":
    """An empty one of the full width, `height` inches high. No global state of matplotlib knows it."""
    from matplotlib.figure import Figure

    return Figure(figsize=(WIDTH, height), layout="constrained")


def save(figure: "Figure", folder: Path, name: str) -> list[Path]:
    """Writes it as PDF, SVG and PNG, without a date: the same study gives the same bytes. The paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.{kind}" for kind in UNDATED]
    for path, (kind, metadata) in zip(paths, UNDATED.items(), strict=True):
        figure.savefig(path, format=kind, metadata=metadata)
    return paths
