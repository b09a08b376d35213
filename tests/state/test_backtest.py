"""A backtest tells what the same evidence would have done under other settings, to the instant, and claims no more."""

from typing import Any

import attrs
from hypothesis import given

from sniffgate.address import Address
from sniffgate.config.schema import Config, Failback, NodeConfig, ProbeKind
from sniffgate.state.backtest import LeftOut, Run, Unwatched, backtest
from sniffgate.state.course import Retirement, Shortage
from sniffgate.state.events import (
    ConfigApplied,
    Event,
    FailureKind,
    ForwardFailed,
    OperatorSwitched,
    ProbeFailed,
    ProbeSucceeded,
    TimePassed,
)
from sniffgate.state.history import GapFound, LinesMissing, TornLine
from sniffgate.state.log_lines import gap_to_json, header_to_json
from sniffgate.state.model import RouteKey, State, Switch
from sniffgate.state.reducer import initial_state, next_wakeup, reduce
from sniffgate.state.serial import event_to_json
from tests.state.build import TCP, both_node, config_of, tcp, tcp_node, udp
from tests.state.strategies import configs, histories

ROUTE = RouteKey("default", TCP)
PAIR = (tcp_node("a", priority=2), tcp_node("b", priority=1))


def settings(*nodes: NodeConfig, **values: Any) -> Config:
    return config_of(*(nodes or PAIR), **{"failure_threshold": 3, "success_threshold": 2, **values})


def recording(config: Config, *events: Event, state: State | None = None, late: float = 0.0) -> list[str]:
    """The log of a gateway that met `events`; it wakes for its timers, `late` seconds after each."""
    state = initial_state(config) if state is None else state
    lines = [header_to_json(state, 0, 0)]
    for event in events:
        while (due := next_wakeup(state)) + late <= event.at:
            tick = TimePassed(at=due + late)
            state = reduce(state, tick)
            lines.append(event_to_json(tick, len(lines)))
        state = reduce(state, event)
        lines.append(event_to_json(event, len(lines)))
    return lines


def fails(node: str, *times: float) -> list[Event]:
    return [ProbeFailed(at=at, endpoint=tcp(node), error="connection refused") for at in times]


def works(node: str, *times: float) -> list[Event]:
    return [ProbeSucceeded(at=at, endpoint=tcp(node), latency=0.001) for at in times]


def the_run(lines: list[str], config: Config) -> Run:
    (run,) = backtest(lines, config)
    assert isinstance(run, Run)
    return run


def told(switches: list[Switch]) -> list[tuple[float, str, str]]:
    return [(each.at, "".join(each.after), each.reason.value) for each in switches]


def both(run: Run) -> tuple[list[tuple[float, str, str]], list[tuple[float, str, str]]]:
    return told([each.switch for each in run.recorded.switches]), told([each.switch for each in run.other.switches])


OUTAGE = [*works("a", 1), *fails("a", 2, 3, 4, 5), *works("a", 6, 7, 8, 9, 10)]


def test_another_threshold_moves_the_switch_to_the_probe_that_decides() -> None:
    """The question of everybody who tunes a failover."""
    run = the_run(recording(settings(), *OUTAGE), settings(failure_threshold=2, success_threshold=4))

    assert ([(0.0, "a", "start"), (4.0, "b", "failover"), (7.0, "a", "failback")],
            [(0.0, "a", "start"), (3.0, "b", "failover"), (9.0, "a", "failback")]) == both(run)  # fmt: skip
    assert [1, 5, 8] == [each.line for each in run.recorded.switches]
    assert [1, 4, 10] == [each.line for each in run.other.switches]


def test_a_timer_of_the_other_settings_is_exact() -> None:
    """A failback delay runs out between two probes, and no event of the log stands there."""
    run = the_run(recording(settings(), *OUTAGE), settings(failback_delay=1.25))

    assert [(0.0, "a", "start"), (4.0, "b", "failover"), (8.25, "a", "failback")] == both(run)[1]
    assert (9, True) == (run.other.switches[-1].line, run.other.switches[-1].by_timer)


