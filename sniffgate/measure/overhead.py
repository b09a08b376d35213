"""The overhead of the gateway: interleaved rounds of every measurement on every target, on one and the same machine."""

import contextlib
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

import attrs

from .processes import Child, RoundFailed
from .targets import DIRECT, HAProxy, Kind, Nginx, Sniffgate, Target, open_nodes, start
from .trials import GROUPS, TRIALS, Lab, Settings


@attrs.frozen
class Trouble:
    """A round of a measurement that gave no figure."""

    round: int
    target: str
    measurement: str
    reason: str


@attrs.define
class Outcome:
    """Everything that was measured: `raw` is figure → target → one value per round, None where it failed."""

    settings: Settings
    versions: dict[str, str | None]
    absent: dict[str, str]
    targets: list[str] = attrs.field(factory=list)
    raw: dict[str, dict[str, list[float | None]]] = attrs.field(factory=dict)
    troubles: list[Trouble] = attrs.field(factory=list)
    is_cut_short: bool = False
    rounds_begun: int = 0

    def record(self, key: str, target: str, lap: int, value: float) -> None:
        """Notes a value of round `lap`, counted from 0; rounds before it that gave none stay empty."""
        row = self.raw.setdefault(key, {}).setdefault(target, [])
        row += [None] * (lap - len(row)) + [value]

    def pad(self, rounds: int) -> None:
        """Makes every row as long as there were rounds."""
        for row in (row for rows in self.raw.values() for row in rows.values()):
            row += [None] * (rounds - len(row))


def kinds(*, with_peers: bool) -> list[Kind]:
    """The gateways to measure, those that are not installed included."""
    return [Sniffgate(), HAProxy(), Nginx()] if with_peers else [Sniffgate()]


def measure_overhead(
    gateways: Sequence[Kind],
    settings: Settings,
    groups: Collection[str] = GROUPS,
    tell: Callable[[str], None] = lambda _: None,
) -> Outcome:
    """Runs all rounds. Everything it starts has ended when it returns or raises.

    Errors: `RoundFailed` when the nodes or sniffgate itself do not start. A peer that does not start is absent.
    """
    outcome = Outcome(
        settings,
        {each.name: each.version for each in gateways},
        {each.name: each.absent for each in gateways if each.absent},
    )
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sniffgate-measure-")))
        nodes, sink = stack.enter_context(open_nodes())
        lab = Lab(nodes, sink, settings, folder)
        targets = [Target(DIRECT, nodes), *_open(gateways, lab, stack, outcome)]
        outcome.targets = [target.name for target in targets]
        _run_rounds(lab, targets, groups, outcome, tell)
    outcome.pad(outcome.rounds_begun)
    return outcome


def _open(gateways: Sequence[Kind], lab: Lab, stack: contextlib.ExitStack, outcome: Outcome) -> Iterator[Target]:
    for kind in gateways:
        if kind.absent:
            continue
        try:
            target, _ = start(kind, lab.nodes, lab.folder / kind.name)
        except RoundFailed as error:
            if isinstance(kind, Sniffgate):
                raise
            outcome.absent[kind.name] = str(error)
            continue
        assert isinstance(target.child, Child)
        stack.enter_context(target.child)
        yield target


def _run_rounds(
    lab: Lab, targets: Sequence[Target], groups: Collection[str], outcome: Outcome, tell: Callable[[str], None]
) -> None:
    end = time.monotonic() + lab.settings.limit
    for lap in range(lab.settings.rounds):
        outcome.rounds_begun += 1
        order = [targets[(lap + place) % len(targets)] for place in range(len(targets))]  # nobody is always first
        for trial in TRIALS:
            if trial.group not in groups:
                continue
            name = trial.measure.__name__.replace("_", " ")
            tell(f"round {lap + 1} of {lab.settings.rounds}: {name}")
            for target in filter(trial.applies, order):
                if time.monotonic() > end:
                    outcome.is_cut_short = True
                    return
                try:
                    figures = trial.measure(lab, target)
                except RoundFailed as error:
                    outcome.troubles.append(Trouble(lap + 1, target.name, name, str(error)))
                    continue
                for key, value in figures.items():
                    outcome.record(key, target.name, lap, value)
