"""Two studies beside each other."""

import attrs

from sniffgate.measure.study.artifact import Value
from sniffgate.measure.study.comparing import cells, compare, differences, plain_row
from sniffgate.measure.study.summary import Figure

from .studies import arm, study, trial


def test_figures_of_both_have_a_ratio_of_medians() -> None:
    """B over A, with the spread of each."""
    (row,) = compare(
        study(quiet=arm(trial(switch_ms=[100.0, 200.0, 300.0]))), study(quiet=arm(trial(switch_ms=[50.0])))
    )

    assert 0.25 == row.ratio
    assert ("failover", "quiet", "switch_ms", "200 ms (100–300, 3 values)", "50 ms", "0.25") == cells(row)
    assert {
        "scenario": "failover",
        "arm": "quiet",
        "observation": "switch_ms",
        "a": {
            "unit": "ms", "median": 200.0, "least": 100.0, "lower": 150.0, "upper": 250.0, "most": 300.0, "values": 3,
            "trials": 1,
        },
        "b": {
            "unit": "ms", "median": 50.0, "least": 50.0, "lower": 50.0, "upper": 50.0, "most": 50.0, "values": 1,
            "trials": 1,
        },
        "ratio": 0.25,
    } == plain_row(row)  # fmt: skip


def test_what_one_of_them_lacks_is_named_with_the_reason() -> None:
    """Neither zero nor left out, on either side."""
    lacking = trial(1)
    lacking.absent = {"epochs": "its status has no epoch"}
    ours = study(quiet=arm(trial(epochs=[2])), udp=arm(trial(lost=[0])))
    theirs = study(quiet=arm(lacking), udp=arm(state="absent", reason="it does not forward UDP"))

    rows = compare(ours, theirs)

    assert ["none: its status has no epoch", "none: it does not forward UDP"] == [cells(row)[4] for row in rows]
    assert [{"absent": "its status has no epoch"}, {"absent": "it does not forward UDP"}] == [
        plain_row(row)["b"] for row in rows
    ]
    assert [None, None] == [row.ratio for row in rows]
    assert [cells(row)[3] for row in rows] == [cells(row)[4] for row in compare(theirs, ours)]


def test_a_ratio_needs_two_figures_and_something_to_divide_by() -> None:
    """Nothing lost on one side is no infinite ratio on the other; words have none."""
    (lost,) = compare(study(udp=arm(trial(lost=[0]))), study(udp=arm(trial(lost=[100]))))
    (node,) = compare(study(udp=arm(trial(node=["a"]))), study(udp=arm(trial(node=["b"]))))

    assert isinstance(lost.a, Figure)
    assert [None, None] == [lost.ratio, node.ratio]
    assert {"unit": "ms", "counts": {"a": 1}, "values": 1, "trials": 1} == plain_row(node)["a"]


def test_what_only_one_of_them_has_is_a_row_too() -> None:
    """In the order of A, then what is B's."""
    rows = compare(study(quiet=arm(trial(b_ms=[1.0], a_ms=[1.0]))), study(quiet=arm(trial(c_ms=[1.0], a_ms=[2.0]))))

    assert ["b_ms", "a_ms", "c_ms"] == [row.key for row in rows]
    assert [] == compare(study(quiet=arm(trial(a_ms=[1.0]))), study(), only=["drain"])


def test_what_else_differs_is_said() -> None:
    """A ratio between two machines is no ratio between two gateways."""
    mine = study()
    theirs = attrs.evolve(mine, gateway="other {config}", versions={"gateway": "other 2"}, commit=None, kernel="5.10")

    assert [
        "gateway: A python -m sniffgate run -c {config} (unknown), B other {config} (other 2)",
        "commit: A 0123456789ab, B unknown",
        "kernel: A 6.18, B 5.10",
    ] == differences(mine, theirs)
    assert [] == differences(mine, study())


def test_many_words_are_told_shortly() -> None:
    """One observation of many words would make every line of the table as wide as itself."""
    words: list[Value] = [f"word number {number}: refused" for number in range(1, 6)]
    both = study(quiet=arm(trial(replies=words)))
    (row,) = compare(both, both)

    assert "word number 1: refused, word number 2: refused, w…" == cells(row)[3] == cells(row)[4]
    assert 5 == len(plain_row(row)["a"]["counts"])
