"""What holds of every history."""

from hypothesis import assume, given
from hypothesis import strategies as st

from sniffgate.config.schema import Config, RouteKey
from sniffgate.state.events import ConfigApplied, Event, OperatorReleased, TimePassed
from sniffgate.state.model import RouteMode, State, Verdict
from sniffgate.state.reducer import initial_state, next_wakeup, reduce
from sniffgate.state.serial import event_from_json, event_to_json, state_from_json, state_to_json
from sniffgate.state.verdict import is_enabled, is_usable, may_join
from tests.state.strategies import histories

History = tuple[Config, tuple[Event, ...]]


def steps(history: History) -> list[tuple[State, Event, State]]:
    """Every event with the state before and after it."""
    state, found = initial_state(history[0]), []
    for event in history[1]:
        found.append((state, event, reduce(state, event)))
        state = found[-1][2]
    return found


def table(state: State) -> object:
    """What an epoch numbers."""
    return state.routes, state.pins, state.config.listeners


@given(history=histories())
def test_folding_is_deterministic_and_its_counters_never_fall(history: History) -> None:
    """A replay ends where the gateway ended."""
    first, second = steps(history), steps(history)

    assert first == second
    for before, _, after in first:
        assert after.now >= before.now
        assert after.epoch - before.epoch in (0, 1)
        assert (after is before) == (after.revision == before.revision)
        assert after.revision - before.revision in (0, 1)


@given(history=histories())
def test_the_epoch_moves_exactly_with_the_table(history: History) -> None:
    """Tasks act on epochs: one too few is missed, one too many is work for nothing."""
    for before, _, after in steps(history):
        assert (before.epoch == after.epoch) == (table(before) == table(after))


@given(history=histories())
def test_a_state_in_which_nothing_changed_is_the_same_object(history: History) -> None:
    """Nobody is woken for nothing: a change is always a change of something that can be seen."""
    for before, _, after in steps(history):
        if after is not before:
            seen = [(s.health, s.routes, s.pins, s.overrides, s.config) for s in (before, after)]
            assert seen[0] != seen[1]


@given(history=histories())
def test_a_second_look_changes_nothing(history: History) -> None:
    """Routes are a fixed point: what a timer or a release may bring, it brings at once."""
    for _, event, after in steps(history):
        if next_wakeup(after) > after.now:
            assert after is reduce(after, TimePassed(at=after.now))
        if isinstance(event, OperatorReleased):
            assert after is reduce(after, event)


@given(history=histories())
def test_a_verdict_falls_only_for_a_reason(history: History) -> None:
    """A full streak, an ejection, or the end of one."""
    for before, event, after in steps(history):
        if isinstance(event, ConfigApplied):
            continue
        rules = after.config.globals
        for endpoint, health in after.health.items():
            was = before.health[endpoint]
            if was.verdict is health.verdict:
                continue
            assert health.since == after.now
            match health.verdict:
                case Verdict.UNHEALTHY:
                    assert health.bad_streak >= rules.failure_threshold or health.is_ejected
                case Verdict.HEALTHY:
                    assert not health.is_ejected
                    served = was.verdict is Verdict.PROBATION or not after.config.member(endpoint).node.is_probed
                    assert served or health.good_streak >= rules.success_threshold
                case verdict:
                    assert (Verdict.PROBATION, True) == (verdict, was.is_ejected)


@given(history=histories())
def test_active_sets_hold_the_usable_and_only_them(history: History) -> None:
    """Nobody usable is left out of its set; the unusable are in one only when nobody is usable at all."""
    for _, _, state in steps(history):
        for key in state.config.route_keys:
            route, members = state.routes[key], state.config.members(key)
            usable = {
                node.name
                for node, endpoint, _ in members
                if is_enabled(state, node) and is_usable(state, node, endpoint)
            }
            assert (route.mode is RouteMode.NORMAL) == bool(usable)
            if route.mode is not RouteMode.NORMAL:
                continue
            assert set(route.active) | set(route.standbys) == usable
            assert not set(route.active) & set(route.standbys)
            left_out = [
                node
                for node, endpoint, _ in members
                if node.name in route.standbys and may_join(state, node, endpoint) and not route.pin
            ]
            assert all(route.tier is not None and node.priority != route.tier for node in left_out)


@given(history=histories())
def test_a_pin_is_honoured_while_its_node_is_usable(history: History) -> None:
    """And none outlives its node."""
    for _, _, state in steps(history):
        for key, name in state.pins.items():
            (member,) = [member for member in state.config.members(key) if member.node.name == name]
            assert is_enabled(state, member.node)
            if is_usable(state, member.node, member.endpoint):
                assert (name,) == state.routes[key].active
            else:
                assert state.routes[key].mode is not RouteMode.NORMAL


@given(history=histories())
def test_every_endpoint_has_its_health_and_every_route_its_place(history: History) -> None:
    """The state and its configuration never disagree about who there is."""
    for _, _, state in steps(history):
        assert set(state.config.endpoints) == set(state.health)
        assert set(state.config.route_keys) == set(state.routes)
        assert set(state.overrides) <= {node.name for node in state.config.nodes}
        assert all(isinstance(key, RouteKey) for key in state.pins)
        for endpoint, health in state.health.items():
            assert not health.is_ejected or health.verdict is Verdict.UNHEALTHY
            unprobed = not state.config.member(endpoint).node.is_probed
            assert not unprobed or health.verdict is not Verdict.UNHEALTHY or health.is_ejected


@given(history=histories(), fraction=st.sampled_from((0.25, 0.5, 0.875)))
def test_timers_are_exact_and_come_to_an_end(history: History, fraction: float) -> None:
    """Never early, never for nothing, and no more of them than there is to do."""
    state = initial_state(history[0])
    for event in history[1]:
        state = reduce(state, event)
    for _ in range(4 * len(state.health) + len(state.routes) + 1):
        wakeup = next_wakeup(state)
        if wakeup == float("inf"):
            return
        if wakeup > state.now:
            early = state.now + (wakeup - state.now) * fraction
            assume(early < wakeup)
            assert state is reduce(state, TimePassed(at=early))
        after = reduce(state, TimePassed(at=wakeup))
        assert after is not state
        assert next_wakeup(after) > after.now
        state = after
    raise AssertionError("timers without end")


@given(history=histories(max_size=10))
def test_what_is_written_down_folds_to_the_same_state(history: History) -> None:
    """The event log proves what the gateway did."""
    first, events = history
    state = initial_state(first)
    read = state_from_json(state_to_json(state))
    for event in events:
        state = reduce(state, event)
        read = reduce(read, event_from_json(event_to_json(event)))

    assert state == read
