import pytest
from hypothesis import given
from hypothesis import strategies as st

from sniffgate.config.durations import in_milliseconds, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("200ms", 0.2),
        ("1.5s", 1.5),
        ("1m30s", 90.0),
        ("2h", 7200.0),
        ("1d12h", 129600.0),
        ("1m500ms", 60.5),
        ("0s", 0.0),
        ("inf", float("inf")),
    ],
)
def test_a_duration_string_is_parts_with_units(text: str, seconds: float) -> None:
    """People write the unit that they think in."""
    assert seconds == parse_duration(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "80",
        "s",
        "1 s",
        " 1s",
        "1s ",
        "-1s",
        "+1s",
        "1S",
        "1e3s",
        "1s1s",
        "1ms1s",
        ".5s",
        "1.s",
        "1s\n",
        "١s",
        "nan",
    ],
)
def test_anything_else_is_no_duration(text: str) -> None:
    """A guess at what was meant would be a timeout that nobody chose."""
    with pytest.raises(ValueError, match=r"^$"):
        parse_duration(text)


@given(st.integers(0, 10**9))
def test_a_string_of_milliseconds_is_the_same_number_as_the_plain_one(milliseconds: int) -> None:
    """Otherwise a file rewritten in the other form would count as changed."""
    assert milliseconds / 1000 == parse_duration(f"{milliseconds}ms")
    assert milliseconds == in_milliseconds(milliseconds / 1000)
