"""What the paper on the original program reports, from the data file beside this module."""

import functools
import tomllib
from pathlib import Path

import attrs

FILE = Path(__file__).with_name("original.toml")


@attrs.frozen
class Source:
    """Where the figures were published, and what they were measured on."""

    author: str
    title: str
    where: str
    program: str
    host: str
    measured: str

    @property
    def citation(self) -> str:
        """For a list of references."""
        return f"{self.author}, “{self.title}”, {self.where}"


@attrs.frozen
class Original:
    """The paper's figures by name, as they are printed there."""

    source: Source
    figures: dict[str, str]

    def number(self, name: str) -> float:
        """A figure to draw. Errors: `ValueError` where a range is printed."""
        return float(self.figures[name].replace(",", ""))


@functools.cache
def original() -> Original:
    """Reads the file, once."""
    raw = tomllib.loads(FILE.read_text(encoding="utf-8"))
    return Original(Source(**raw["source"]), raw["figures"])
