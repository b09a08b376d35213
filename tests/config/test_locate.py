import tomllib

from hypothesis import given
from hypothesis import strategies as st

from sniffgate.config.locate import Lines, Path, spelled

TRICKY = '''\
title = """
[[nodes]]
name = "not a key"
\\""" still inside""""
literal = \'\'\'
[global]
x = 1\'\'\''
quoted."a.b".'c"d' = 1   # [[nodes]]
"na\\u006de" = 2

[global] # comment = 1
a = [ # ]
  1, "]", [2,
  3], """
]""",
  { b = 1, c = { d = "}" } },
]
when = 1979-05-27 07:32:00
one = {x.y = 1, z = [
  4]}

[[nodes]]
name = "first"
[nodes.inner]
deep = 1
[[nodes.more]]
n = 1
[[nodes.more]]
n = 2
[[ nodes ]]
\tname = 'second'
[[nodes.more]]
n = 3
'''

WHERE: dict[Path, int] = {
    ("title",): 1,
    ("literal",): 5,
    ("quoted",): 8,
    ("quoted", "a.b", 'c"d'): 8,
    ("name",): 9,
    ("global",): 11,
    ("global", "a"): 12,
    ("global", "a", 0): 13,
    ("global", "a", 2, 1): 14,
    ("global", "a", 3): 14,
    ("global", "a", 4, "b"): 16,
    ("global", "a", 4, "c", "d"): 16,
    ("global", "when"): 18,
    ("global", "one", "x", "y"): 19,
    ("global", "one", "z", 0): 20,
    ("nodes",): 22,
    ("nodes", 0): 22,
    ("nodes", 0, "name"): 23,
    ("nodes", 0, "inner", "deep"): 25,
    ("nodes", 0, "more", 0, "n"): 27,
    ("nodes", 0, "more", 1): 28,
    ("nodes", 0, "more", 1, "n"): 29,
    ("nodes", 1): 30,
    ("nodes", 1, "name"): 31,
    ("nodes", 1, "more", 0, "n"): 33,
}


def test_nothing_that_looks_like_a_key_or_header_misleads() -> None:
    """A fault on the wrong line is worse than one without a line."""
    tomllib.loads(TRICKY)
    lines = Lines(TRICKY)

    assert WHERE == {path: lines.of(path) for path in WHERE}
    assert WHERE == {path: Lines(TRICKY.replace("\n", "\r\n")).of(path) for path in WHERE}


def test_a_key_that_is_missing_is_looked_for_in_its_table() -> None:
    """The line of a missing key is that of the table which lacks it; without one, it is the whole file."""
    lines = Lines("a = 1\n[[nodes]]\nname = 1\n")

    assert 2 == lines.of(("nodes", 0, "tcp"))
    assert 0 == lines.of(("listeners",))


VALUES = st.sampled_from(
    [
        ("1", 0),
        ('"#[[x]]"', 0),
        ("'\\'", 0),
        ('"""\n[[x]]\nk0 = 1\n"""', 3),
        ('"""a""""', 0),
        ("'''\n''\n'''''", 2),
        ("[\n1, # ]\n[2],\n]", 3),
        ("{a = [{b = 1}]}", 0),
        ('"a\\"b\\\\"', 0),
        ("07:32:00.5", 0),
    ]
)
GAPS = st.sampled_from([("", 0), ("\n", 1), ("# [[t]] k = 1\n", 1), ("\n\n  # '''\n", 3)])
TABLE = st.tuples(st.booleans(), st.lists(st.tuples(GAPS, VALUES), max_size=4))


@given(st.lists(TABLE, max_size=5))
def test_every_key_is_on_the_line_it_was_written_on(
    tables: list[tuple[bool, list[tuple[tuple[str, int], ...]]]],
) -> None:
    """Lines are counted while writing and found again while locating."""
    text, line, expected = "", 1, {}
    rows = 0
    for number, (is_row, pairs) in enumerate(tables):
        base: Path = ("row", rows) if is_row else (f"t{number}",)
        rows += is_row
        text += "[[row]]\n" if is_row else f"[t{number}]\n"
        expected[base] = line
        line += 1
        for index, ((gap, gap_lines), (value, value_lines)) in enumerate(pairs):
            text += f"{gap}k{index} = {value}\n"
            expected[(*base, f"k{index}")] = line + gap_lines
            line += gap_lines + value_lines + 1
    tomllib.loads(text)
    lines = Lines(text)

    assert expected == {path: lines.of(path) for path in expected}


@given(st.text(alphabet="[]{}\"'=.,#\\\n ab1", max_size=60))
def test_a_text_that_is_no_toml_never_breaks_the_walk(text: str) -> None:
    """It is also walked to find what tomllib stumbled over."""
    assert 0 <= Lines(text).of(("a",)) <= text.count("\n") + 1


def test_absurd_nesting_and_absurd_keys_end() -> None:
    """Depth costs neither the stack nor quadratic time."""
    assert 1 == Lines("a = " + "[" * 100_000 + "]" * 100_000).of(("a",))
    assert 1 == Lines("a" + ".a" * 100_000 + " = 1").of(("a", "a"))


def test_a_path_is_spelled_as_people_write_it() -> None:
    """Keys that are not bare are quoted."""
    assert "nodes[1].tcp" == spelled(("nodes", 1, "tcp"))
    assert "nodes[0].'a.b'" == spelled(("nodes", 0, "a.b"))
    assert "" == spelled(())
