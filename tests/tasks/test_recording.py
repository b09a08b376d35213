"""A run's event log counts what it could not write, for `stats`."""

from pathlib import Path

import trio

from sniffgate.state.events import TimePassed
from sniffgate.tasks.recording import Recording
from tests.state.build import Story, config_of, tcp_node


async def test_lost_lines_are_counted_where_there_is_a_log_and_unknown_where_there_is_none(tmp_path: Path) -> None:
    """A hole in the log must be seen before somebody needs what was in it."""
    state = Story(tcp_node("a")).state
    silent, full = Recording(config_of()), Recording(config_of(event_log="/dev/full"))
    with trio.fail_after(20):
        for recording in (silent, full):
            recording.observe(state, TimePassed(at=1.0), state)
            await recording.close()

    assert (None, True) == (silent.lost, bool(full.lost))
