"""A small LaTeX document with every table, every figure and every macro: to be compiled, or to be copied from. Pure."""

from collections.abc import Iterable, Iterator, Sequence

from .latex import escape

PREAMBLE = r"""\documentclass[a4paper]{article}
\usepackage[utf8]{inputenc}
\usepackage[T1]{fontenc}
\usepackage{textcomp}
\IfFileExists{lmodern.sty}{\usepackage{lmodern}}{}
\usepackage[margin=20mm]{geometry}
\usepackage{array,graphicx,longtable}
\IfFileExists{booktabs.sty}{\usepackage{booktabs}}{\let\toprule\hline\let\midrule\hline\let\bottomrule\hline}
\input{numbers}
"""


def document(
    title: str, note: str, tables: Iterable[str], figures: Iterable[tuple[str, str]], names: Iterable[str]
) -> str:
    """`main.tex`: `figures` are pairs of file name and caption, `names` are the macros that `numbers.tex` defines."""
    lines = [rf"\title{{{escape(title)}}}", r"\author{}", r"\date{}", r"\begin{document}", r"\maketitle"]
    lines += [rf"\noindent {escape(note)}", ""]
    lines += [line for name, caption in figures for line in _figure(name, caption)]
    lines += [rf"\input{{tables/{name}}}" for name in tables]
    lines += [r"\clearpage", r"\section*{Inline numbers}", r"\scriptsize"]
    lines += [r"\begin{longtable}{@{}l>{\raggedright}p{0.24\linewidth}>{\raggedright}p{0.16\linewidth}l@{}}"]
    lines += [r"macro & its text & \texttt{\ldots Spread} & \texttt{\ldots Count} \\", r"\midrule\endhead"]
    lines += _listed(list(names))
    lines += [r"\end{longtable}", r"\end{document}"]
    return PREAMBLE + "".join(f"{line}\n" for line in lines)


def _listed(names: Sequence[str]) -> Iterator[str]:
    """A line for each macro, with those for its spread and count beside it."""
    known = set(names)
    beside = {f"{name}{more}" for name in names for more in ("Spread", "Count") if f"{name}{more}" in known}
    for name in names:
        if name not in beside:
            more = [rf"\{name}{each}" if f"{name}{each}" in known else "" for each in ("Spread", "Count")]
            yield rf"\texttt{{\textbackslash {name}}} & \{name} & {more[0]} & {more[1]} \\"


def _figure(name: str, caption: str) -> list[str]:
    path = f"figures/{name}.pdf"
    return [
        r"\begin{figure}[htbp]",
        r"\centering",
        rf"\IfFileExists{{{path}}}{{\includegraphics[width=\linewidth]{{{path}}}}}{{(not drawn)}}",
        rf"\caption{{{escape(caption)}}}",
        rf"\label{{fig:{name}}}",
        r"\end{figure}",
    ]
