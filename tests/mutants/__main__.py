"""`python -m tests.mutants [WORD]`: brings each known fault back in a copy of the program, and shows that it is caught.

First every named test must be green on the copy as it is; then, one fault at a time, every one of its tests must be
red.
WORD picks the faults that have it in their name. Ends with 1 when a fault was not caught.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.mutants.known import MUTANTS, Mutant

ROOT = Path(__file__).parents[2]
LIMIT = 180.0  # seconds for the tests of one fault
GREEN, RED = 0, 1  # what pytest ends with; anything else is neither


def copy_of_the_project(folder: Path) -> Path:
    """What the tests need, in `folder`."""
    ignore = shutil.ignore_patterns("__pycache__", ".*")
    for name in ("sniffgate", "tests", "configs", "docs"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignore)
    for name in ("pyproject.toml", "README.md", "CHANGELOG.md"):
        shutil.copy(ROOT / name, folder / name)
    return folder


def outcome(copy: Path, *tests: str) -> int:
    """What pytest ends with for those tests, run on the copy."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    env = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        return subprocess.run(command, cwd=copy, env=env, capture_output=True, timeout=LIMIT).returncode
    except subprocess.TimeoutExpired:
        return -1


@contextlib.contextmanager
def put_in(copy: Path, mutant: Mutant) -> Iterator[None]:
    """The fault is in the copy until the end of the block."""
    path = copy / "sniffgate" / mutant.file
    whole = path.read_text()
    assert 1 == whole.count(mutant.old), f"{mutant.file} has changed: {mutant.old!r} must stand in it once"
    path.write_text(whole.replace(mutant.old, mutant.new))
    try:
        yield
    finally:
        path.write_text(whole)


def not_caught(copy: Path, mutant: Mutant) -> list[str]:
    """The tests of `mutant` that did not turn red."""
    with put_in(copy, mutant):
        return [test for test in mutant.tests if outcome(copy, test) != RED]


def main(word: str = "") -> int:
    """Tries all, or those with `word` in their name."""
    chosen = [mutant for mutant in MUTANTS if word.lower() in mutant.fault.lower()]
    escaped = 0
    with tempfile.TemporaryDirectory(prefix="sniffgate-mutants-") as folder:
        copy = copy_of_the_project(Path(folder))
        if outcome(copy, *dict.fromkeys(test for mutant in chosen for test in mutant.tests)) != GREEN:
            print("the named tests are not all green before any fault is put in")
            return 1
        for mutant in chosen:
            missed = not_caught(copy, mutant)
            escaped += bool(missed)
            verdict = f"NOT caught by {', '.join(missed)}" if missed else f"caught by {len(mutant.tests)}"
            print(f"{mutant.fault} ({mutant.file}): {verdict}", flush=True)
    print(f"{len(chosen) - escaped} of {len(chosen)} caught")
    return 1 if escaped or not chosen else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
