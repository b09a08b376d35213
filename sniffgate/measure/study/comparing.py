"""Two studies beside each other: every figure of both, their ratio, and what only one of them has. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import attrs

from .artifact import Study
from .shown import show_summary
from .summary import Figure, Summary, summary, why_not

WIDEST = 50  # characters of a cell: two of them and the names go on one line of a terminal
TITLES = ("scenario", "arm", "observation", "A", "B", "B / A")


@attrs.frozen
class Row:
    """One observation in both studies; None where one has no figure of it, `why_*` then says why."""

    scenario: str
    arm: str
    key: str
    a: Summary | None
    b: Summary | None
    why_a: str | None = None
    why_b: str | None = None

    @property
    def ratio(self) -> float | None:
        """B's median over A's; None where either has none, or A's is 0."""
        if isinstance(self.a, Figure) and isinstance(self.b, Figure) and self.a.median and self.a.unit == self.b.unit:
            return self.b.median / self.a.median
        return None


def compare(a: Study, b: Study, only: Sequence[str] = ()) -> list[Row]:
    """A row for each observation that either has, in the order of A, then what only B has; `only` these scenarios."""
    rows = []
    for place in dict.fromkeys([*_places(a), *_places(b)]):
        if only and place[0] not in only:
            continue
        found = summary(a, *place), summary(b, *place)
        reasons = (None if each else why_not(study, *place) for study, each in zip((a, b), found, strict=True))
        rows.append(Row(*place, *found, *reasons))
    return rows


def differences(a: Study, b: Study) -> list[str]:
    """What else differs between the two and may be why their figures do: one sentence each."""
    pairs: tuple[tuple[str, object, object], ...] = (
        ("gateway", (a.gateway, a.versions.get("gateway")), (b.gateway, b.versions.get("gateway"))),
        ("commit", a.commit, b.commit),
        ("machine", a.host, b.host),
        ("kernel", a.kernel, b.kernel),
        ("Python", a.python, b.python),
        ("tuning", a.tuning, b.tuning),
    )
    return [f"{name}: A {_words(old)}, B {_words(new)}" for name, old, new in pairs if old != new]


def cells(row: Row) -> tuple[str, ...]:
    """A row in words."""
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
    return row.scenario, row.arm, row.key, _cell(row.a, row.why_a), _cell(row.b, row.why_b), ratio


def plain_row(row: Row) -> dict[str, Any]:
    """A row ready for JSON."""
    return {
        "scenario": row.scenario,
        "arm": row.arm,
        "observation": row.key,
        "a": _plain(row.a, row.why_a),
        "b": _plain(row.b, row.why_b),
        "ratio": row.ratio,
    }


def _places(study: Study) -> Iterator[tuple[str, str, str]]:
    for name, scenario in study.scenarios.items():
        for arm_name, arm in scenario.arms.items():
            keys: Iterable[str] = (key for trial in arm.trials for key in [*trial.observations, *trial.absent])
            for key in dict.fromkeys(keys):
                yield name, arm_name, key


def _cell(found: Summary | None, why: str | None) -> str:
    return _clipped(show_summary(found)) if found else f"none: {why}"


def _clipped(text: str) -> str:
    """What fits into a column; --json has all of it."""
    return text if len(text) <= WIDEST else f"{text[: WIDEST - 1].rstrip(' ,')}…"


def _plain(found: Summary | None, why: str | None) -> dict[str, Any]:
    if found is None:
        return {"absent": why}
    if isinstance(found, Figure):
        lower, upper = found.quartiles
        spread = {"least": found.least, "lower": lower, "upper": upper, "most": found.most}
        return {"unit": found.unit, "median": found.median, **spread, "values": found.count, "trials": found.trials}
    counts = {str(word): count for word, count in found.counts.items()}
    return {"unit": found.unit, "counts": counts, "values": found.count, "trials": found.trials}


def _words(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {each}" for key, each in value.items())
    if isinstance(value, tuple):
        return f"{value[0]} ({value[1] or 'unknown'})"
    return str(value or "unknown")
