"""Each rule sees what breaks it: shown states that a correct gateway never has."""

from itertools import islice
from typing import Any, cast

import attrs
import trio
from trio.testing import MockClock

from sniffgate.address import Address
from sniffgate.config.schema import Failback, ListenerConfig, ProbeKind, RouteKey, Transport
from sniffgate.net.relay import EndReason
from sniffgate.simulation.broken import Broken
from sniffgate.simulation.ejections import EjectionBook, lasting
from sniffgate.simulation.failback import FailbackBook
from sniffgate.simulation.reach import Promise, Weather, detection_time, recovery_time, wrong_verdicts
from sniffgate.simulation.routes import wrong_routes
from sniffgate.simulation.streaks import StreakBook
from sniffgate.simulation.watch import Watch
from sniffgate.state.events import (
    FailureKind,
    ForwardFailed,
    ForwardSucceeded,
    OperatorReleased,
    ProbeFailed,
    ProbeSilent,
    ProbeSucceeded,
    TimePassed,
)
from sniffgate.state.model import Cause, Endpoint, Mark, Override, State, Verdict
from sniffgate.state.reducer import initial_state, reduce
from sniffgate.tasks.flow_log import FlowRecord
from sniffgate.tasks.gateway import Gateway
from sniffgate.tasks.ledger import Ledger
from tests.state.build import TCP, UDP, both_node, config_of, tcp, tcp_node, udp

A, B = tcp_node("a", priority=2), tcp_node("b", priority=1)
ROUTE = RouteKey("default", TCP)
START = initial_state(config_of(A, B, failure_threshold=2, failback_delay=5.0))
TICK = TimePassed(at=0.0)


def with_health(state: State, endpoint: Endpoint, **fields: Any) -> State:
    """The state with something else known of an endpoint."""
    return attrs.evolve(state, health={**state.health, endpoint: attrs.evolve(state.health[endpoint], **fields)})


def at(state: State, now: float) -> State:
    """The same later."""
    return attrs.evolve(state, now=now)


# --- streaks --------------------------------------------------------------------------------------


def test_a_success_that_resets_no_streak_is_seen() -> None:
    """A node would fall by three failures in a day."""
    book = StreakBook()
    failed = ProbeFailed(at=1.0, endpoint=tcp("a"), error="no")
    one = reduce(START, failed)
    assert [] == list(book.observe(START, failed, one))
    answered = ProbeSucceeded(at=2.0, endpoint=tcp("a"), latency=0.0)

    assert [] == list(book.observe(one, answered, reduce(one, answered)))
    assert ["a/tcp: 1 failures in a row are counted, and 0 came after the last success"] == list(
        book.observe(one, answered, one)
    )


def test_verdicts_that_come_too_soon_are_seen() -> None:
    """Of either kind: one result is none."""
    book = StreakBook()
    failed = ProbeFailed(at=1.0, endpoint=tcp("a"), error="no")
    fallen = with_health(START, tcp("a"), verdict=Verdict.UNHEALTHY, cause=Cause.PROBES)
    assert ["a/tcp is unhealthy by 1 failures in a row, not by 2"] == list(book.observe(START, failed, fallen))
    answered = ProbeSucceeded(at=2.0, endpoint=tcp("a"), latency=0.0)
    back = with_health(fallen, tcp("a"), verdict=Verdict.HEALTHY)

    assert ["a/tcp is healthy by 1 good probes in a row, not by 2"] == list(book.observe(fallen, answered, back))


def test_failures_of_traffic_count_and_its_successes_where_nothing_is_probed() -> None:
    """What counts in health counts here."""
    book = StreakBook()
    quiet = initial_state(config_of(attrs.evolve(A, probe=ProbeKind.NONE), B))
    refused = ForwardFailed(at=1.0, endpoint=tcp("a"), kind=FailureKind.REFUSED)
    through = ForwardSucceeded(at=2.0, endpoint=tcp("a"))
    one = reduce(quiet, refused)
    assert [] == list(book.observe(quiet, refused, one))
    assert 1 == one.health[tcp("a")].bad_streak

    assert [] == list(book.observe(one, through, reduce(one, through)))
    assert [] != list(book.observe(one, through, one))


