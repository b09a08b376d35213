"""One observation as it is written: the median with its spread, words, or why there is nothing. Pure."""

from collections.abc import Iterable

import attrs

from ..study.summary import Figure, Summary, Words

NOTHING = "–"  # never a zero
FEW = 20  # of so many values each says something about how reproducible the median is
WHOLE = 1000  # from here on no digit after the point says anything: the harness's own noise is larger


@attrs.frozen
class Reading:
    """What was seen over the good trials of an arm; without it, `absent` says why. `remark`: trials that failed."""

    seen: Summary | None = None
    absent: str = ""
    remark: str = ""

    @property
    def median(self) -> float | None:
        """Of the numbers; None when there are none."""
        return self.seen.median if isinstance(self.seen, Figure) else None

    @property
    def numbers(self) -> tuple[float, ...]:
        """The raw values, in the order in which they were seen."""
        return self.seen.values if isinstance(self.seen, Figure) else ()

    @property
    def text(self) -> str:
        """The median; words as they are, each once; a dash for nothing."""
        match self.seen:
            case Figure():
                return number(self.seen.median)
            case Words():
                return _words(self.seen)
            case None:
                return NOTHING

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the most; of more than `FEW` values what 5 % and what 95 % of them do not exceed."""
        assert isinstance(self.seen, Figure)
        if self.seen.count > FEW:
            return self.seen.percentile(5), self.seen.percentile(95)
        return self.seen.least, self.seen.most

    @property
    def spread(self) -> str:
        """From one end to the other, where they differ as written; empty otherwise."""
        if not isinstance(self.seen, Figure):
            return ""
        least, most = map(number, self.ends)
        return f"{least}–{most}" if least != most else ""

    @property
    def full(self) -> str:
        """The median and, in brackets, the spread."""
        return f"{self.text} ({self.spread})" if self.spread else self.text

    @property
    def count(self) -> str:
        """How many values."""
        return NOTHING if self.seen is None else str(self.seen.count)


def _words(seen: Words) -> str:
    if not all(isinstance(value, bool) for value in seen.counts):
        return ", ".join(str(value) for value in seen.counts)
    if seen.only is not None:
        return "yes" if seen.only else "no"
    return f"{seen.counts[True]} of {seen.count}"


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


def pooled(readings: Iterable[Reading]) -> Reading:
    """The numbers of several readings as one; absent only when none has any, for the first one's reason."""
    every = list(readings)
    figures = [each.seen for each in every if isinstance(each.seen, Figure)]
    if not figures:
        return every[0]
    values = tuple(value for each in figures for value in each.values)
    return Reading(Figure(figures[0].unit, values, sum(each.trials for each in figures)))


def ratio(ours: Reading, other: Reading) -> Reading:
    """The quotient of the medians; absent when either is, or when the other is zero."""
    above, below = ours.median, other.median
    if above is None or not below:
        return Reading(absent=ours.absent or other.absent or "the other is zero")
    return Reading(Figure("×", (above / below,), 1))
