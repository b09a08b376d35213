"""`sniffgate measure` without a command: runs the study."""

import shlex
import shutil
import signal
import sys
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import NoReturn

import click

from ...errors import SniffgateError
from ...measure.host import describe_host, load_average
from ...measure.study import scenarios
from ...measure.study.artifact import Study, now
from ...measure.study.gateway import CONFIG, DEFAULT_COMMAND
from ...measure.study.resuming import resume
from ...measure.study.running import run_study
from ...measure.study.scenario import SCENARIOS, ScenarioPlan
from ...measure.study.shown import show_clock, show_scenario
from ...measure.study.timing import measure_harness
from ...measure.study.tuning import TUNING
from ...measure.targets import HAProxy, Nginx
from .progress import Progress

assert scenarios.__all__  # importing it has filled SCENARIOS
INTERRUPTED = 130  # 128 + SIGINT, as shells have it


def list_scenarios() -> None:
    """Prints every scenario with its arms and about how long it takes."""
    for plan in SCENARIOS.values():
        arms = f"{len(plan.arms)} arms" if len(plan.arms) > 1 else "1 arm"
        click.echo(f"{plan.name:<14} {_seconds([plan], None):>4.0f} s  {arms:>7}  {plan.title}")
    click.echo(f"{'all':<14} {_seconds(list(SCENARIOS.values()), None):>4.0f} s")


def run(only: tuple[str, ...] | None, trials: int | None, gateway: str | None, out: str | None) -> int:
    """Runs what was asked for; the exit status. Errors: one sentence as a `ClickException`."""
    plans = _chosen(only)
    command = _checked_command(gateway)
    if sys.platform != "linux":
        raise click.ClickException("the study needs Linux: it reads /proc and ends processes as Linux does.")
    directory = Path(out or f"sniffgate-study-{datetime.now():%Y%m%d-%H%M%S}")
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        study = resume(_fresh_study(command, trials), directory)
        directory.mkdir(parents=True, exist_ok=True)
        is_interrupted = _run(study, directory, plans)
    except SniffgateError as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"{directory} cannot be written: {error.strerror}") from error
    measured = {plan.name: study.scenarios[plan.name] for plan in plans if plan.name in study.scenarios}
    for name, scenario in measured.items():
        click.echo(show_scenario(name, scenario))
    click.echo(f"{directory}/study.json has every value.")
    if is_interrupted:
        click.echo("interrupted; the same command with this --out goes on", err=True)
        return INTERRUPTED
    failed = [name for name, scenario in measured.items() if scenario.state == "failed"]
    if failed:
        click.echo(f"failed: {', '.join(failed)}", err=True)
    return int(bool(failed))


def _run(study: Study, directory: Path, plans: list[ScenarioPlan]) -> bool:
    """Runs it; whether it was interrupted."""
    try:
        study.clock, engine = measure_harness(study.gateway)
        study.versions["gateway"] = engine
        click.echo(show_clock(study.clock))
        with Progress(_seconds(plans, study.trials), study.trials) as progress:
            run_study(study, directory, plans, progress)
    except KeyboardInterrupt:
        return True
    return False


def _fresh_study(command: str, trials: int | None) -> Study:
    host = describe_host()
    return Study(
        host={key: host[key] for key in ("machine", "processor", "processors", "system")},  # type: ignore[misc]  # plain
        kernel=str(host["kernel"]),
        python=str(host["python"]),
        versions={"sniffgate": str(host["sniffgate"]), "haproxy": HAProxy().version, "nginx": Nginx().version},
        commit=str(host["commit"]) if host["commit"] else None,
        command=["sniffgate", *sys.argv[1:]],
        gateway=command,
        tuning=dict(TUNING),
        trials=trials,
        started=now(),
        load_average=[load_average()],
    )


def _chosen(only: tuple[str, ...] | None) -> list[ScenarioPlan]:
    import difflib

    for name in only or ():
        if name not in SCENARIOS:
            near = difflib.get_close_matches(name, SCENARIOS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else "--list names them."
            raise click.UsageError(f"--only: there is no scenario {name!r}; {hint}")
    return [plan for plan in SCENARIOS.values() if not only or plan.name in only]


def _checked_command(command: str | None) -> str:
    if command is None:
        return DEFAULT_COMMAND
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise click.UsageError(f"--gateway: {command!r} is no command: {error}") from error
    if not any(CONFIG in word for word in words):
        raise click.UsageError(f"--gateway: {command!r} does not say where the file goes: it needs {CONFIG}.")
    if shutil.which(words[0]) is None:
        raise click.UsageError(f"--gateway: there is no program {words[0]!r}.")
    return command


def _seconds(plans: list[ScenarioPlan], trials: int | None) -> float:
    return sum(plan.seconds * plan.trials_of(arm, trials) for plan in plans for arm in plan.arms)


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
