"""The reducer against a second opinion that was written from the rules alone."""

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from sniffgate.config.schema import Config
from sniffgate.state.events import ConfigApplied, Event, TimePassed
from sniffgate.state.model import State
from sniffgate.state.reducer import initial_state, next_wakeup, reduce
from tests.state.oracle import World, retell
from tests.state.strategies import STEPS, configs, events, histories


def agree(world: World, state: State) -> None:
    """Both say the same about everything that traffic depends on."""
    assert world.config == state.config
    assert {where: health["verdict"] for where, health in world.health.items()} == {
        tuple(endpoint): health.verdict.value for endpoint, health in state.health.items()
    }
    assert world.pins == {tuple(key): name for key, name in state.pins.items()}
    assert world.routes == {
        tuple(key): {
            "mode": route.mode.value,
            "active": list(route.active),
            "standbys": list(route.standbys),
            "trial": route.trial,
            "pin": route.pin,
        }
        for key, route in state.routes.items()
    }


def with_timers(state: State, event: Event, history: list[Event]) -> State:
    """Folds every timer that is due before `event`, as the ticker does, and then the event."""
    while (wakeup := next_wakeup(state)) <= event.at:
        history.append(TimePassed(at=wakeup))
        state = reduce(state, history[-1])
    history.append(event)
    return reduce(state, event)


class Gateway(RuleBasedStateMachine):
    """Any events in any order: after each, the reducer and the oracle agree."""

    @initialize(config=configs())
    def start(self, config: Config) -> None:
        self.first: Config = config
        self.state = initial_state(config)
        self.history: list[Event] = []
        agree(retell(config, []), self.state)

    @rule(step=STEPS, choices=st.data())
    def something_happens(self, step: float, choices: st.DataObject) -> None:
        at = max(self.state.now, *(event.at for event in self.history), 0.0) + step
        event = choices.draw(events(at, self.state.config))
        self.state = with_timers(self.state, event, self.history)
        agree(retell(self.first, self.history), self.state)

    @precondition(lambda self: next_wakeup(self.state) < float("inf"))
    @rule()
    def the_next_timer_comes(self) -> None:
        self.state = with_timers(self.state, TimePassed(at=next_wakeup(self.state)), self.history)
        agree(retell(self.first, self.history), self.state)


TestGateway = Gateway.TestCase


@given(story=histories())
def test_the_oracle_agrees_at_the_end_of_any_history(story: tuple[Config, tuple[Event, ...]]) -> None:
    """Longer histories than a state machine reaches in its steps, compared whenever a reload or the end comes."""
    first, told = story
    state, history = initial_state(first), list[Event]()
    for event in told:
        state = with_timers(state, event, history)
        if isinstance(event, ConfigApplied):
            agree(retell(first, history), state)
    agree(retell(first, history), state)
