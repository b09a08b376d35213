"""The wall clock stands beside the gateway's own for people to read; it decides nothing."""

import attrs
from hypothesis import given
from hypothesis import strategies as st

from sniffgate.config.schema import Config
from sniffgate.state.events import Event
from sniffgate.state.model import State
from sniffgate.state.reducer import initial_state, next_wakeup, reduce
from tests.state.strategies import histories

DAY = 24 * 3600 * 1000  # milliseconds
NOON = 1_700_000_000_000


def without_wall_clock(state: State) -> State:
    """The state less everything that is shown and never decides."""
    health = {
        endpoint: attrs.evolve(each, changed_wall_ms=0, probed_wall_ms=0) for endpoint, each in state.health.items()
    }
    switches = tuple(attrs.evolve(each, wall_ms=0) for each in state.switches)
    return attrs.evolve(state, wall_ms=0, health=health, switches=switches)


@given(
    history=histories(), jumps=st.lists(st.sampled_from([-30 * DAY, -7_200_000, 0, 7_200_000, 30 * DAY]), min_size=1)
)
def test_a_wall_clock_that_jumps_changes_nothing_but_what_is_shown(
    history: tuple[Config, tuple[Event, ...]], jumps: list[int]
) -> None:
    """A time server's correction or a resumed machine must not move traffic, end a drain or return an ejected node."""
    config, events = history
    steady = jumping = initial_state(config, wall_ms=NOON)
    for number, event in enumerate(events):
        steady = reduce(steady, attrs.evolve(event, wall_ms=NOON))
        jumping = reduce(jumping, attrs.evolve(event, wall_ms=NOON + jumps[number % len(jumps)]))

        assert without_wall_clock(steady) == without_wall_clock(jumping)
        assert next_wakeup(steady) == next_wakeup(jumping)
