"""The reducer against a second opinion that was written from the rules alone."""

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from sniffgate.config.schema import Config
from sniffgate.state.events import Event, TimePassed
from sniffgate.state.model import State
from sniffgate.state.reducer import initial_state, next_wakeup, reduce
from tests.state.oracle import World
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


def with_timers(state: State, event: Event) -> list[Event]:
    """`event` behind every timer that is due before it, as the ticker would have sent them."""
    due: list[Event] = []
    while (wakeup := next_wakeup(state)) <= event.at:
        due.append(TimePassed(at=wakeup))
        state = reduce(state, due[-1])
    return [*due, event]


class Gateway(RuleBasedStateMachine):
    """Any events in any order: after each, the reducer and the oracle agree."""

    @initialize(config=configs())
    def start(self, config: Config) -> None:
        self.state, self.world = initial_state(config), World(config)
        agree(self.world, self.state)

    @rule(step=STEPS, choices=st.data())
    def something_happens(self, step: float, choices: st.DataObject) -> None:
        self.happens(choices.draw(events(self.world.now + step, self.state.config)))

    @precondition(lambda self: next_wakeup(self.state) < float("inf"))
    @rule()
    def the_next_timer_comes(self) -> None:
        self.happens(TimePassed(at=next_wakeup(self.state)))

    def happens(self, what: Event) -> None:
        for event in with_timers(self.state, what):
            self.world.tell(event)
            self.state = reduce(self.state, event)
            agree(self.world, self.state)


TestGateway = Gateway.TestCase


@given(story=histories())
def test_the_oracle_agrees_all_along_any_history(story: tuple[Config, tuple[Event, ...]]) -> None:
    """The rules were written down twice, independently; where the two differ, one of them is wrong."""
    first, told = story
    state, world = initial_state(first), World(first)
    for what in told:
        for event in with_timers(state, what):
            world.tell(event)
            state = reduce(state, event)
            agree(world, state)
