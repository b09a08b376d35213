"""`python -m tests.mutants.bench FOLDER MODULE...`: tries edits of modules, each in a process of its own, forked ready.

What costs time is done once: in one process pytest has collected the tests in FOLDER and waits. A fork of it exchanges
the code of the functions that are edited (`patching.py`) and runs tests. An edit outside of functions is tried in a
fork of a process that has imported everything but what is to be edited (the MODULEs), and begins from there.

Tasks come as lines of JSON on standard input, and each is answered by one line: {"outcome": "killed", "seconds": 0.1}.
Nothing on disk is changed.
"""

import contextlib
import importlib
import json
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import _pytest.main
import hypothesis
import pytest

from tests.mutants.edits import edited
from tests.mutants.patching import put_into
from tests.mutants.replacing import Replacement

READY = ("hypothesis.stateful", "hypothesis.strategies", "_pytest.assertion.rewrite", "_pytest.unittest", "cattrs.v")
MEMORY = 3 << 30  # bytes of address space: an edit may make a loop that allocates for ever
PATIENCE = 30  # how many times slower than its processor time a fork may be
PASSED, FAILED, INTERRUPTED, CRASHED, ELSEWHERE = 0, 1, 2, 3, 99  # what pytest ends with; the last is ours
OUTCOMES = {PASSED: "survived", FAILED: "killed", INTERRUPTED: "killed", CRASHED: "killed", ELSEWHERE: "elsewhere"}
PROFILE = "mutants"
OPTIONS = ("-x", "-q", "-s", "-p", "no:faulthandler")

Task = dict[str, Any]


def main(folder: str, modules: Sequence[str]) -> None:
    """Serves until standard input ends."""
    for name in (*READY, *modules):
        importlib.import_module(name)
    answers = os.fdopen(os.dup(1), "w")
    with _Collected(folder) as collected:
        for line in sys.stdin:
            task = json.loads(line)
            began = time.monotonic()
            outcome = "elsewhere" if task["number"] is None else collected.outcome(task)
            if outcome == "elsewhere":
                outcome = _in_a_fork(lambda task=task: _begin_anew(task), task["timeout"])
            answers.write(json.dumps({"outcome": outcome, "seconds": round(time.monotonic() - began, 2)}) + "\n")
            answers.flush()


def _in_a_fork(work: Any, timeout: float) -> str:
    """What comes of work that is done in a fork and returns what pytest would end with.

    `timeout` is in seconds of processor time: a busy machine makes no fault. The clock's limit is far behind it.
    """
    pid = os.fork()
    if pid == 0:
        code = CRASHED
        try:
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            seconds = max(round(timeout), 1)
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
            code = int(work())
        except MemoryError:
            code = FAILED
        finally:
            os._exit(code)
    ended = os.pidfd_open(pid)
    try:
        is_late = not select.select([ended], [], [], timeout * PATIENCE)[0]
        if is_late:
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
    finally:
        os.close(ended)
    code = os.waitstatus_to_exitcode(status)
    if is_late or code == -signal.SIGXCPU:
        return "timeout"
    return OUTCOMES.get(code, "killed" if code < 0 else f"no result: pytest ended with {code}")


def _be_quiet() -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)


def _few(most: int) -> hypothesis.settings:
    """The settings of a property test, which are the default ones from now on too."""
    hypothesis.settings.register_profile(
        PROFILE,
        max_examples=most,
        stateful_step_count=15,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
    )
    hypothesis.settings.load_profile(PROFILE)
    return hypothesis.settings.get_profile(PROFILE)


def _is_property(item: pytest.Item) -> bool:
    """Whether a test draws examples. One costs what dozens of others do, and mostly they notice first."""
    return hasattr(getattr(item, "obj", None), "hypothesis")


def _bound(items: Sequence[pytest.Item], profile: hypothesis.settings) -> None:
    """Bounds the examples of each property test, those with settings of their own too, and shrinks none."""
    for item in items:
        test: Any = getattr(item, "obj", None)
        if _is_property(item):
            function = getattr(test, "__func__", test)
            own = function._hypothesis_internal_use_settings
            function._hypothesis_internal_use_settings = hypothesis.settings(
                profile, max_examples=min(profile.max_examples, own.max_examples)
            )


# --- with everything collected --------------------------------------------------------------------


class _Collected:
    """A process in which pytest has collected the tests of a folder and waits for tasks."""

    def __init__(self, folder: str) -> None:
        tasks, self._tasks = os.pipe()
        self._outcomes, outcomes = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                os.close(self._tasks)
                os.close(self._outcomes)
                _be_quiet()
                _few(10)
                with os.fdopen(tasks) as coming, os.fdopen(outcomes, "w") as going:
                    pytest.main([*OPTIONS, "-c", "mutants.ini", folder], plugins=[_Server(coming, going)])
            finally:
                os._exit(0)
        os.close(tasks)
        os.close(outcomes)
        self._going = os.fdopen(self._tasks, "w")
        self._coming = os.fdopen(self._outcomes)

    def __enter__(self) -> "_Collected":
        return self

    def __exit__(self, *_: object) -> None:
        self._going.close()
        self._coming.close()
        os.waitpid(self._pid, 0)

    def outcome(self, task: Task) -> str:
        """What the tests make of an edit; "elsewhere" where it must be tried otherwise."""
        try:
            self._going.write(json.dumps(task) + "\n")
            self._going.flush()
        except BrokenPipeError:
            return "elsewhere"
        return self._coming.readline().strip() or "elsewhere"


class _Server:
    """The plugin that, when all is collected, runs tests in forks instead of here."""

    def __init__(self, coming: IO[str], going: IO[str]) -> None:
        self._coming = coming
        self._going = going

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Serves until nobody asks any more."""
        for line in self._coming:
            task = json.loads(line)
            self._going.write(_in_a_fork(lambda task=task: _try_here(session, task), task["timeout"]) + "\n")
            self._going.flush()
        return True


def _try_here(session: pytest.Session, task: Task) -> int:
    path = Path(task["path"])
    source = path.read_text()
    original = compile(source, str(path), "exec")
    module = sys.modules.get(task["module"])
    edit = compile(edited(source, task["number"]), str(path), "exec")
    if module is None or not put_into(module, original, edit):
        return ELSEWHERE
    places = {name: place for place, name in enumerate(task["tests"])}
    items = [each for each in session.items if str(each.path) in places]
    session.items = sorted(items, key=lambda each: (_is_property(each), places[str(each.path)]))
    _bound(session.items, _few(task["examples"]))
    if not items:
        return 5
    with contextlib.suppress(session.Failed, session.Interrupted):
        _pytest.main.pytest_runtestloop(session)
    return FAILED if session.testsfailed else PASSED


# --- from the beginning ---------------------------------------------------------------------------


def _begin_anew(task: Task) -> int:
    _be_quiet()
    path = Path(task["path"])
    if task["number"] is not None:
        edit = edited(path.read_text(), task["number"])
        sys.meta_path.insert(0, Replacement(task["module"], compile(edit, str(path), "exec"), path))
    _few(task["examples"])
    return int(pytest.main([*OPTIONS, "-c", "mutants.ini", *task["tests"]], plugins=[_FewExamples(task["examples"])]))


class _FewExamples:
    """The plugin that bounds the examples of what is collected."""

    def __init__(self, most: int) -> None:
        self._most = most

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Once all is collected."""
        _bound(items, _few(self._most))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
