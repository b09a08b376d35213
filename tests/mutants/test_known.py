"""The list of known faults is kept whole: every edit still fits the program, and the manual names what catches it."""

import re
from pathlib import Path

import pytest

from tests.mutants.__main__ import main
from tests.mutants.known import MUTANTS, Mutant

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| \*\*(.+?)\.\*\*.*$", re.MULTILINE)
NAMED = re.compile(r"`(tests/[\w/]+\.py::\w+)`")


def rows() -> dict[str, set[str]]:
    """By fault, the tests that the manual names for it."""
    page = (ROOT / "docs" / "known-faults.md").read_text()
    return {found[1]: set(NAMED.findall(found[0])) for found in ROW.finditer(page)}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda each: f"{each.fault} ({each.file})")
def test_every_edit_fits_the_program(mutant: Mutant) -> None:
    """An edit that changes nothing would prove nothing."""
    assert 1 == (ROOT / "sniffgate" / mutant.file).read_text().count(mutant.old)
    assert mutant.old != mutant.new


def test_the_manual_names_each_fault_and_the_tests_that_were_seen_to_catch_it() -> None:
    """A table that was written once and never checked is a wish."""
    caught: dict[str, set[str]] = {}
    for mutant in MUTANTS:
        caught.setdefault(mutant.fault, set()).update(test.partition("[")[0] for test in mutant.tests)

    assert caught == rows()


@pytest.mark.soak
def test_every_known_fault_is_caught() -> None:
    """Each rule is taken out in a copy, and each of its tests turns red."""
    assert 0 == main()
