"""A table as HTML. Pure."""

import html

from .table import Cell, Table, pieces


def table_html(table: Table) -> str:
    """A `table` element with caption, header row, body and, in its foot, the footnotes."""
    head = "".join(
        f'<th scope="col"{_side(place, table)}>{text_html(c.title)}</th>' for place, c in enumerate(table.columns)
    )
    lines = [f'<table id="table-{html.escape(table.name)}">', f"<caption>{text_html(table.title)}</caption>"]
    lines += [f"<thead><tr>{head}</tr></thead>", "<tbody>"]
    for row in table.rows:
        cells = "".join(f"<td{_side(place, table)}>{_cell(table, cell)}</td>" for place, cell in enumerate(row))
        lines.append(f"<tr>{cells}</tr>")
    lines.append("</tbody>")
    if table.notes:
        notes = "<br>".join(f"<sup>{mark}</sup> {text_html(note)}" for mark, note in table.marked_notes())
        lines.append(f'<tfoot><tr><td colspan="{len(table.columns)}">{notes}</td></tr></tfoot>')
    lines.append("</table>")
    return "".join(f"{line}\n" for line in lines)


def text_html(text: str) -> str:
    """A text with its code, escaped."""
    return "".join(
        f"<code>{html.escape(piece)}</code>" if is_code else html.escape(piece) for is_code, piece in pieces(text)
    )


def _side(place: int, table: Table) -> str:
    return ' class="number"' if table.columns[place].is_number else ""


def _cell(table: Table, cell: Cell) -> str:
    mark = table.mark(cell)
    return f"{text_html(cell.text)}<sup>{mark}</sup>" if mark else text_html(cell.text)