def test_what_is_no_evidence_and_nobodys_is_passed_over() -> None:
    """Silence counts as good at most; nodes come and go."""
    book = StreakBook()
    assert [] == list(book.observe(START, TICK, START))
    gone = ProbeFailed(at=1.0, endpoint=tcp("gone"), error="no")
    assert [] == list(book.observe(START, gone, START))
    lone = initial_state(config_of(both_node("a")))
    assert [] == list(book.observe(lone, ProbeSilent(at=1.0, endpoint=udp("a")), lone))


# --- ejections ------------------------------------------------------------------------------------


def ejected(state: State, now: float, until: float) -> State:
    """The endpoint a/tcp thrown out."""
    health = state.health[tcp("a")]
    fields = {"verdict": Verdict.UNHEALTHY, "ejected_until": until, "passive_ejects": health.passive_ejects + 1}
    return at(with_health(state, tcp("a"), **fields), now)


def returned(state: State, now: float) -> State:
    """The endpoint a/tcp back again."""
    return at(with_health(state, tcp("a"), verdict=Verdict.HEALTHY, ejected_until=None), now)


def test_an_ejection_that_does_not_grow_is_seen() -> None:
    """Within a minute of the return it is twice as long."""
    book = EjectionBook()
    out = ejected(START, 10.0, 11.0)
    assert [] == list(book.observe(START, out))
    back = returned(out, 12.0)
    assert [] == list(book.observe(out, back))
    again = ejected(back, 13.0, 14.0)

    assert ["a/tcp is ejected for 1 s, the 2. time in a row: 2 s are due"] == list(book.observe(back, again))


def test_after_a_minute_it_starts_anew() -> None:
    """The sixtieth second still counts."""
    book = EjectionBook()
    out = ejected(START, 10.0, 11.0)
    back = returned(out, 12.0)
    assert [] == [*book.observe(START, out), *book.observe(out, back)]

    assert [] == list(book.observe(back, ejected(back, 72.1, 73.1)))


def test_a_return_that_comes_too_soon_is_seen() -> None:
    """An ejection is a bound from below."""
    book = EjectionBook()
    out = ejected(START, 10.0, 11.0)
    assert [] == list(book.observe(START, out))

    assert ["a/tcp is back at 10.500, and was ejected until 11.000"] == list(book.observe(out, returned(out, 10.5)))


def test_a_node_that_is_replaced_has_no_past() -> None:
    """A reload gave the name to another machine."""
    book = EjectionBook()
    out = ejected(START, 10.0, 11.0)
    fresh = attrs.evolve(START, health=dict(START.health))
    assert [] == [*book.observe(START, out), *book.observe(out, fresh)]
    new = attrs.evolve(START, health={each: health for each, health in START.health.items() if each == tcp("b")})

    assert [] == [*book.observe(new, START), *book.observe(fresh, ejected(fresh, 12.0, 13.0))]


def test_ejections_double_up_to_the_bound() -> None:
    """As docs/failover.md has it, counted without a logarithm."""
    rules = config_of(eject_time=1.0, eject_time_max=5.0).globals

    assert [1.0, 2.0, 4.0, 5.0, 5.0] == [lasting(count, rules) for count in (1, 2, 3, 4, 1000)]
    assert 7.0 == lasting(3, attrs.evolve(rules, eject_time=7.0))


# --- failback -------------------------------------------------------------------------------------


def routed(state: State, node: str, tier: int) -> State:
    """The state one epoch later, with traffic at `node`."""
    route = attrs.evolve(state.routes[ROUTE], active=(node,), tier=tier)
    return attrs.evolve(state, routes={**state.routes, ROUTE: route}, epoch=state.epoch + 1)


def away_and_healthy(state: State, now: float) -> State:
    """Traffic is at the worse tier, and the better one is healthy since `now`."""
    return at(with_health(routed(state, "b", 1), tcp("a"), verdict=Verdict.HEALTHY), now)


