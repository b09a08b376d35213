"""What was measured, as a table for people and as JSON with everything in it."""

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from .figures import FIGURES, Figure, Verdict, judge, median, ratio, worst
from .overhead import Outcome
from .targets import DIRECT, SNIFFGATE

SCHEMA = 1
NOTHING = "–"


def table(outcome: Outcome) -> tuple[list[str], list[list[str]]]:
    """Titles and rows: medians, ratios of sniffgate to each peer, and the aims with what was reached."""
    peers = [name for name in outcome.targets if name not in (DIRECT, SNIFFGATE)]
    titles = ["", "unit", *outcome.targets, *[f"/ {peer}" for peer in peers], "aim", "reached"]
    verdicts = judge(outcome.raw)
    rows = []
    for figure in FIGURES:
        values = outcome.raw.get(figure.key)
        if values is None:
            continue
        own = [verdict for verdict in verdicts if verdict.figure is figure]
        rows.append(
            [
                figure.title,
                figure.unit,
                *[_number(median(values.get(name, ())), figure.digits) for name in outcome.targets],
                *[_number(ratio(outcome.raw, figure.key, peer), 2) for peer in peers],
                ", ".join(_aim(figure, verdict) for verdict in own),
                ", ".join(_reached(verdict) for verdict in own),
            ]
        )
    return titles, rows


def plain(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table with aligned columns and its end of line."""
    widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
    last_word = len(titles) - 2  # the first two and the last two columns are words
    lines = [
        "  ".join(
            f"{cell:>{width}}" if 1 < place < last_word else f"{cell:<{width}}"
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (titles, *rows)
    ]
    return "".join(f"{line}\n" for line in lines)


def markdown(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The table for a page of documentation."""
    rule = ["---", "---", *["---:" for _ in titles[4:]], "---", "---"]
    return "".join(f"| {' | '.join(row)} |\n" for row in (titles, rule, *rows))


def remarks(outcome: Outcome) -> list[str]:
    """Sentences that belong under the table: who is absent, what gave no figure, what was left out."""
    said = [f"{name} is absent: {reason}" for name, reason in outcome.absent.items()]
    said += [
        f"no figure from round {each.round}, {each.target}, {each.measurement}: {each.reason}"
        for each in outcome.troubles
    ]
    if outcome.is_cut_short:
        said.append(f"stopped in round {outcome.rounds_begun} of {outcome.settings.rounds}, at the time limit")
    return said


def artifact(outcome: Outcome, host: Mapping[str, object], load_before: float, load_after: float) -> dict[str, Any]:
    """Everything, ready for JSON. `ratios` are sniffgate's to each peer; `worst` is the worst round of each target."""
    peers = [name for name in outcome.targets if name not in (DIRECT, SNIFFGATE)]
    return {
        "schema": SCHEMA,
        "measured": "overhead",
        "host": dict(host),
        "load_average": {"before": load_before, "after": load_after},
        "settings": attrs.asdict(outcome.settings),
        "rounds_begun": outcome.rounds_begun,
        "is_cut_short": outcome.is_cut_short,
        "targets": outcome.targets,
        "versions": outcome.versions,
        "absent": outcome.absent,
        "figures": {
            figure.key: {
                "title": figure.title,
                "unit": figure.unit,
                "more_is_better": figure.more_is_better,
                "values": values,
                "medians": {name: median(each) for name, each in values.items()},
                "worst": {name: worst(figure, each) for name, each in values.items()},
                "ratios": {peer: ratio(outcome.raw, figure.key, peer) for peer in peers},
            }
            for figure in FIGURES
            if (values := outcome.raw.get(figure.key)) is not None
        },
        "aims": [
            {
                "figure": each.figure.key,
                "peer": each.aim.peer,
                "bound": each.aim.bound,
                "reached": each.reached,
                "is_met": each.is_met,
            }
            for each in judge(outcome.raw)
        ],
        "troubles": [attrs.asdict(each) for each in outcome.troubles],
    }


def _number(value: float | None, digits: int) -> str:
    return NOTHING if value is None else f"{value:.{digits}f}"


def _aim(figure: Figure, verdict: Verdict) -> str:
    sign = "≥" if figure.more_is_better else "≤"
    bound = f"{sign} {verdict.aim.bound:g}"
    return f"{bound} × {verdict.aim.peer}" if verdict.aim.peer else f"{bound} {figure.unit}"


def _reached(verdict: Verdict) -> str:
    return "not measured" if verdict.is_met is None else "yes" if verdict.is_met else "NO"
