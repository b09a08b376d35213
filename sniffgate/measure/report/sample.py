"""Values that belong together, and how a number is written: the median with its spread, or why there is none. Pure."""

import statistics
from collections.abc import Iterable, Sequence

import attrs

NOTHING = "–"  # never a zero
WHOLE = 1000  # from here on no digit after the point says anything: the harness's own noise is larger


@attrs.frozen
class Sample:
    """All values of one observation over the good trials of an arm. Without values, `absent` says why."""

    values: tuple[float | str, ...] = ()
    unit: str = ""
    absent: str = ""
    remark: str = ""  # what to know of the values there are: trials that failed

    @property
    def numbers(self) -> tuple[float, ...]:
        """The values that are numbers; true counts as 1."""
        return tuple(float(value) for value in self.values if not isinstance(value, str))

    @property
    def median(self) -> float | None:
        """Of the numbers; None when there are none."""
        return statistics.median(self.numbers) if self.numbers else None

    @property
    def text(self) -> str:
        """The median; words as they are, each once; a dash for nothing."""
        if not self.values:
            return NOTHING
        if any(isinstance(value, str) for value in self.values):
            return ", ".join(dict.fromkeys(str(value) for value in self.values))
        if all(isinstance(value, bool) for value in self.values):
            return yes_or_no(self.values)
        return number(statistics.median(self.numbers))

    @property
    def spread(self) -> str:
        """From the least to the most, where they differ as written; empty otherwise."""
        if not self.numbers or all(isinstance(value, bool) for value in self.values):
            return ""
        least, most = number(min(self.numbers)), number(max(self.numbers))
        return f"{least}–{most}" if least != most else ""

    @property
    def full(self) -> str:
        """The median and, in brackets, the spread."""
        return f"{self.text} ({self.spread})" if self.spread else self.text


def yes_or_no(values: Sequence[object]) -> str:
    """One word for many answers; a count where they differ."""
    true = sum(bool(value) for value in values)
    return "yes" if true == len(values) else "no" if not true else f"{true} of {len(values)}"


def number(value: float) -> str:
    """Three digits or four, so that a table reads well and no digit is noise; whole numbers whole."""
    if value == int(value):
        return grouped(f"{value:.0f}")
    size = abs(value)
    digits = 0 if size >= WHOLE else 1 if size >= 10 else 2 if size >= 1 else 3
    return grouped(f"{value:.{digits}f}")


def grouped(text: str) -> str:
    """Thousands set apart by commas, from five digits on."""
    whole, point, rest = text.partition(".")
    sign, digits = ("-", whole[1:]) if whole.startswith("-") else ("", whole)
    return f"{sign}{int(digits):,}{point}{rest}" if len(digits) > 4 else text


def pooled(samples: Iterable[Sample]) -> Sample:
    """The values of several samples as one; absent only when none has any."""
    every = list(samples)
    values = tuple(value for each in every for value in each.values)
    first = every[0] if every else Sample()
    return attrs.evolve(first, values=values) if values else first