def test_a_tick_of_the_recording_ends_no_other_wait() -> None:
    """The recorded ticks answer the recorded timers; with a longer delay they come too early."""
    lines = recording(settings(failback_delay=1.25), *OUTAGE)

    assert sum('"time_passed"' in line for line in lines)
    assert (10.0, "a", "failback") == both(the_run(lines, settings(failback_delay=3.0)))[1][-1]
    assert (8.25, "a", "failback") == both(the_run(lines, settings(failback_delay=1.25)))[1][-1]


def test_a_tick_that_came_late_is_late_under_the_same_settings_too() -> None:
    """A real gateway wakes some milliseconds after the moment; the same settings must give what happened."""
    config = settings(failback_delay=1.25)
    late = [line.replace('"at":8.25', '"at":8.26') for line in recording(config, *OUTAGE)]
    run = the_run(late, config)

    assert (8.26, "a", "failback") == both(run)[0][-1]
    assert run.recorded.switches == run.other.switches


def test_what_is_due_after_the_last_line_is_not_told() -> None:
    """Nobody knows whether the node was still well by then."""
    run = the_run(recording(settings(), *OUTAGE), settings(failback_delay=3.5))

    assert 10.0 == run.ended_at
    assert (4.0, "b", "failover") == both(run)[1][-1]


@given(history=histories())
def test_the_same_settings_give_the_very_same_switches(history: tuple[Config, tuple[Event, ...]]) -> None:
    """Else a difference between the two columns would mean nothing."""
    config, events = history
    kept = [each for each in events if not isinstance(each, ConfigApplied)]
    run = the_run(recording(config, *kept), config)

    assert run.recorded.switches == run.other.switches
    assert run.recorded.shortages == run.other.shortages
    assert run.recorded.retirements == run.other.retirements
    assert run.recorded.state == run.other.state


@given(history=histories())
def test_ticks_that_come_late_give_the_same_switches_too(history: tuple[Config, tuple[Event, ...]]) -> None:
    """Other events may come between the moment and its tick."""
    config, events = history
    kept = [each for each in events if not isinstance(each, ConfigApplied)]
    run = the_run(recording(config, *kept, late=0.375), config)

    assert run.recorded.switches == run.other.switches
    assert run.recorded.state == run.other.state


@given(history=histories(), other=configs())
def test_other_settings_give_what_a_gateway_with_them_would_have_done(
    history: tuple[Config, tuple[Event, ...]], other: Config
) -> None:
    """The backtest is the gateway's own reducer with the gateway's own timers, and nothing of its own."""
    config, events = history
    kept = [each for each in events if not isinstance(each, ConfigApplied)]
    run = the_run(recording(config, *kept), other)
    state = initial_state(other)
    expected = list(state.switches)
    for event in kept:
        while (due := next_wakeup(state)) <= event.at:
            before, state = state, reduce(state, TimePassed(at=due))
            if state is before:
                break
            expected += [each for each in state.switches if each.epoch > before.epoch]
        before, state = state, reduce(state, event)
        expected += [each for each in state.switches if each.epoch > before.epoch]

    assert told(expected) == both(run)[1]


def test_what_operators_asked_for_is_asked_for_again_unless_it_would_be_refused() -> None:
    """A wish is evidence of what people wanted, not of what was right under other settings."""
    switch = OperatorSwitched(at=2.0, node="b")
    lines = recording(settings(), *works("a", 1), switch)

    assert (2.0, "b", "operator") == both(the_run(lines, settings(failback=Failback.MANUAL)))[1][-1]
    alone = the_run(lines, settings(PAIR[0]))
    assert (LeftOut(line=3, at=2.0, event=switch, reason="no node is named 'b'"),) == alone.left_out
    assert [(0.0, "a", "start")] == both(alone)[1]


def test_reloads_of_the_recording_are_left_out() -> None:
    """The other settings stay in force: that is what is tried."""
    applied = ConfigApplied(at=2.5, config=settings(failure_threshold=1))
    lines = recording(settings(), *fails("a", 2), applied, *fails("a", 3, 4))
    run = the_run(lines, settings())

    assert ([(0.0, "a", "start"), (3.0, "b", "failover")], [(0.0, "a", "start"), (4.0, "b", "failover")]) == both(run)
    assert (LeftOut(line=3, at=2.5, event=applied, reason="the other settings stay in force"),) == run.left_out


