"""The pages about the kit: each example runs under pytest, and the one that is to fail says what the page says."""

import re

import pytest

from tests.testing.plugged import ROOT, run_tests

BLOCK = re.compile(r"^<!-- test: (pytest|fails) -->\n+```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
OUTPUT = re.compile(r"^```text\n(AssertionError: .*?)^```$", re.DOTALL | re.MULTILINE)
SEED = "--sniffgate-seed=1"  # of the order of what comes in one moment, in the output that is shown
PAGES = ("testing.md", "testing-recipes.md")

pytestmark = pytest.mark.slow


def page(name: str) -> str:
    """The text of a page."""
    return (ROOT / "docs" / name).read_text()


@pytest.mark.parametrize("name", PAGES)
def test_every_example_passes(name: str, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """People paste them. Later blocks of a page may use what the first one defines."""
    blocks = [text for mark, text in BLOCK.findall(page(name)) if mark == "pytest"]
    tests = re.findall(r"^async def test_\w+\((.*?)\)", "".join(blocks), re.MULTILINE)
    count = sum(2 if "each_gateway" in fixtures else 1 for fixtures in tests)

    assert count >= 5
    run_tests(pytester, monkeypatch, "\n".join(blocks)).assert_outcomes(passed=count)


def test_the_failing_example_fails_as_shown(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Output on a page is output that somebody has seen."""
    blocks = BLOCK.findall(page("testing.md"))
    (failing,) = [text for mark, text in blocks if mark == "fails"]
    (shown,) = OUTPUT.findall(page("testing.md"))
    result = run_tests(pytester, monkeypatch, blocks[0][1] + failing, "-k", "test_failover", SEED)

    result.assert_outcomes(failed=1, deselected=1)
    printed = [line.removeprefix("    | ").rstrip() for line in result.outlines]
    begin = printed.index(shown.splitlines()[0])
    assert shown.splitlines() == printed[begin : begin + len(shown.splitlines())]