def test_a_tier_that_takes_over_too_soon_is_seen() -> None:
    """Five seconds of good health are asked for."""
    book = FailbackBook()
    away = away_and_healthy(START, 10.0)
    assert [] == list(book.observe(START, TICK, away))
    told = "default/tcp went back to a, and nobody there was healthy for long enough"

    assert [told] == list(book.observe(away, TICK, at(routed(away, "a", 2), 14.9)))
    assert [] == list(book.observe(away, TICK, at(routed(away, "a", 2), 15.0)))
    assert [] == list(book.observe(away, OperatorReleased(at=11.0), at(routed(away, "a", 2), 11.0)))
    fallen = with_health(away, tcp("b"), verdict=Verdict.UNHEALTHY)
    assert [] == list(book.observe(away, TICK, at(routed(fallen, "a", 2), 11.0)))


def test_a_tier_that_does_not_take_over_is_seen() -> None:
    """Not later either; never by itself under manual; an operator's mark needs no proof."""
    book = FailbackBook()
    away = away_and_healthy(START, 10.0)
    assert [] == list(book.observe(START, TICK, away))
    assert [] == list(book.overdue(away, 15.0))
    assert ["default/tcp is still at b, and a/tcp should be back"] == list(book.overdue(away, 15.1))
    marked = attrs.evolve(away, overrides={"a": Override(mark=Mark.UP)})
    assert 1 == len(list(book.overdue(marked, 10.1)))
    manual = attrs.evolve(away, config=config_of(A, B, failback=Failback.MANUAL))

    assert [] == list(book.overdue(manual, 1e6))
    assert [] == list(book.overdue(START, 1e6))


# --- routes ---------------------------------------------------------------------------------------


def test_routes_that_cannot_be_are_seen() -> None:
    """Strangers, two tiers, fallen nodes and a pin that is not obeyed."""
    fallen = with_health(START, tcp("b"), verdict=Verdict.UNHEALTHY)
    both = attrs.evolve(START.routes[ROUTE], active=("a", "b"))

    assert [] == list(wrong_routes(START))
    assert ["default/tcp: ('a', 'b') are of several tiers"] == list(
        wrong_routes(attrs.evolve(START, routes={ROUTE: both}))
    )
    assert ["default/tcp: b is in use and not usable"] == list(wrong_routes(routed(fallen, "b", 1)))
    assert ["default/tcp: b is pinned, and ('a',) in use"] == list(wrong_routes(attrs.evolve(START, pins={ROUTE: "b"})))
    assert ["default/tcp: ('c',) are not all members"] == list(islice(wrong_routes(routed(START, "c", 1)), 1))


# --- reach ----------------------------------------------------------------------------------------

SERVED = initial_state(
    config_of(
        A, B, listeners=(), probe_interval=1.0, probe_timeout=0.5, connect_timeout=2.0, success_threshold=2,
        failure_threshold=3,
    )
)  # fmt: skip


def test_the_times_follow_from_the_settings() -> None:
    """Two turns of 1.1 + 0.5 s and one that had begun, after a connect that began before; and likewise for a fall."""
    assert 2.0 + 3 * 1.6 == recovery_time(SERVED.config, A)
    assert 2.0 + 4 * 1.6 == detection_time(SERVED.config, A)
    assert 2.0 + 3 * (1.1 * 5 + 0.5) == recovery_time(SERVED.config, attrs.evolve(A, probe_interval=5.0))


def test_a_promise_needs_time_and_somebody_to_keep_it() -> None:
    """Who recovered just now may be out, and who hangs may take the client with it."""
    weather = Weather(changed={"a": 10.0})
    promise = Promise(weather)
    weather.faults["b.example", TCP] = "kill"
    assert None is promise.holds(SERVED, ROUTE, 16.7)
    assert "a" == promise.holds(SERVED, ROUTE, 16.9)
    weather.faults["b.example", TCP] = "freeze"  # probes do not see it, and the client may be there
    assert None is promise.holds(SERVED, ROUTE, 1000.0)
    weather.faults["a.example", TCP] = "kill"
    assert None is promise.holds(SERVED, ROUTE, 1000.0)


