"""The example project: somebody else's client, tested through the kit."""

import resource
import shutil

import pytest

from tests.testing.plugged import ROOT, install_entry_points

EXAMPLE = ROOT / "docs" / "examples" / "retrying-client"


@pytest.mark.slow
@pytest.mark.realnet
def test_the_example_project_passes_its_tests(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is what people copy, and they are to wait for it less than five seconds."""
    project = pytester.path / "retrying-client"
    shutil.copytree(EXAMPLE, project, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setenv("PYTHONPATH", install_entry_points(pytester.path / "installed"))
    monkeypatch.chdir(project)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-p", "no:cov", timeout=60)

    result.assert_outcomes(passed=6)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 5.0  # whatever else the machine does