def test_evidence_is_matched_by_the_name_of_the_node() -> None:
    """A node that moved is another machine, and the reader is told."""
    lines = recording(settings(), *fails("a", 1, 2, 3), *works("b", 3.5))
    moved = settings(tcp_node("a", priority=2, tcp=Address("elsewhere.example", 80)), tcp_node("c"))
    run = the_run(lines, moved)

    assert (3.0, "c", "failover") == both(run)[1][-1]
    assert {tcp("a")} == run.readdressed
    assert {tcp("a"): 3, tcp("b"): 1} == run.evidence


def test_an_address_that_a_reload_of_the_recording_brought_counts_too() -> None:
    """For a time the evidence was about another machine."""
    moved = settings(tcp_node("a", priority=2, tcp=Address("elsewhere.example", 80)), PAIR[1])
    run = the_run(recording(settings(), ConfigApplied(at=1.0, config=moved)), settings())

    assert {tcp("a")} == run.readdressed


def test_a_log_that_begins_in_the_middle_meets_the_other_settings_as_by_a_reload() -> None:
    """A rotated file has no beginning, but its header says all there was."""
    state = initial_state(settings())
    for event in fails("a", 2, 3, 4):
        state = reduce(state, event)
    run = the_run(recording(settings(), *works("a", 6, 7), state=state), settings(failback=Failback.MANUAL))

    assert not run.is_whole
    assert ([(7.0, "a", "failback")], []) == both(run)
    raised = settings(PAIR[0], tcp_node("b", priority=1), tcp_node("c", priority=3))
    run = the_run(recording(settings(), *works("a", 6, 7), state=state), settings(PAIR[0], tcp_node("c", priority=3)))
    assert [(4.0, "c", "reload")] == both(run)[1]
    assert not the_run(recording(settings(), *works("a", 6), state=state), raised).other.switches


def test_a_part_that_follows_is_the_same_run_and_a_restart_another() -> None:
    """A rotation is no event; a restart forgets everything."""
    first = recording(settings(), *fails("a", 2, 3))
    state = initial_state(settings())
    for event in fails("a", 2, 3):
        state = reduce(state, event)
    second = recording(settings(), *fails("a", 4), state=state)
    (run,) = backtest([*first, *second], settings())
    runs = list(backtest([*first, *recording(settings(), *fails("a", 4))], settings()))

    assert isinstance(run, Run)
    assert (1, 5, (4.0, "b", "failover")) == (run.first_line, run.last_line, both(run)[1][-1])
    assert [(1, 3, 1), (4, 5, 1)] == [
        (each.first_line, each.last_line, len(each.other.switches)) for each in runs if isinstance(each, Run)
    ]


def test_nothing_is_tried_past_what_is_missing() -> None:
    """As in a replay: what was lost may have held anything."""
    lines = recording(settings(), *fails("a", 2, 3, 4))
    with_gap = [*lines[:3], gap_to_json(2), lines[3]]
    taken = [*lines[:2], lines[3]]
    torn = [*lines, '{"type":']

    for log, finding, last in (
        (with_gap, GapFound(3, 2), 3),
        (taken, LinesMissing(2, 3, 1), 2),
        (torn, TornLine(5), 4),
    ):
        missing, run = backtest(log, settings())
        assert finding == missing
        assert isinstance(run, Run)
        assert last == run.last_line


def test_time_without_a_usable_node_and_on_failing_ones_is_counted() -> None:
    """Fewer switches are not better in themselves: this is what they cost."""
    alone = settings(PAIR[0], fail_open=False)
    lines = recording(alone, *fails("a", 2, 3, 4), *works("a", 6, 7, 9))
    run = the_run(lines, settings(PAIR[0], fail_open=False, failure_threshold=2, success_threshold=1))

    assert Shortage(unusable=3.0, failing=2.0) == run.recorded.shortages[ROUTE]
    assert Shortage(unusable=3.0, failing=1.0) == run.other.shortages[ROUTE]


def test_live_traffic_says_what_fails_too() -> None:
    """A node that refuses connects is failing, before any probe has said so; a reset may be the client's doing."""
    refused = ForwardFailed(at=2.0, endpoint=tcp("a"), kind=FailureKind.REFUSED)
    reset = attrs.evolve(refused, at=1.0, kind=FailureKind.RESET)
    run = the_run(recording(settings(), reset, refused, *works("a", 5)), settings())

    assert Shortage(unusable=0.0, failing=3.0) == run.recorded.shortages[ROUTE]


