"""The whole gateway under random histories of clients, faults, operators and reloads."""

import pytest
import trio
from hypothesis import given, settings
from trio.testing import MockClock

from tests.tasks.history import History, histories
from tests.tasks.history_play import play


def hold(history: History) -> None:
    """Plays a history on a fresh clock; fails with its story if a rule does not hold."""
    story: list[str] = []
    broken = trio.run(play, history, story, clock=MockClock(autojump_threshold=0))
    if broken is not None:
        pytest.fail("\n".join((broken, repr(history.shape), *story)), pytrace=False)


@given(histories(max_size=20))
@settings(max_examples=60)
def test_every_rule_holds_in_every_history(history: History) -> None:
    """What no single test thought of: service, drains, bytes, counters and routes, whatever meets whatever."""
    hold(history)


@pytest.mark.soak
@given(histories(max_size=40))
@settings(max_examples=1000)
def test_every_rule_holds_in_every_long_history(history: History) -> None:
    """The same for hours of virtual time, and more of everything."""
    hold(history)
