"""`python -m tests.mutants.state`: puts every small fault into the rules, one at a time, and runs the rules' tests.

A fault that no test notices survives. Each survivor stands in `survivors.toml` with the reason why it may, and the
program ends with 1 when one does not stand there. A run that was broken off goes on where it was: of a module that has
not changed, what was killed before is not tried again, nor is a survivor whose reason is known.
"""

import argparse
import json
import os
import queue
import random
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import attrs

from tests.mutants.__main__ import ROOT, copy_of_the_project
from tests.mutants.trials import Trial, known_survivors, remembered, report, trials_of

PACKAGE, FOLDER, TESTS = "sniffgate.state", "sniffgate/state", "tests/state"
READY = ("sniffgate.config.load", "sniffgate.errors")
RESULTS = ROOT / ".mutants.jsonl"
QUICK, THOROUGH = 8, 20  # examples of each property: for the first look, and for who survives it
TIMEOUT = 5.0  # seconds of processor time for a first look, which takes half of one
THOROUGHLY = 6  # times that for all tests of the rules, which take two or three
LEAVING = 60.0  # seconds of the clock that a bench has to end
INI = """[pytest]
addopts = --import-mode=importlib -p no:cacheprovider
filterwarnings = error
markers =
    slow
    soak
"""
FIRST = {  # the tests that know a module best; without an entry, those of its own name
    "account": ["account", "why"],
    "course": ["backtest", "cuts"],
    "evidence": ["evidence", "health"],
    "events": ["model", "health"],
    "health": ["health_values", "health"],
    "history": ["replay"],
    "model": ["model", "health"],
    "reducer": ["reducer", "reload", "reload_values", "health", "routing"],
    "reload": ["reload", "reload_values"],
    "routing": ["routes", "routing", "choose"],
    "switches": ["switches", "routes"],
    "why": ["why", "account"],
    "verdict": ["verdict", "health"],
}


class Bench:
    """A process that tries edits of the project in `folder`; see `bench.py`."""

    def __init__(
        self, folder: Path, tests: str, ready: Iterable[str] = (), *, package: str, paths: Sequence[Path] = (),
        timeout: float = TIMEOUT,
    ) -> None:  # fmt: skip
        (folder / "mutants.ini").write_text(INI)
        self._package = package
        self._timeout = timeout
        env = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(str(each) for each in (folder, *paths)),
            "PYTHONHASHSEED": "0",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "HYPOTHESIS_PROFILE": "mutants",
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.mutants.bench", str(folder / tests), *ready],
            cwd=folder, env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def __enter__(self) -> "Bench":
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(LEAVING)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def outcome(self, path: Path, number: int | None, tests: Sequence[str], examples: int) -> str:
        """What those tests make of edit `number` of the module at `path`; None is the module as it is."""
        task = {
            "path": str(path), "module": f"{self._package}.{path.stem}", "number": number, "tests": tests,
            "examples": examples, "timeout": self._timeout * (1 if examples <= QUICK else THOROUGHLY),
        }  # fmt: skip
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(task) + "\n")
        self._process.stdin.flush()
        outcome = str(json.loads(self._process.stdout.readline())["outcome"])
        if outcome.startswith("no result"):
            raise RuntimeError(outcome)
        return outcome


def suite_of(folder: Path, module: str) -> tuple[list[str], list[str]]:
    """The tests of the rules in two: those that know the module best, and the others."""
    first = [folder / TESTS / f"test_{name}.py" for name in FIRST.get(module, [module])]
    known = [str(each) for each in first if each.exists()]
    return known, [str(each) for each in sorted((folder / TESTS).glob("test_*.py")) if str(each) not in known]


