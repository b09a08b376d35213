"""Texts, tables and macros as LaTeX, for any engine and nothing but the packages of a small installation. Pure."""

import unicodedata
from collections.abc import Mapping

from .table import Cell, Column, Table, pieces

SPECIAL = {
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    '"': r"\textquotedbl{}",
    "`": r"\textasciigrave{}",
    **{each: f"\\{each}" for each in "{}$&#_%"},
    "–": r"\textendash{}",
    "—": r"\textemdash{}",
    "…": r"\textellipsis{}",
    "µ": r"\textmu{}",
    "×": r"\texttimes{}",
    "÷": r"\textdiv{}",
    "±": r"\textpm{}",
    "·": r"\textperiodcentered{}",
    "°": r"\textdegree{}",
    "−": r"\textminus{}",
    "→": r"\textrightarrow{}",
    "≤": r"\ensuremath{\le}",
    "≥": r"\ensuremath{\ge}",
    "≈": r"\ensuremath{\approx}",
    "∞": r"\ensuremath{\infty}",
    "“": r"\textquotedblleft{}",
    "”": r"\textquotedblright{}",
    "’": r"\textquoteright{}",
}
FIT = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"  # as it is, or down to the line's width
MANY = 6  # columns that fit on a line in small letters
DOUBLED = "-,'!?"  # two of these, or one before a quote, are another sign to TeX: kept apart
LATIN = range(0xC0, 0x180)  # letters that the T1 fonts have, and LaTeX reads as they are


def escape(text: str) -> str:
    """Plain text that TeX shows as it is. What its fonts do not have is shown as its code, never left out."""
    shown = []
    for place, sign in enumerate(text):
        shown.append(_sign(sign))
        if sign in DOUBLED and text[place + 1 : place + 2] in ("-", ",", "'", "`"):
            shown.append("{}")
    return "".join(shown)


def text_latex(text: str) -> str:
    """A text with its code, escaped. Code may break after an underscore, a dot and a slash."""
    return "".join(rf"\texttt{{{_breakable(escape(p))}}}" if is_code else escape(p) for is_code, p in pieces(text))


def table_latex(table: Table) -> str:
    """A table environment with caption and label, and its footnotes below the last line."""
    size = "scriptsize" if len(table.columns) > MANY else "footnotesize"
    lines = [r"\begin{table}[htbp]", rf"\centering\{size}", r"\setlength{\tabcolsep}{4pt}"]
    lines += [rf"\caption{{{text_latex(table.title)}}}", rf"\label{{tab:{table.name}}}"]
    lines += [FIT]
    lines += [rf"\begin{{tabular}}{{@{{}}{''.join(map(_column, table.columns))}@{{}}}}", r"\toprule"]
    lines += [_row([_head(column) for column in table.columns]), r"\midrule"]
    lines += [_row([_cell(table, cell) for cell in row]) for row in table.rows]
    lines += [r"\bottomrule", r"\end{tabular}}"]
    if table.notes:
        notes = r"\\ ".join(rf"\textsuperscript{{{mark}}} {text_latex(note)}" for mark, note in table.marked_notes())
        lines += [r"\par\smallskip", rf"\parbox{{\linewidth}}{{\raggedright\scriptsize {notes}}}"]
    lines.append(r"\end{table}")
    return "".join(f"{line}\n" for line in lines)


def macros_latex(numbers: Mapping[str, str]) -> str:
    """One `\\newcommand` for each number."""
    return "".join(rf"\newcommand*{{\{name}}}{{{text_latex(text)}}}" + "\n" for name, text in numbers.items())


def _sign(sign: str) -> str:
    if sign in SPECIAL:
        return SPECIAL[sign]
    if sign.isspace() or unicodedata.category(sign) == "Cc":
        return " "
    if " " <= sign <= "~" or ord(sign) in LATIN:
        return sign
    return f"[U+{ord(sign):04X}]"


def _breakable(escaped: str) -> str:
    for sign in (r"\_", ".", "/"):
        escaped = escaped.replace(sign, rf"{sign}\allowbreak{{}}")
    return escaped


def _column(column: Column) -> str:
    if column.share is None:
        return "r"
    return rf">{{\raggedright\arraybackslash}}p{{{column.share:.2f}\linewidth}}"


def _head(column: Column) -> str:
    return text_latex(column.title)


def _cell(table: Table, cell: Cell) -> str:
    mark = table.mark(cell)
    return text_latex(cell.text) + (rf"\textsuperscript{{{mark}}}" if mark else "")


def _row(cells: list[str]) -> str:
    return " & ".join(cells) + r" \\"
