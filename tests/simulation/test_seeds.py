"""Many seeds in many processes."""

import logging
import multiprocessing
from pathlib import Path

import pytest

from sniffgate.config.load import load_file
from sniffgate.simulation.seeds import WorkerLost, play_seeds, quiet

CONFIG = load_file(Path(__file__).parents[2] / "configs" / "minimal.toml")


@pytest.mark.slow
def test_each_seed_is_played_once() -> None:
    """Shared among the processes, whatever their number."""
    assert [(seed, None) for seed in range(10, 15)] == sorted(play_seeds(CONFIG, range(10, 15), 5.0, jobs=2))
    assert [] == multiprocessing.active_children()


@pytest.mark.slow
def test_a_process_that_is_lost_is_said() -> None:
    """Out of memory, say: its seeds would be missing, and nobody would know."""
    plays = play_seeds(CONFIG, range(100_000), 5.0, jobs=2)
    next(plays)
    multiprocessing.active_children()[0].kill()
    with pytest.raises(WorkerLost, match="ended with status -9"):
        for _ in plays:
            pass

    assert [] == multiprocessing.active_children()


def test_the_log_of_simulated_gateways_is_nobodys() -> None:
    """A thousand failovers a minute; afterwards the log is as it was."""
    log = logging.getLogger("sniffgate")
    before = log.level
    with quiet():
        assert not log.isEnabledFor(logging.CRITICAL)

    assert before == log.level
