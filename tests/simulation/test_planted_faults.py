"""The simulation finds what it is for: rules are taken out in a copy of the program, and it says which is broken."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.mutants.__main__ import put_in
from tests.simulation.planted import PLANTED, Planted

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "configs" / "failover.toml"
WITHIN = 1000  # seeds
LIMIT = 600.0  # seconds


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package alone, with what is compiled of it."""
    folder = tmp_path_factory.mktemp("planted")
    shutil.copytree(ROOT / "sniffgate", folder / "sniffgate")
    return folder


def simulate(copy: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command, run from the copy."""
    command = [sys.executable, "-m", "sniffgate", "simulate", "-c", str(CONFIG), *arguments]
    env = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, cwd=copy, env=env, capture_output=True, text=True, timeout=LIMIT, check=False)


@pytest.fixture(params=PLANTED)
def planted(request: pytest.FixtureRequest, copy: Path) -> Iterator[Planted]:
    """One fault after the other is in the copy."""
    fault = PLANTED[request.param]
    with put_in(copy, fault.mutant):
        yield fault


@pytest.mark.slow
@pytest.mark.e2e
def test_a_planted_fault_is_found_by_the_first_seed_that_does(copy: Path, planted: Planted) -> None:
    """When histories are made in another way, it may be another seed."""
    result = simulate(copy, "--seed", str(planted.seed), "--no-shrink", "--json")
    found = json.loads(result.stdout)

    assert [(planted.seed, planted.rule)] == [(each["seed"], each["rule"]) for each in found["failed"]]
    assert 1 == result.returncode


@pytest.mark.soak
def test_a_planted_fault_is_found_within_a_thousand_seeds(copy: Path, planted: Planted) -> None:
    """From the first seed on, in steps, and by the seed that the manual names."""
    found: list[dict[str, Any]] = []
    for first in range(0, WITHIN, 20):
        found = json.loads(simulate(copy, "--first", str(first), "--seeds", "20", "--no-shrink", "--json").stdout)[
            "failed"
        ]
        if found:
            break

    assert planted.rule in {each["rule"] for each in found}
    assert planted.seed == found[0]["seed"]


def test_the_manual_names_each_planted_fault_with_what_finds_it() -> None:
    """A table that was written once and never checked is a wish."""
    page = (ROOT / "docs" / "simulation.md").read_text()

    for fault, planted in PLANTED.items():
        assert f"| {fault} | `{planted.rule}` | {planted.seed} |" in page


@pytest.mark.slow
@pytest.mark.e2e
def test_what_was_found_is_shrunk_told_saved_and_played_again(copy: Path, tmp_path: Path) -> None:
    """From a seed to a story of a few lines, and to a file that goes into a report."""
    fault, saved = PLANTED["a pin is not released"], tmp_path / "history.json"
    with put_in(copy, fault.mutant):
        told = simulate(copy, "--first", str(fault.seed), "--seeds", "1", "--save", str(saved))
        again = simulate(copy, "--history", str(saved), "--json")
    whole = simulate(copy, "--history", str(saved))

    assert (1, "") == (told.returncode, told.stderr)
    assert "broken: a pin holds while its node is usable, and is released then or on request" in told.stdout
    assert f"--seed {fault.seed}\n" in told.stdout
    assert f"--history {saved}\n" in told.stdout
    steps = json.loads(saved.read_text())["steps"]
    assert {"order", "fault"} == {each["do"] for each in steps}
    assert len(steps) <= 4
    assert (1, [fault.rule]) == (again.returncode, [each["rule"] for each in json.loads(again.stdout)["failed"]])
    assert (0, "every rule held") == (whole.returncode, whole.stdout.splitlines()[-1].split(": ")[-1])
