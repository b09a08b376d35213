"""The number of flows that would have been cut is an estimate that says what it does not know."""

from sniffgate.address import Address
from sniffgate.config.schema import Config, ListenerConfig
from sniffgate.state.backtest import Run, backtest
from sniffgate.state.cuts import LATE_MS, Cuts, FlowSpan, cuts_in
from tests.state.build import TCP, UDP, config_of, tcp_node
from tests.state.test_backtest import OUTAGE, PAIR, recording

WEB = ListenerConfig(name="web", protocol=TCP, listen=Address("127.0.0.1", 80))


def settings(**values: object) -> Config:
    return config_of(*PAIR, listeners=(WEB,), **{"failure_threshold": 3, "success_threshold": 2, **values})


def a_run(recorded: Config, other: Config) -> Run:
    """One in which the recorded node a falls at 4 s and is back at 7 s."""
    (run,) = backtest(recording(recorded, *OUTAGE), other)
    assert isinstance(run, Run)
    return run


def a_flow(node: str, began: float, ended: float, *, was_cut: bool = False, listener: str = "web") -> FlowSpan:
    return FlowSpan(listener=listener, node=node, began_ms=began * 1000, ended_ms=ended * 1000, was_cut=was_cut)


def cut(run: Run, *flows: FlowSpan) -> tuple[Cuts, Cuts]:
    return cuts_in(run.recorded, run.recorded, flows), cuts_in(run.other, run.recorded, flows)


def test_a_flow_is_cut_when_it_outlives_the_deadline_of_a_drain_that_it_saw_begin() -> None:
    """The old node drains from 4 s on, until 5 s as recorded and until 4.25 s under the other settings."""
    run = a_run(settings(drain_timeout=1.0), settings(drain_timeout=0.25))

    assert (Cuts(), Cuts()) == cut(run, a_flow("a", 0, 4.25))
    assert (Cuts(), Cuts(surely=1, at_most=1)) == cut(run, a_flow("a", 0, 4.5))
    assert (Cuts(surely=1, at_most=1),) * 2 == cut(run, a_flow("a", 4, 9))
    assert (Cuts(), Cuts(moved=1)) == cut(a_run(settings(), settings(failure_threshold=2)), a_flow("a", 3.5, 3.75))


def test_what_was_cut_would_have_lived_longer_nobody_knows_how_long() -> None:
    """Its end in the log is the gateway's doing, so it says nothing about another deadline after it."""
    victim = a_flow("a", 1, 5, was_cut=True)

    assert (Cuts(surely=1, at_most=1), Cuts(at_most=1)) == cut(
        a_run(settings(drain_timeout=1.0), settings(drain_timeout=2.0)), victim
    )
    assert (Cuts(surely=1, at_most=1), Cuts()) == cut(
        a_run(settings(drain_timeout=1.0), settings(failure_threshold=5)), victim
    )
    never = a_run(settings(drain_timeout=1.0), settings(drain_timeout=float("inf")))
    assert Cuts() == cut(never, victim)[1]


def test_the_line_of_a_cut_flow_may_be_a_little_early_or_late() -> None:
    """Two clocks that tell milliseconds, and a scheduler between them."""
    run = a_run(settings(drain_timeout=1.0), settings(drain_timeout=1.0))

    assert Cuts(surely=1, at_most=1) == cut(run, a_flow("a", 1, 5 - LATE_MS / 2000, was_cut=True))[1]
    assert Cuts(at_most=1) == cut(run, a_flow("a", 1, 5 - LATE_MS / 1000, was_cut=True))[1]


def test_a_flow_that_would_have_had_another_node_is_taken_to_live_there() -> None:
    """Under another order of priorities b is in use, and never drains."""
    swapped = config_of(
        tcp_node("a", priority=1), tcp_node("b", priority=2), listeners=(WEB,), failure_threshold=3, drain_timeout=0.0
    )
    run = a_run(settings(drain_timeout=0.0), swapped)

    assert (Cuts(surely=1, at_most=1), Cuts(moved=1)) == cut(run, a_flow("a", 1, 9))
    assert Cuts() == cut(run, a_flow("b", 1, 9))[1]


def test_a_flow_that_was_passed_on_to_a_standby_stays_there() -> None:
    """The node in use refused it, and would have refused it again."""
    run = a_run(settings(), settings(failure_threshold=2))

    assert (Cuts(), Cuts()) == cut(run, a_flow("b", 1, 2))


def test_a_flow_without_a_place_in_the_other_settings_is_not_guessed_at() -> None:
    """Its listener is gone, or it would have found no node."""
    nobody = a_run(settings(), config_of(*PAIR, listeners=(WEB,), failure_threshold=3, fail_open=False))
    closed = a_run(settings(), config_of(PAIR[0], listeners=(WEB,), failure_threshold=3, fail_open=False))
    udp_only = a_run(
        settings(), config_of(*PAIR, listeners=(ListenerConfig(name="web", protocol=UDP, listen=WEB.listen),))
    )

    assert Cuts() == cut(nobody, a_flow("b", 5, 6))[1]
    assert Cuts(unknown=1) == cut(closed, a_flow("b", 5, 6))[1]
    assert Cuts(unknown=1) == cut(nobody, a_flow("a", 1, 2, listener="api"))[1]
    assert Cuts(unknown=1) == cut(udp_only, a_flow("a", 1, 2))[1]


def test_what_begins_after_the_drain_has_nothing_to_do_with_it() -> None:
    """A retry on the old node opens a lease of its own."""
    run = a_run(settings(drain_timeout=1.0), settings(drain_timeout=1.0))

    assert (Cuts(), Cuts()) == cut(run, a_flow("a", 4.5, 6.75))
