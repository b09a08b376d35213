"""What differs between two states."""

from hypothesis import given

from sniffgate.config.schema import Config
from sniffgate.state.difference import changed_health
from sniffgate.state.events import Event
from sniffgate.state.reducer import initial_state, reduce
from tests.state.strategies import histories


@given(histories())
def test_the_endpoints_with_another_health_are_those_that_a_plain_look_finds(
    history: tuple[Config, tuple[Event, ...]],
) -> None:
    """The quick way goes by the order of the endpoints, which only a reload may change."""
    config, events = history
    state = initial_state(config)
    for event in events:
        before, state = state, reduce(state, event)
        plain = [each for each, health in state.health.items() if before.health.get(each) is not health]

        assert plain == [*changed_health(before, state)]
