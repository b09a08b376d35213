"""The lessons, and where the original's documentation and behaviour part: sentences with figures in them."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from ..reading import NOTHING
from ..table import Cell, Column, Table, table, words

CLAIMS = Path(__file__).with_name("claims.toml")


def lessons(numbers: Mapping[str, str], *, is_ours: bool) -> Table:
    """Each lesson with the scenario that shows it. `is_ours`: the gateway that was measured is this one."""
    columns = Column("lesson", 0.22), Column("shown by", 0.12), Column("original", 0.28), Column("here", 0.28)
    rows = _rows("lessons", ("claim", "by", "original"), numbers, is_ours=is_ours)
    return table("lessons", "Six lessons", columns, rows)


def divergences(numbers: Mapping[str, str], *, is_ours: bool) -> Table:
    """What is documented, what the original does, what the gateway does that was measured."""
    columns = Column("", 0.14), Column("documented", 0.16), Column("original", 0.33), Column("here", 0.28)
    rows = _rows("divergences", ("behaviour", "documented", "original"), numbers, is_ours=is_ours)
    return table(
        "divergences", "What the original's documentation says, what it does, and what was found here", columns, rows
    )


def _rows(kind: str, keys: tuple[str, ...], numbers: Mapping[str, str], *, is_ours: bool) -> Iterator[tuple[Cell, ...]]:
    known = {name.removeprefix("Sg"): text for name, text in numbers.items()}
    for entry in tomllib.loads(CLAIMS.read_text(encoding="utf-8"))[kind]:
        here = _here(entry["here"], known)
        rule = f" {entry['rule']}" if is_ours and "rule" in entry else ""
        yield *words(*(entry[key].format_map(known) for key in keys)), Cell(here.text + rule, here.note)


def _here(sentence: str, known: Mapping[str, str]) -> Cell:
    """The sentence with its figures. One that lacks a figure says nothing at all."""
    wanted = re.findall(r"\{(\w+)\}", sentence)
    if any(known.get(name, NOTHING) == NOTHING for name in wanted):
        return Cell(NOTHING, "not all of it was measured")
    return Cell(sentence.format_map(known))
