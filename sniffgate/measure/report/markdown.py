"""A table as Markdown, for a page of the manual and for GitHub. Pure."""

import re

from .table import Cell, Table, pieces

SPECIAL = re.compile(r"([\\*_\[\]<>|~#&$])")


def markdown(table: Table) -> str:
    """The caption in bold, the table, and its footnotes."""
    lines = [f"**{text_markdown(table.title)}**", ""]
    lines += [_row([text_markdown(column.title) for column in table.columns])]
    lines += [_row(["---:" if column.is_number else "---" for column in table.columns])]
    lines += [_row([_cell(table, cell) for cell in row]) for row in table.rows]
    if table.notes:
        lines += ["", *(f"<sup>{mark}</sup> {text_markdown(note)}  " for mark, note in table.marked_notes())]
    return "".join(f"{line}\n" for line in lines)


def _cell(table: Table, cell: Cell) -> str:
    mark = table.mark(cell)
    return f"{text_markdown(cell.text)}<sup>{mark}</sup>" if mark else text_markdown(cell.text)


def text_markdown(text: str) -> str:
    """A text with its code, on one line, escaped."""
    flat = " ".join(text.split())
    return "".join(f"`{_bars(piece)}`" if is_code else SPECIAL.sub(r"\\\1", piece) for is_code, piece in pieces(flat))


def _bars(code: str) -> str:
    return code.replace("|", "\\|")  # ends a cell, in code as well


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
