"""Figures come from raw values of good trials, and from nothing else."""

from hypothesis import given
from hypothesis import strategies as st

from sniffgate.measure.study.artifact import Observation
from sniffgate.measure.study.summary import Figure, Words, absences, figure, summarize, why_not, words

from .studies import arm, study, trial

numbers = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20)


def test_a_figure_takes_all_good_trials_together() -> None:
    """Median, spread and quartiles, checked by hand."""
    (found,) = summarize(arm(trial(1, switch_ms=[4.0, 1.0]), trial(2, switch_ms=[2.0, 3.0, 10.0]))).values()

    assert isinstance(found, Figure)
    assert (3.0, 1.0, 10.0, 5, 2) == (found.median, found.least, found.most, found.count, found.trials)
    assert (2.0, 4.0) == found.quartiles
    assert (3.0, 10.0, 1.0) == (found.percentile(50), found.percentile(99), found.percentile(1))


def test_no_figure_comes_from_a_failed_trial() -> None:
    """What it had observed before it failed is kept, and never used."""
    found = summarize(arm(trial(1, switch_ms=[5.0]), trial(2, "node-b did not answer", switch_ms=[900.0], extra=[1.0])))

    assert {"switch_ms": Figure("ms", (5.0,), 1)} == found


def test_no_figure_comes_from_an_arm_that_failed() -> None:
    """A gateway that lied in one trial is not believed in another."""
    assert {} == summarize(arm(trial(switch_ms=[5.0]), state="failed", reason="claimed: x; seen: y"))


def test_words_and_verdicts_are_counted() -> None:
    """True is no 1: a share is not a median."""
    found = summarize(arm(trial(1, node=["b", "b"], moved=[True]), trial(2, node=["a"], moved=[True])))

    assert {"node": Words("ms", {"b": 2, "a": 1}, 2), "moved": Words("ms", {True: 2}, 2)} == found
    assert (None, True) == (found["node"].only, found["moved"].only)  # type: ignore[union-attr]  # they are words


def test_a_single_value_is_its_own_spread() -> None:
    """One trial is allowed."""
    assert (7.0, 7.0) == Figure("ms", (7.0,), 1).quartiles


@given(numbers)
def test_a_median_lies_between_its_quartiles_and_these_between_the_ends(values: list[float]) -> None:
    """Whatever was measured."""
    found = Figure("ms", tuple(values), 1)
    lower, upper = found.quartiles

    assert found.least <= lower <= found.median + 1e-9
    assert found.median - 1e-9 <= upper <= found.most + 1e-9
    assert found.most == found.percentile(100)


def test_what_is_absent_in_one_trial_and_seen_in_another_is_not_absent() -> None:
    """Only what no trial has is absent, with its reason."""
    first, second = trial(1), trial(2, ejections=[1])
    first.absent = {"ejections": "its status has no stats", "probes": "its status has no stats"}

    assert {"probes": "its status has no stats"} == absences(arm(first, second))


def test_a_figure_that_is_not_there_says_why() -> None:
    """Absent, failed, not measured and unknown are told apart, and none of them is zero."""
    lacking = trial(1)
    lacking.absent = {"epochs": "its status has no epoch"}
    made = study(
        fine=arm(trial(1, switch_ms=[5.0]), lacking),
        lost=arm(state="absent", reason="it does not forward UDP"),
        broken=arm(trial(switch_ms=[5.0]), state="failed", reason="claimed: x; seen: y"),
    )

    assert None is figure(made, "failover", "lost", "switch_ms")
    assert "it does not forward UDP" == why_not(made, "failover", "lost", "switch_ms")
    assert None is figure(made, "failover", "broken", "switch_ms")
    assert "claimed: x; seen: y" == why_not(made, "failover", "broken", "switch_ms")
    assert "its status has no epoch" == why_not(made, "failover", "fine", "epochs")
    assert "not measured" == why_not(made, "failover", "gone", "switch_ms") == why_not(made, "gray", "x", "y")


def test_figures_and_words_are_asked_for_by_their_kind() -> None:
    """A table that wants a number is not given a word."""
    made = study(fine=arm(trial(switch_ms=[5.0], node=["b"])))

    assert Figure("ms", (5.0,), 1) == figure(made, "failover", "fine", "switch_ms")
    assert None is words(made, "failover", "fine", "switch_ms")
    assert Words("ms", {"b": 1}, 1) == words(made, "failover", "fine", "node")
    assert None is figure(made, "failover", "fine", "node")


def test_units_are_those_of_the_first_trial() -> None:
    """An observation has one unit."""
    one = trial(1)
    one.observations = {"rss": Observation("MB", [37.5])}

    assert "MB" == summarize(arm(one))["rss"].unit