def test_the_deadlines_of_drains_are_those_that_leases_would_have() -> None:
    """What is cut follows from them."""
    other = settings(failure_threshold=2, drain_timeout=5.0)
    run = the_run(recording(settings(drain_timeout=2.5), *OUTAGE), other)
    lifted = the_run(recording(settings(drain_timeout=4.0), *OUTAGE), settings(failback_drain_timeout=1.0))

    def drain(node: str, since: float, deadline: float) -> Retirement:
        return Retirement(pool="default", endpoint=tcp(node), since_ms=since * 1000, deadline_ms=deadline * 1000)

    assert [drain("a", 4.0, 6.5), drain("b", 7.0, 9.5)] == run.recorded.retirements
    assert [drain("b", 7.0, 12.0)] == run.other.retirements  # a was back at 7, before its deadline at 8
    assert [drain("b", 7.0, 11.0)] == lifted.recorded.retirements
    assert [drain("b", 7.0, 8.0)] == lifted.other.retirements


def test_an_endpoint_that_nothing_looked_at_is_told_of() -> None:
    """A follower over UDP is probed only in doubt: where the recording had none, its return cannot be dated."""
    nodes = (both_node("a", priority=2), both_node("b", priority=1))
    refused = [ForwardFailed(at=at, endpoint=udp("a"), kind=FailureKind.REFUSED) for at in (1.0, 1.25)]
    healed = ProbeSucceeded(at=1.5, endpoint=udp("a"), latency=0.001)
    lines = recording(settings(*nodes, passive_eject_threshold=3), *refused, healed)
    run = the_run(lines, settings(*nodes, passive_eject_threshold=2))

    assert run.unwatched == ()  # the refusals put it in doubt, so it was looked at
    unprobed = tuple(attrs.evolve(each, probe=ProbeKind.NONE) for each in nodes)
    lines = recording(settings(*unprobed, passive_eject_threshold=3), *refused)
    run = the_run(lines, settings(*unprobed, passive_eject_threshold=2))
    assert (Unwatched(line=3, at=1.25, endpoint=udp("a")),) == run.unwatched
    assert (1.25, "b", "failover") == both(run)[1][-1]


def test_an_unwatched_endpoint_is_told_of_once() -> None:
    """More evidence of the same is no news."""
    nodes = tuple(attrs.evolve(each, probe=ProbeKind.NONE) for each in PAIR)
    refused = [ForwardFailed(at=at, endpoint=tcp("a"), kind=FailureKind.REFUSED) for at in (1.0, 1.25, 1.5)]
    run = the_run(recording(settings(*nodes, passive_eject_threshold=9, failure_threshold=9), *refused),
                  settings(*nodes, passive_eject_threshold=2))  # fmt: skip

    assert 1 == len(run.unwatched)


def test_both_begin_with_the_first_table() -> None:
    """Another order of priorities is seen from the first moment on."""
    run = the_run(recording(settings()), settings(attrs.evolve(PAIR[0], priority=0), PAIR[1]))

    assert ([(0.0, "a", "start")], [(0.0, "b", "start")]) == both(run)


def test_the_wall_clock_runs_beside() -> None:
    """The flow log knows no other: timers have their time of day, and so have events that came without one."""
    noon = 1_772_366_400_000
    config = settings()
    events = [attrs.evolve(each, wall_ms=noon + int(each.at * 1000)) for each in OUTAGE[:-1]]
    lines = recording(config, *events, OUTAGE[-1], state=initial_state(config, wall_ms=noon))
    run = the_run(lines, settings(failback_delay=1.25))
    back = run.other.switches[-1].switch

    assert run.is_whole
    assert (8.25, noon + 8250) == (back.at, back.wall_ms)
    assert [noon, noon + 4000, noon + 7000, noon + 8250] == [each.from_ms for each in run.other.tables]
    assert (noon + 8250, noon + 18250) == (run.other.retirements[-1].since_ms, run.other.retirements[-1].deadline_ms)
    assert noon + 10_000 == run.ended_ms
