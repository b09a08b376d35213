"""What `sniffgate simulate` has found, in words and as JSON."""

from collections.abc import Iterator
from typing import Any

import attrs

from ..config.schema import Config
from ..simulation.broken import RULES, Broken
from ..simulation.chance import history_from
from ..simulation.findings import Told
from ..simulation.history import History
from ..simulation.notation import history_to_json
from ..simulation.reach import recovery_time
from ..testing.timeline import Line


@attrs.define
class Report:
    """What was asked for, and what came of it. `given` is the history that was played alone; None for many seeds."""

    file: str
    config: Config
    seconds: float
    wanted: int
    jobs: int
    given: History | None = None
    played: int = 0
    took: float = 0.0
    failed: dict[int, Broken] = attrs.field(factory=dict)
    told: list[Told] = attrs.field(factory=list)
    timeline: tuple[Line, ...] = ()  # of the given history
    interrupted: bool = False
    saved: str = ""

    def history_of(self, seed: int) -> History:
        """What was played for a seed."""
        return self.given if self.given is not None else history_from(self.config, seed, self.seconds)

    def first_of_each_rule(self) -> list[int]:
        """The lowest seed of each rule that was broken."""
        seeds: dict[str, int] = {}
        for seed in sorted(self.failed):
            seeds.setdefault(self.failed[seed].rule, seed)
        return list(seeds.values())


# --- in words ----------------------------------------------------------------------------------------


def heading(report: Report) -> Iterator[str]:
    """What is going to be played."""
    listeners, nodes = _counted(len(report.config.listeners), "listener"), _counted(len(report.config.nodes), "node")
    how_many = _counted(report.wanted, "history", "histories")
    processes = _counted(report.jobs, "process", "processes")
    yield f"{report.file}: {listeners}, {nodes}; {how_many} of {report.seconds:g} s, {processes}"
    times = ", ".join(_countable(report.config))
    yield f"a client must be served once a node has been reachable for: {times}"


def _countable(config: Config) -> Iterator[str]:
    for node in config.nodes:
        yield (
            f"{node.name} {recovery_time(config, node):.1f} s"
            if node.is_probed
            else f"{node.name} (if it never failed)"
        )


def finding(seed: int, broken: Broken) -> str:
    """One seed that failed."""
    return f"seed {seed} fails at {broken.at:.3f}: {broken.rule}: {broken.text}"


def progress(report: Report) -> str:
    """How far it is."""
    return (
        f"{report.played} of {report.wanted}, {len(report.failed)} failed, {report.played / report.took:.1f} a second"
    )


def summary(report: Report) -> Iterator[str]:
    """All that is to be said in the end."""
    if report.given is not None and not report.told:
        yield from _happened(report.timeline)
    for told in report.told:
        yield ""
        yield from _told(report, told)
    more = len(report.failed) - len(report.told)
    if report.failed and more > 0:
        yield ""
        yield f"{_counted(more, 'more history fails', 'more histories fail')}; --seed N tells of one"
    yield ""
    if report.saved:
        yield f"saved in {report.saved}: sniffgate simulate -c {report.file} --history {report.saved}"
    if report.interrupted:
        yield f"interrupted after {report.played} of {report.wanted}"
    rate = f", {60 * report.played / report.took:.0f} a minute" if report.given is None and report.played else ""
    outcome = f"{len(report.failed)} failed" if report.failed else "every rule held"
    histories = _counted(report.played, "history", "histories")
    yield f"{histories} of {report.seconds:g} s in {report.took:.1f} s{rate}: {outcome}"


def _told(report: Report, told: Told) -> Iterator[str]:
    history = told.history
    left = f"{_counted(told.steps, 'step')}, shrunk to {len(history.steps)} by {_counted(told.plays, 'play')}"
    yield f"seed {history.seed}: {left if told.plays else _counted(told.steps, 'step')}"
    yield f"  broken: {RULES[told.broken.rule]}"
    yield f"  latency {history.latency * 1000:g} ms; steps:"
    for step in history.steps:
        yield f"  {step.at:9.3f}  {step}"
    yield from _happened(told.timeline)
    if report.given is None:
        length = "" if report.seconds == 60 else f" --seconds {report.seconds:g}"
        yield f"  the whole of it: sniffgate simulate -c {report.file} --seed {history.seed}{length}"


def _happened(timeline: tuple[Line, ...]) -> Iterator[str]:
    yield "  what happened (seconds since the gateway's start):"
    for at, what in timeline:
        yield f"  {at:9.3f}  {what}"


def _counted(count: int, one: str, many: str = "") -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"


# --- as JSON -----------------------------------------------------------------------------------------


def as_object(report: Report) -> dict[str, Any]:
    """The same for programs."""
    return {
        "config": report.file,
        "seconds": report.seconds,
        "wanted": report.wanted,
        "played": report.played,
        "jobs": report.jobs,
        "took_s": round(report.took, 3),
        "per_minute": round(60 * report.played / report.took, 1) if report.took else None,
        "interrupted": report.interrupted,
        "failed": [{"seed": seed, **attrs.asdict(broken)} for seed, broken in sorted(report.failed.items())],
        "told": [
            {
                "seed": told.history.seed,
                **attrs.asdict(told.broken),
                "steps": told.steps,
                "plays": told.plays,
                "history": history_to_json(told.history),
                "timeline": [list(line) for line in told.timeline],
            }
            for told in report.told
        ],
        "timeline": [list(line) for line in report.timeline],
    }
