"""Runs pytest as a user of the kit would: in a process of its own, the plugin found by its entry point."""

import os
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


def install_entry_points(directory: Path) -> str:
    """What an installer would leave of this project's entry points; returns the PYTHONPATH that has them.

    So the tests do not depend on when the project was last installed here.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    plugins = project["entry-points"]["pytest11"]
    info = directory / "sniffgate_here-0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sniffgate-here\nVersion: 0\n")
    lines = ["[pytest11]", *(f"{name} = {target}" for name, target in plugins.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return os.pathsep.join([str(directory), str(ROOT)])


def run_tests(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, source: str, *args: str) -> pytest.RunResult:
    """Runs a test module in trio mode, warnings being errors."""
    monkeypatch.setenv("PYTHONPATH", install_entry_points(pytester.path / "installed"))
    pytester.makepyprojecttoml('[tool.pytest.ini_options]\ntrio_mode = true\nfilterwarnings = ["error"]\n')
    pytester.makepyfile(PRELUDE + source)
    return pytester.runpytest_subprocess("-p", "no:cacheprovider", "--strict-markers", *args, timeout=60)


PRELUDE = '''
import pytest
import trio
import sniffgate
from sniffgate.testing import expect_active, expect_drained, expect_healthy

CONFIG = sniffgate.load_text("""
[global]
drain_timeout_ms = 2000

[[listeners]]
name = "service"
protocol = "tcp"
listen = "10.0.0.254:80"

[[nodes]]
name = "node-a"
priority = 2
tcp = "10.0.0.1:7000"

[[nodes]]
name = "node-b"
priority = 1
tcp = "10.0.0.2:7000"
""", file="test.toml")
'''