def test_an_ejected_node_has_its_time_from_the_end_of_the_ejection() -> None:
    """How long an ejection may last is another rule."""
    out = with_health(SERVED, tcp("a"), verdict=Verdict.UNHEALTHY, ejected_until=20.0)
    promise = Promise(Weather(faults={("b.example", TCP): "kill"}))

    assert None is promise.holds(out, ROUTE, 26.7)
    assert "a" == promise.holds(out, ROUTE, 26.9)


def test_wrong_verdicts_are_seen() -> None:
    """Dead and used, well and not used, never looked at, and out for ever."""
    config = attrs.evolve(SERVED.config, listeners=(_door(),))
    state = initial_state(config)
    weather = Weather(faults={("a.example", TCP): "kill"})
    assert [
        "a/tcp counts as usable, and has not been there for 100.0 s",
        "b/tcp was never probed",
    ] == list(wrong_verdicts(state, weather, 100.0))
    fallen = with_health(state, tcp("b"), verdict=Verdict.UNHEALTHY)
    assert "b/tcp counts as unhealthy, and has been well for 100.0 s" in list(wrong_verdicts(fallen, weather, 100.0))
    quiet = initial_state(attrs.evolve(config, nodes=(attrs.evolve(A, probe=ProbeKind.NONE),)))
    assert ["a/tcp is still ejected"] == list(
        wrong_verdicts(with_health(quiet, tcp("a"), ejected_until=50.0), Weather(), 100.0)
    )
    assert [] == list(wrong_verdicts(state, weather, 5.0))


def _door() -> ListenerConfig:
    return ListenerConfig(name="door", protocol=TCP, listen=Address("10.0.0.254", 80))


# --- endings --------------------------------------------------------------------------------------


class Counted:
    """As much of a gateway as is looked at in the end."""

    def __init__(self, *reasons: EndReason) -> None:
        self.ledger = Ledger()
        self.ledger.endings.update(reasons)


def look_back(watch: Watch, *reasons: EndReason) -> Broken | None:
    """What is found after the end."""
    watch.look_back(cast("Gateway", Counted(*reasons)))
    return watch.found


async def test_a_flow_without_a_reason_is_seen(autojump_clock: MockClock) -> None:
    """Every client that was served has a record."""
    watch = Watch(Weather(), served={(UDP, Address("10.0.0.9", 5)), (TCP, Address("10.0.0.9", 5))})
    watch.note_flow(_record(TCP, EndReason.COMPLETE))
    told = "the flow of 10.0.0.9:5 over udp ended without a reason"

    assert Broken("endings", told, 0.0) == look_back(watch, EndReason.COMPLETE)
    assert watch.broke.is_set()


async def test_counters_that_differ_from_the_records_are_seen(autojump_clock: MockClock) -> None:
    """Two ways of counting must come to the same."""
    found = look_back(Watch(Weather()), EndReason.DRAINED)

    assert found is not None
    assert "endings" == found.rule
    assert trio.current_time() == found.at


async def test_a_crashed_flow_is_seen(autojump_clock: MockClock) -> None:
    """It ended with a reason, and still."""
    watch = Watch(Weather())
    watch.note_flow(_record(TCP, EndReason.CRASHED))

    assert Broken("crashes", "a flow crashed", 0.0) == look_back(watch, EndReason.CRASHED)


async def test_a_pin_that_outlives_its_release_is_seen(autojump_clock: MockClock) -> None:
    """The operator asked for automatic choice."""
    watch = Watch(Weather())
    watch.observe(START, OperatorReleased(at=0.0), attrs.evolve(START, pins={ROUTE: "a"}))

    assert Broken("pins", "default/tcp keeps its pin though all were released", 0.0) == watch.found


def _record(transport: Transport, reason: EndReason) -> FlowRecord:
    client = Address("10.0.0.9", 5)
    return FlowRecord(
        listener="door", protocol=transport, client=client, node="a", up=1, down=1, duration=1.0, reason=reason, at=0.0
    )
