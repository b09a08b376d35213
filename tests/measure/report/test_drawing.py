"""The figures: the same bytes from the same study, readable on paper, in grey, and with other eyes."""

import itertools
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sniffgate.measure.report.facts import Facts
from sniffgate.measure.report.figures import CAPTIONS, drawn
from sniffgate.measure.report.figures.style import NEEDED, SERIES, SMALLEST, drawing, save
from sniffgate.measure.report.original import original
from sniffgate.measure.study.artifact import load_study

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.text import Text

RUN = Path(__file__).parents[3] / "docs" / "measurements"
TOUCHING = 1.0  # pixels that two boxes of text may share


@pytest.fixture(scope="module", params=["full", "empty"])
def figures(request: pytest.FixtureRequest) -> Iterator[dict[str, "Figure"]]:
    """All four, of the committed run and of one in which nothing was measured."""
    study = load_study(RUN)
    if request.param == "empty":
        study.scenarios.clear()
    with drawing():
        yield dict(drawn(Facts(study), original()))


def shown_texts(figure: "Figure") -> list["Text"]:
    """Every text that is to be seen; an axis also has labels beyond its ends, which are not."""
    from matplotlib.text import Text

    axes = [axis for each in figure.axes for axis in (each.xaxis, each.yaxis)]
    ticks = [(axis, tick) for axis in axes for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks())]
    beyond = {
        label
        for axis, tick in ticks
        if not min(axis.get_view_interval()) <= tick.get_loc() <= max(axis.get_view_interval())
        for label in (tick.label1, tick.label2)
    }
    found = [each for each in figure.findobj(Text) if each not in beyond and each.get_visible()]
    return [each for each in found if each.get_text().strip()]


def test_there_are_four_with_a_caption_each(figures: dict[str, "Figure"]) -> None:
    """As in the paper."""
    assert list(CAPTIONS) == list(figures)
    assert ["fig1", "fig2", "fig3", "fig4"] == [name[:4] for name in CAPTIONS]


def test_no_text_is_smaller_than_eight_points(figures: dict[str, "Figure"]) -> None:
    """A figure is as wide as a page's text, so these are points on paper."""
    small = [
        each for figure in figures.values() for each in shown_texts(figure) if float(each.get_fontsize()) < SMALLEST
    ]

    assert 8 <= SMALLEST
    assert [] == [each.get_text() for each in small]


def test_no_two_texts_overlap(figures: dict[str, "Figure"]) -> None:
    """Labels stand beside their marks, and marks are where the values are."""
    for name, figure in figures.items():
        figure.draw_without_rendering()
        boxes = [(each.get_text(), each.get_window_extent().padded(-TOUCHING)) for each in shown_texts(figure)]
        pairs = itertools.combinations(boxes, 2)

        assert [] == [(name, one, other) for (one, a), (other, b) in pairs if a.overlaps(b)]


def test_every_axis_with_values_names_its_unit(figures: dict[str, "Figure"]) -> None:
    """A number without a unit is not one."""
    for name in ("fig2_failover", "fig3_passive", "fig4_overhead"):
        labels = [axes.get_xlabel() for axes in figures[name].axes]

        assert all(re.search(r"\bms\b|µs|MB/s|client", label) for label in labels), (name, labels)


def lightness(color: str) -> float:
    """CIE L* of an sRGB colour: what is left of it in grey."""
    channels = [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in channels]
    luminance = sum(weight * each for weight, each in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
    return float(116 * luminance ** (1 / 3) - 16 if luminance > 0.008856 else 903.3 * luminance)


def test_series_differ_in_grey_in_shape_and_in_hatch() -> None:
    """Whoever prints without colour, or does not see some, has two more ways to tell them apart."""
    shades = sorted(lightness(each.color) for each in SERIES)

    assert all(15 < darker - lighter for lighter, darker in itertools.pairwise(shades))
    assert len(SERIES) == len({each.marker for each in SERIES}) == len({each.hatch for each in SERIES})


def test_the_same_study_gives_the_same_files(tmp_path: Path) -> None:
    """A figure that changes by itself would be a change in every commit."""
    files = []
    for name in ("one", "two"):
        with drawing():
            hatched = dict(drawn(Facts(load_study(RUN)), original()))["fig3_passive"]
            files.append(save(hatched, tmp_path / name, "figure"))

    assert ["figure.pdf", "figure.svg", "figure.png"] == [path.name for path in files[0]]
    assert [] == [one.name for one, two in zip(*files, strict=True) if one.read_bytes() != two.read_bytes()]


def test_without_matplotlib_one_sentence_says_what_to_do(tmp_path: Path) -> None:
    """It is an extra: tables, macros and the page do not need it. Without --no-figures nothing is half written."""
    (tmp_path / "matplotlib.py").write_text("raise ImportError")
    command = [sys.executable, "-m", "sniffgate", "measure", "report", str(RUN), "--out", str(tmp_path / "out")]
    env = {"PYTHONPATH": f"{tmp_path}:{Path(__file__).parents[3]}"}
    without = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    left_behind = list(tmp_path.glob("out/**/*"))
    plain = subprocess.run([*command, "--no-figures"], env=env, capture_output=True, text=True, timeout=60, check=False)

    assert 1 == without.returncode
    assert without.stderr == f"Error: {NEEDED}\n"
    assert "--no-figures" in NEEDED
    assert [] == left_behind
    assert (0, "") == (plain.returncode, plain.stderr)
    assert not (tmp_path / "out" / "figures").exists()


def test_nothing_measured_draws_nothing_as_zero(figures: dict[str, "Figure"]) -> None:
    """A bar of no length, or a mark at nought, would be the best of all."""
    for axes in figures["fig4_overhead"].axes:
        assert [] == [bar for bar in axes.patches if bar.get_width() == 0]  # type: ignore[attr-defined]  # a bar
