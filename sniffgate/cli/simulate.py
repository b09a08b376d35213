"""`sniffgate simulate`: a configuration under seeded histories of faults, judged by the rules that always hold."""

import contextlib
import json
import math
import os
import sys
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from ..config.schema import Config
from ..errors import ConfigError
from .check import load
from .logs import printable

if TYPE_CHECKING:
    from ..simulation.history import History
    from .simulation_report import Report

SEEDS = 100
SECONDS = 60.0
MOST_TOLD = 3  # rules of which one history each is told; shrinking it takes some ten seconds
FAILED, INTERRUPTED = 1, 130


def _finite(_ctx: click.Context, option: click.Parameter, value: float | None) -> float | None:
    if value is not None and not (math.isfinite(value) and value > 0):
        raise click.BadParameter(f"{value} is not a length of time above 0.", param=option)
    return value


@click.command("simulate")
@click.option("-c", "--config", "file", required=True, metavar="FILE", help='The configuration; "-": standard input.')
@click.option("--seeds", type=click.IntRange(1), metavar="N", help=f"How many histories are played [default: {SEEDS}].")
@click.option("--first", type=click.IntRange(0), metavar="N", help="The first of these seeds [default: 0].")
@click.option("--seconds", type=float, callback=_finite, metavar="S", help="How long each is [default: 60].")
@click.option("--hours", type=float, callback=_finite, metavar="H", help="The same in hours.")
@click.option("-j", "--jobs", type=click.IntRange(1), metavar="N", help="Processes [default: one per processor].")
@click.option(
    "--seed", type=click.IntRange(0), metavar="N", help="Play this seed alone and tell all that happens in it."
)
@click.option("--history", "history_file", metavar="FILE", help="The same with a history that --save has written.")
@click.option("--save", metavar="FILE", help="Write the first shrunk history there, for --history.")
@click.option("--no-shrink", is_flag=True, help="Leave failing histories as they are.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout instead.")
def simulate(
    *,
    file: str,
    seeds: int | None,
    first: int | None,
    seconds: float | None,
    hours: float | None,
    jobs: int | None,
    seed: int | None,
    history_file: str | None,
    save: str | None,
    no_shrink: bool,
    as_json: bool,
) -> int:
    """Play seeded histories of faults against a configuration, on virtual time, and look for a broken promise.

    The nodes of FILE are replaced by scripted ones that are killed, frozen, partitioned and so on, clients come to
    every listener, an operator gives commands; all of it on virtual time, where a minute takes a tenth of a second. A
    history that breaks a rule is shrunk and told in full; the same seed always does the same.

    Ends with 0 when every rule held, with 1 when one did not, with 2 when it was asked for something impossible.
    """
    _refuse_contradictions(
        {"--seed": seed, "--history": history_file, "--seeds": seeds},
        {"--seed": seed, "--history": history_file, "--first": first},
        {"--seed": seed, "--history": history_file, "--jobs": jobs},
        {"--history": history_file, "--seconds": seconds, "--hours": hours},
    )
    length = seconds if seconds is not None else SECONDS if hours is None else hours * 3600
    config = _config(file)
    if save is not None:
        _refuse_unless_writable(save)
    from ..simulation.seeds import quiet
    from .simulation_report import Report, as_object, summary

    is_single = seed is not None or history_file is not None
    given = _history(config, seed, length, history_file) if is_single else None
    wanted, jobs = (seeds or SEEDS, jobs or os.cpu_count() or 1) if given is None else (1, 1)
    report = Report(file, config, length if given is None else given.seconds, wanted, min(jobs, wanted), given)
    with quiet():
        if given is None:
            _play_many(report, first or 0, speaks=not as_json)
        else:
            _play_given(report, given)
        _tell(report, shrinks=not no_shrink)
    if save is not None and report.told:
        _save(save, report)
    if as_json:
        click.echo(json.dumps(as_object(report)))
    else:
        _say(summary(report))
    return FAILED if report.failed else INTERRUPTED if report.interrupted else 0


# --- what was given ----------------------------------------------------------------------------------


