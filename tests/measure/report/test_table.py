"""Tables: one description, shown as Markdown and as HTML, with absent figures named."""

import pytest

from sniffgate.measure.report.markdown import markdown
from sniffgate.measure.report.markup import table_html
from sniffgate.measure.report.reading import Reading, grouped, number, pooled, ratio
from sniffgate.measure.report.table import Cell, Column, Table, figure, letter, pieces, words
from sniffgate.measure.study.summary import Figure, Words


def ms(*values: float) -> Reading:
    """Milliseconds that were seen."""
    return Reading(Figure("ms", values, len(values)))


def example() -> Table:
    """Two rows: one with everything, one without a figure."""
    return Table(
        "t",
        "Failover <of a node>",
        (Column("`key_ms` | what", 0.5), Column("ms")),
        (
            (*words("a*b"), figure(ms(3.0, 1.0, 2.5))),
            (*words("c"), figure(Reading(absent="absent: no [UDP]"))),
        ),
    )


def test_markdown_has_caption_rows_and_reasons() -> None:
    """It is read on a page and in a terminal alike."""
    assert markdown(example()) == (
        "**Failover \\<of a node\\>**\n"
        "\n"
        "| `key_ms` \\| what | ms |\n"
        "| --- | ---: |\n"
        "| a\\*b | 2.50 (1–3) |\n"
        "| c | –<sup>a</sup> |\n"
        "\n"
        "<sup>a</sup> absent: no \\[UDP\\]  \n"
    )


def test_html_says_the_same() -> None:
    """Escaped, numbers to the right, reasons in the foot."""
    shown = table_html(example())

    assert "<caption>Failover &lt;of a node&gt;</caption>" in shown
    assert '<th scope="col"><code>key_ms</code> | what</th><th scope="col" class="number">ms</th>' in shown
    assert '<td>c</td><td class="number">–<sup>a</sup></td>' in shown
    assert "<sup>a</sup> absent: no [UDP]" in shown


def test_one_reason_is_one_footnote() -> None:
    """A scenario that is absent as a whole has many cells and one reason."""
    twice = Table("t", "", (Column("a"), Column("b"), Column("c")), ((Cell("–", "x"), Cell("–", "y"), Cell("–", "x")),))

    assert twice.marked_notes() == [("a", "x"), ("b", "y")]
    assert [twice.mark(cell) for cell in twice.rows[0]] == ["a", "b", "a"]


def test_footnotes_go_beyond_z() -> None:
    """A study of a gateway that lacks everything has many reasons."""
    assert [letter(place) for place in (0, 25, 26, 27, 52)] == ["a", "z", "aa", "ab", "ba"]


def test_backticks_make_code() -> None:
    """One without its partner is a sign like any other."""
    assert list(pieces("a `b` `c")) == [(False, "a "), (True, "b"), (False, " `c")]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (0.0314, "0.031"),
        (2.456, "2.46"),
        (27.93, "27.9"),
        (259.69, "259.7"),
        (1003.2, "1003"),
        (100.0, "100"),
        (-12345.6, "-12,346"),
        (9999.7, "10,000"),
    ],
)
def test_a_number_has_three_or_four_digits(value: float, text: str) -> None:
    """More of them are noise, and fewer hide a difference."""
    assert text == number(value)


def test_nothing_is_never_zero() -> None:
    """An absent figure that reads 0 would be the best of all."""
    assert Reading(absent="why").full == "–"
    assert Reading(absent="why").median is None
    assert figure(Reading(absent="why")) == Cell("–", "why")


@pytest.mark.parametrize(
    ("seen", "text"),
    [
        (Figure("ms", (1.0, 2.0, 6.0), 3), "2 (1–6)"),
        (Figure("ms", (2.0, 2.0), 2), "2"),
        (Words("yes", {True: 2}, 2), "yes"),
        (Words("yes", {False: 1}, 1), "no"),
        (Words("yes", {False: 1, True: 2}, 3), "2 of 3"),
        (Words("word", {"refused": 2, "open": 1}, 3), "refused, open"),
    ],
)
def test_a_reading_shows_its_middle_and_its_ends(seen: Figure | Words, text: str) -> None:
    """A median alone does not say how far to trust it."""
    assert text == Reading(seen).full


def test_readings_are_pooled_over_what_there_is() -> None:
    """Arms that were not measured take nothing away from those that were."""
    assert (1.0, 2.0) == pooled([Reading(absent="x"), ms(1.0), ms(2.0)]).numbers
    assert "x" == pooled([Reading(absent="x"), Reading(absent="y")]).absent


def test_a_ratio_needs_both_sides() -> None:
    """Half of one is no figure, and neither is anything divided by nothing."""
    assert 1.5 == ratio(ms(3.0), ms(1.0, 2.0, 9.0)).median
    assert "no UDP" == ratio(ms(3.0), Reading(absent="no UDP")).absent
    assert "the other is zero" == ratio(ms(3.0), ms(0.0)).absent


def test_thousands_are_set_apart_from_five_digits_on() -> None:
    """As a reader writes them."""
    assert [grouped("1003"), grouped("-10000.5")] == ["1003", "-10,000.5"]
