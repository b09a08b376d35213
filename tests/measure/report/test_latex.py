"""LaTeX: what is plain text stays plain text, whatever is in it."""

import re

from hypothesis import given
from hypothesis import strategies as st

from sniffgate.measure.report.latex import SPECIAL, escape, macros_latex, table_latex, text_latex
from sniffgate.measure.report.table import Cell, Column, Table, words

NAMED = {code: sign for sign, code in SPECIAL.items()}
TOKEN = re.compile(r"\\ensuremath\{\\[a-z]+\}|\\[A-Za-z]+\{\}|\\.|\{\}|\[U\+([0-9A-F]+)\]|.", re.DOTALL)


def read(escaped: str) -> str:
    """The text that TeX shows for what was escaped. Errors: `AssertionError` at a sign that means something to TeX."""
    shown = ""
    for token in TOKEN.finditer(escaped):
        if token[1] is not None:
            shown += chr(int(token[1], 16))
        elif token[0] in NAMED:
            shown += NAMED[token[0]]
        elif token[0] != "{}":
            assert token[0] not in set('\\{}$&#_%^~<>"`'), token[0]
            shown += token[0]
    return shown


@given(st.text())
def test_every_text_comes_out_as_it_went_in(text: str) -> None:
    """A special sign that is not escaped ends the compilation or, worse, changes the text."""
    plain = "".join(" " if sign.isspace() or ord(sign) < 32 or 127 <= ord(sign) < 160 else sign for sign in text)
    if "[U+" in plain:
        return

    assert plain == read(escape(text))


@given(st.text(alphabet="-,'`!?<>"))
def test_no_two_signs_melt_into_one(text: str) -> None:
    """`--only` must not be shown with a dash, nor a doubled comma as a quotation mark."""
    assert not re.search(r"--|,,|''|``|[!?]`", escape(text))


def test_words_in_backticks_are_code_and_may_break() -> None:
    """Keys of the configuration are longer than a column is wide."""
    assert r"set \texttt{drain\_\allowbreak{}ms}" == text_latex("set `drain_ms`")


def test_a_macro_is_defined_for_each_number() -> None:
    """An inline number is typed once, by the build."""
    assert "\\newcommand*{\\SgA}{5\\textendash{}6}\n\\newcommand*{\\SgB}{50\\%}\n" == macros_latex(
        {"SgA": "5–6", "SgB": "50%"}
    )


def test_a_table_has_its_footnotes_below() -> None:
    """A dash without its reason would be taken for nothing at all."""
    shown = table_latex(
        Table("t", "100 %", (Column("what", 0.4), Column("ms")), ((*words("a & b"), Cell("–", "absent: no UDP")),))
    )

    assert r"\caption{100 \%}" in shown
    assert r"a \& b & \textendash{}\textsuperscript{a} \\" in shown
    assert r"\textsuperscript{a} absent: no UDP" in shown
    assert r"\begin{tabular}{@{}>{\raggedright\arraybackslash}p{0.40\linewidth}r@{}}" in shown
