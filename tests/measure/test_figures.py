"""From raw values to medians, ratios and verdicts."""

import pytest

from sniffgate.measure.figures import FIGURES, Aim, Figure, Verdict, judge, median, ratio, worst
from sniffgate.measure.overhead import Outcome
from sniffgate.measure.trials import Settings

RTT = next(figure for figure in FIGURES if figure.key == "rtt_us")
BULK = next(figure for figure in FIGURES if figure.key == "bulk_mb_s")


def test_the_median_is_of_the_rounds_that_gave_a_value() -> None:
    """A round that failed must neither count as nothing nor hide the others."""
    assert median([10.0, None, 30.0, 12.0]) == 12.0


def test_nothing_measured_is_no_figure() -> None:
    """A made-up zero would be the best round trip of all."""
    assert median([None, None]) is None
    assert worst(RTT, [None]) is None


def test_the_worst_is_on_the_side_that_hurts() -> None:
    """The longest round trip, and the lowest throughput."""
    assert worst(RTT, [1.0, None, 3.0]) == 3.0
    assert worst(BULK, [1.0, None, 3.0]) == 1.0


def test_a_ratio_is_that_of_the_medians() -> None:
    """Ratios of single rounds would weigh the luck of two processes twice."""
    raw = {"rtt_us": {"sniffgate": [90.0, 80.0, 400.0], "haproxy": [60.0, 50.0, 70.0]}}

    assert ratio(raw, "rtt_us", "haproxy") == 1.5


@pytest.mark.parametrize("values", [{}, {"haproxy": [None]}, {"haproxy": [0.0]}])
def test_without_a_peers_figure_there_is_no_ratio(values: dict[str, list[float | None]]) -> None:
    """An absent peer, a peer that failed, and one whose figure says nothing."""
    assert ratio({"rtt_us": {"sniffgate": [90.0], **values}}, "rtt_us", "haproxy") is None


@pytest.mark.parametrize(
    ("figure", "reached", "is_met"),
    [
        (RTT, 1.15, True),
        (RTT, 1.16, False),
        (BULK, 1.3, True),
        (BULK, 1.29, False),
        (RTT, None, None),
    ],
)
def test_an_aim_is_met_on_its_bound_and_beyond(figure: Figure, reached: float | None, is_met: bool | None) -> None:
    """A round trip should be at most, a throughput at least; what was not measured is neither met nor missed."""
    assert is_met == Verdict(figure, figure.aims[0], reached).is_met


def test_an_aim_without_a_peer_is_about_the_value() -> None:
    """Memory has a bound of its own, whatever others need."""
    assert judge({"idle_kib": {"sniffgate": [5.0, 7.0, 5.5]}}) == [
        Verdict(next(figure for figure in FIGURES if figure.key == "idle_kib"), Aim(6), 5.5)
    ]


def test_what_was_not_measured_has_no_verdict() -> None:
    """`--only` must not fill the table with misses."""
    assert judge({"rtt_us": {"direct": [50.0]}}) == []


def test_a_failed_round_leaves_a_gap_where_it_was() -> None:
    """Values of one round stand at one place for all targets, so that rounds can be compared."""
    outcome = Outcome(Settings(rounds=3), {}, {})
    outcome.record("rtt_us", "sniffgate", 1, 80.0)
    outcome.record("rtt_us", "direct", 0, 50.0)
    outcome.pad(3)

    assert outcome.raw == {"rtt_us": {"sniffgate": [None, 80.0, None], "direct": [50.0, None, None]}}
