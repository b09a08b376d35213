"""A gateway that serves has nothing to do with simulations of it."""

import subprocess
import sys

import pytest


@pytest.mark.e2e
def test_the_start_of_a_gateway_imports_nothing_of_it() -> None:
    """Each import costs milliseconds before the first client, and memory for as long as the gateway lives."""
    code = "import sys, sniffgate.cli.run, sniffgate.app; print([each for each in sys.modules if 'simul' in each])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)

    assert "[]\n" == run.stdout