def _refuse_contradictions(*alternatives: dict[str, object]) -> None:
    """Of each group of options at most one may be given."""
    for options in alternatives:
        given = [name for name, value in options.items() if value is not None]
        if len(given) > 1:
            raise click.UsageError(f"{given[0]} and {given[1]} exclude each other.")


def _config(file: str) -> Config:
    try:
        return load(file)
    except ConfigError as error:
        for fault in error.faults:
            click.echo(str(fault), err=True)
        raise click.UsageError(f"{click.format_filename(file)} cannot be simulated: see above.") from error


def _history(config: Config, seed: int | None, length: float, file: str | None) -> "History":
    if file is None:
        from ..simulation.chance import history_from

        assert seed is not None
        return history_from(config, seed, length)
    from ..simulation.notation import HistoryInvalid, history_from_json

    name = click.format_filename(file)
    try:
        with click.open_file(file, encoding="utf-8") as text:
            return history_from_json(text.read(), config)
    except HistoryInvalid as error:
        raise click.UsageError(f"{name}: {error}") from error
    except UnicodeDecodeError as error:
        raise click.UsageError(f"{name}: is not text in UTF-8") from error
    except OSError as error:
        raise click.UsageError(f"cannot read {name}: {error.strerror}") from error


def _refuse_unless_writable(path: str) -> None:
    """Before the work is done, not after."""
    try:
        with open(path, "a", encoding="utf-8"):
            pass
    except OSError as error:
        raise click.UsageError(f"cannot write {click.format_filename(path)}: {error.strerror}") from error


def _save(path: str, report: "Report") -> None:
    from ..simulation.notation import history_to_json

    with open(path, "w", encoding="utf-8") as file:
        json.dump(history_to_json(report.told[0].history), file, indent=1)
        file.write("\n")
    report.saved = path


# --- the work ----------------------------------------------------------------------------------------


def _play_many(report: "Report", first: int, *, speaks: bool) -> None:
    """Plays the seeds; Ctrl-C ends it, and what was found so far is told."""
    from ..simulation.seeds import WorkerLost, play_seeds
    from .simulation_report import finding, heading, progress

    began = time.monotonic()
    seeds = range(first, first + report.wanted)
    try:
        if speaks:
            _say(heading(report))
        with contextlib.closing(play_seeds(report.config, seeds, report.seconds, report.jobs)) as plays:
            for seed, broken in plays:
                report.played += 1
                report.took = time.monotonic() - began
                if broken is not None:
                    report.failed[seed] = broken
                    if speaks:
                        _progress("")
                        _say([finding(seed, broken)])
                _progress(progress(report))
    except KeyboardInterrupt:
        report.interrupted = True
    except WorkerLost as error:
        raise click.ClickException(str(error)) from error
    finally:
        report.took = time.monotonic() - began
        _progress("")


def _play_given(report: "Report", history: "History") -> None:
    from ..simulation.play import play
    from ..testing.timeline import KEPT, Timeline

    timeline, began = Timeline(), time.monotonic()
    broken = play(report.config, history, timeline)
    report.played, report.took, report.timeline = 1, time.monotonic() - began, timeline.last(KEPT)
    if broken is not None:
        report.failed[history.seed] = broken


def _tell(report: "Report", *, shrinks: bool) -> None:
    """Tells of one history for each of the rules that were broken, shrunk if that is wanted. Ctrl-C ends it."""
    from ..simulation.findings import tell

    for seed in report.first_of_each_rule()[:MOST_TOLD]:
        _progress(f"shrinking seed {seed}")
        try:
            wanted = shrinks and not report.interrupted
            report.told.append(tell(report.config, report.history_of(seed), report.failed[seed], shrinks=wanted))
        except (KeyboardInterrupt, BaseExceptionGroup) as error:
            if isinstance(error, BaseExceptionGroup) and error.subgroup(KeyboardInterrupt) is None:
                raise
            report.interrupted = True
            break
        finally:
            _progress("")


def _say(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(printable(line))


def _progress(words: str) -> None:
    """Shows on a terminal how far it is."""
    if sys.stderr.isatty():
        click.echo(f"\r\x1b[K{words}", nl=False, err=True)