def try_all(trials: Sequence[Trial], jobs: int, *, thoroughly: bool = True) -> Iterator[Trial]:
    """Yields each with its outcome, as they come. Errors: RuntimeError when the tests are not green to begin with.

    Unless `thoroughly`, only the tests that know a module best are run, and who survives them has no outcome.
    """
    if not trials:
        return
    todo: queue.SimpleQueue[Trial | None] = queue.SimpleQueue()
    done: queue.SimpleQueue[Trial | Exception] = queue.SimpleQueue()
    for trial in trials:
        todo.put(trial)
    with tempfile.TemporaryDirectory(prefix="sniffgate-mutants-") as name:
        folder = copy_of_the_project(Path(name))
        green = threading.Event()
        workers = [
            threading.Thread(target=_work, args=(folder, todo, done, thoroughly, green, not each), daemon=True)
            for each in range(jobs)
        ]
        for worker in workers:
            todo.put(None)
            worker.start()
        for _ in trials:
            found = done.get()
            if isinstance(found, Exception):
                raise found
            yield found
        for worker in workers:
            worker.join(LEAVING)


def _work(
    folder: Path, todo: "queue.SimpleQueue[Trial | None]", done: "queue.SimpleQueue[Trial | Exception]",
    thoroughly: bool, green: threading.Event, is_first: bool,
) -> None:  # fmt: skip
    """Tries what is to do. The first one sees that the tests are green; until then every fault would look killed."""
    try:
        with Bench(folder, TESTS, READY, package=PACKAGE) as bench:
            if (
                is_first
                and bench.outcome(folder / FOLDER / "model.py", None, [str(folder / TESTS)], THOROUGH) != "survived"
            ):
                raise RuntimeError("the tests of the rules are not green before any fault is put in")
            if is_first:
                green.set()
            green.wait()
            while (trial := todo.get()) is not None:
                path, (best, rest) = folder / FOLDER / f"{trial.module}.py", suite_of(folder, trial.module)
                outcome = bench.outcome(path, trial.edit.number, best, QUICK)
                if outcome == "survived":
                    outcome = bench.outcome(path, trial.edit.number, rest + best, THOROUGH) if thoroughly else ""
                done.put(attrs.evolve(trial, outcome=outcome))
    except Exception as error:
        done.put(error)


def main(arguments: Sequence[str] | None = None) -> int:
    """Tries what was asked for and prints the survivors."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.state", description=__doc__)
    parser.add_argument("--module", action="append", default=[], help="only this module of state/; may be repeated")
    parser.add_argument("--sample", type=int, metavar="N", help="only N of the edits, drawn by --seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="processes beside each other")
    parser.add_argument("--results", type=Path, default=RESULTS, help="what earlier runs found; added to")
    parser.add_argument("--quick", action="store_true", help="leave who survives the first look for another run")
    parser.add_argument("--toml", action="store_true", help="print unexplained survivors as tables for survivors.toml")
    asked = parser.parse_args(arguments)
    trials = trials_of(ROOT / FOLDER, asked.module)
    if not trials:
        parser.error(f"there is no module {', '.join(asked.module)} in {FOLDER}")
    if asked.sample is not None:
        trials = random.Random(asked.seed).sample(trials, min(asked.sample, len(trials)))
    before, reasons = remembered(asked.results), known_survivors()
    done = [attrs.evolve(each, outcome=before.get(json.dumps(each.key), "")) for each in trials]
    done = [each for each in done if each.outcome and (each.outcome != "survived" or each.name_of_reason in reasons)]
    known = {json.dumps(each.key) for each in done}
    with asked.results.open("a") as results:
        todo = [each for each in trials if json.dumps(each.key) not in known]
        for trial in try_all(todo, asked.jobs, thoroughly=not asked.quick):
            if trial.outcome:
                results.write(json.dumps({"key": trial.key, "outcome": trial.outcome}) + "\n")
                results.flush()
                done.append(trial)
    if len(done) < len(trials):
        print(f"{len(trials) - len(done)} are left for another run")
    return report(done, as_toml=asked.toml)


if __name__ == "__main__":
    sys.exit(main())
