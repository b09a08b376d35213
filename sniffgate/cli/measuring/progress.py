"""How far a study is: a bar with the remaining time on a terminal, a line for each scenario elsewhere."""

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

import click

from ...measure.study.artifact import Scenario
from ...measure.study.scenario import ArmPlan, ScenarioPlan

if TYPE_CHECKING:
    import rich.progress


class Progress:
    """Within `with` it is shown, on stderr. Remaining time is what the declared times leave, at the pace so far."""

    def __init__(self, seconds: float, trials: int | None) -> None:
        """`seconds`: of all trials, as declared; `trials` that were asked for."""
        self._total, self._trials = seconds, trials
        self._done = self._skipped = 0.0
        self._began = time.monotonic()
        self._bar: rich.progress.Progress | None = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, TextColumn
            from rich.progress import Progress as Bar

            columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[left]}")
            self._bar = Bar(*columns, console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task("", total=self._total, left=self._left())
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()

    def begins(self, plan: ScenarioPlan, arm: ArmPlan, number: int) -> None:
        """See `running.Audience`."""
        if self._bar is not None:
            words = f"{plan.name} {arm.name}, trial {number} of {plan.trials_of(arm, self._trials)}"
            self._bar.update(self._task, description=words, completed=self._done, left=self._left())

    def trial_ended(self, plan: ScenarioPlan, *, was_run: bool) -> None:
        """See `running.Audience`."""
        self._done += plan.seconds
        self._skipped += 0.0 if was_run else plan.seconds

    def ended(self, plan: ScenarioPlan, scenario: Scenario, *, was_kept: bool) -> None:
        """See `running.Audience`."""
        line = f"{plan.name}: {'measured before' if was_kept else scenario.state}"
        line += f": {scenario.reason}" if scenario.reason else ""
        if self._bar is not None:
            self._bar.console.print(line, markup=False, highlight=False)
        else:
            click.echo(line, err=True)

    def _left(self) -> str:
        own = self._done - self._skipped
        pace = (time.monotonic() - self._began) / own if own else 1.0
        left = int((self._total - self._done) * pace)
        return f"{left // 60}:{left % 60:02d} left"
