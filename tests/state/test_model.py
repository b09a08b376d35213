"""What the values hold of which nothing has been said: the states of old event logs lean on it."""

import attrs

from sniffgate.config.schema import Config, Strategy
from sniffgate.state.events import FailureKind, ForwardFailed, TimePassed
from sniffgate.state.model import (
    RECENT_SWITCHES,
    Cause,
    Health,
    Override,
    Route,
    RouteKey,
    RouteMode,
    State,
    Switch,
    SwitchReason,
    Verdict,
)  # fmt: skip
from tests.state.build import TCP, tcp

KEY = RouteKey("default", TCP)


def test_of_an_endpoint_nothing_is_known_at_first() -> None:
    """Unknown counts as usable; every streak and counter begins at nothing."""
    assert {
        "verdict": Verdict.UNKNOWN, "cause": Cause.START, "since": 0.0, "good_streak": 0, "bad_streak": 0,
        "stepped_at": None, "window": (), "ejections": 0, "ejected_until": None, "returned_at": None,
        "suspected": False, "joining": False, "last_error": "", "last_latency": None, "last_probe_at": None,
        "probe_ok": 0, "probe_fail": 0, "passive_ejects": 0, "promotions": 0, "changed_wall_ms": 0,
        "probed_wall_ms": 0,
    } == attrs.asdict(Health(), recurse=False)  # fmt: skip
    assert (False, True) == (Health().is_ejected, Health(ejected_until=0.0).is_ejected)


def test_no_wish_is_an_override_of_nothing() -> None:
    """It is left out of the state."""
    assert {"enabled": None, "drain": None, "drain_at": 0.0, "mark": None} == attrs.asdict(Override())


def test_a_route_of_which_nothing_is_said_is_closed() -> None:
    """Nobody is active in it, so nothing may go there."""
    assert {
        "key": KEY, "mode": RouteMode.CLOSED, "strategy": Strategy.PRIORITY, "active": (), "weights": (),
        "standbys": (), "trial": None, "pin": None, "tier": None,
    } == attrs.asdict(Route(key=KEY), recurse=False)  # fmt: skip


def test_a_state_and_a_switch_begin_at_the_start_of_all_counting() -> None:
    """Times, epochs and revisions are counted from nought; no wall is known."""
    state = State(config=Config(), health={}, pins={}, overrides={}, routes={})
    switch = Switch(epoch=1, route=KEY, before=(), after=(), reason=SwitchReason.START)

    assert (0.0, 0, 0, 0, ()) == (state.now, state.wall_ms, state.epoch, state.revision, state.switches)
    assert ("", 0.0, 0) == (switch.detail, switch.at, switch.wall_ms)


def test_an_event_without_more_to_say_says_no_more() -> None:
    """One failure, nobody's, of a client that had said nothing, at a time of no wall."""
    event = ForwardFailed(at=1.0, endpoint=tcp("a"), kind=FailureKind.RESET)

    assert ("", False, 0, 0) == (event.client, event.client_spoke, event.more, event.wall_ms)
    assert 0 == TimePassed(at=1.0).wall_ms


def test_a_hundred_switches_are_remembered() -> None:
    """As the manual says; the event log has them all."""
    assert 100 == RECENT_SWITCHES
