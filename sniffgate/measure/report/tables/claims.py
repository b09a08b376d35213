"""The lessons, and where the original's documentation and behaviour part: sentences with figures in them."""

import collections
import tomllib
from collections.abc import Mapping
from pathlib import Path

from ..reading import NOTHING
from ..table import Cell, Column, Table, table, words

CLAIMS = Path(__file__).with_name("claims.toml")


def lessons(numbers: Mapping[str, str]) -> Table:
    """Each lesson with the scenario that shows it; a figure that this run does not have is a dash."""
    columns = Column("lesson", 0.22), Column("shown by", 0.12), Column("original", 0.28), Column("here", 0.28)
    return table("lessons", "Six lessons", columns, _rows("lessons", ("claim", "by", "original", "here"), numbers))


def divergences(numbers: Mapping[str, str]) -> Table:
    """What is documented, what the original does, what this gateway does."""
    columns = Column("", 0.14), Column("documented", 0.16), Column("original", 0.33), Column("here", 0.28)
    keys = ("behaviour", "documented", "original", "here")
    title = "What the original's documentation says, what it does, and what this gateway does"
    return table("divergences", title, columns, _rows("divergences", keys, numbers))


def _rows(kind: str, keys: tuple[str, ...], numbers: Mapping[str, str]) -> list[tuple[Cell, ...]]:
    known = collections.defaultdict(lambda: NOTHING, {name.removeprefix("Sg"): text for name, text in numbers.items()})
    entries = tomllib.loads(CLAIMS.read_text(encoding="utf-8"))[kind]
    return [words(*(entry[key].format_map(known) for key in keys)) for entry in entries]
