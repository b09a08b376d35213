"""What evidence does to one endpoint's health."""

import pytest

from sniffgate.config.schema import NodeConfig, ProbeKind
from sniffgate.state.events import FailureKind, ForwardFailed, TimePassed
from sniffgate.state.health import passive_failures
from sniffgate.state.model import Cause, Verdict
from sniffgate.state.reducer import forward_success_matters, next_wakeup
from tests.state.build import TCP, UDP, Story, both_node, tcp, tcp_node, udp, udp_node

A, B = tcp("a"), tcp("b")


def unprobed(name: str) -> NodeConfig:
    return tcp_node(name, probe=ProbeKind.NONE)


# --- probes ---------------------------------------------------------------------------------------


def test_a_new_endpoint_is_unknown_and_has_traffic() -> None:
    """A gateway that waits for its first probe refuses clients at every start."""
    story = Story(tcp_node("a"))

    assert Verdict.UNKNOWN is story.verdict(A)
    assert "a" == story.active()


def test_a_full_streak_of_failures_makes_unhealthy_and_not_one_less() -> None:
    """One lost packet is no outage."""
    story = Story(tcp_node("a")).bad(A, 2)
    assert Verdict.UNKNOWN is story.verdict(A)

    assert Verdict.UNHEALTHY is story.bad(A).verdict(A)
    assert Cause.PROBES is story.health(A).cause


def test_a_full_streak_of_successes_makes_healthy() -> None:
    """A service that is just starting answers once and falls over."""
    story = Story(tcp_node("a")).bad(A, 3).good(A)
    assert Verdict.UNHEALTHY is story.verdict(A)

    assert Verdict.HEALTHY is story.at(4.0).good(A).verdict(A)
    assert 4.0 == story.health(A).since


def test_a_result_against_the_streak_resets_it() -> None:
    """In a row means in a row."""
    story = Story(tcp_node("a")).bad(A, 2).good(A).bad(A, 2)
    assert Verdict.UNKNOWN is story.verdict(A)

    assert Verdict.UNHEALTHY is story.bad(A).good(A).bad(A).good(A).verdict(A)


def test_a_probe_leaves_its_numbers() -> None:
    """Status shows them."""
    health = Story(tcp_node("a")).at(2.0).good(A, latency=0.25).bad(A, error="timed out").health(A)

    assert (1, 1, 0.25, 2.0, "timed out") == (
        health.probe_ok,
        health.probe_fail,
        health.last_latency,
        health.last_probe_at,
        health.last_error,
    )


def test_the_speaking_transport_decides_for_the_whole_node() -> None:
    """`probe = "tcp"` says that TCP stands for both."""
    story = Story(both_node("a", probe=ProbeKind.TCP)).bad(A, 3)

    assert Verdict.UNHEALTHY is story.verdict(udp("a"))


def test_a_probe_that_does_not_speak_counts_for_nothing() -> None:
    """It comes late, from before the reload that silenced its transport."""
    story = Story(both_node("a", probe=ProbeKind.TCP))
    before = story.state

    assert story.bad(udp("a"), 3).state is before


def test_trouble_of_an_endpoint_that_is_spoken_for_is_looked_into_by_who_speaks() -> None:
    """Only the speaking transport is probed: unless it hears of the doubt, nobody looks before the next interval."""
    story = Story(both_node("a", probe=ProbeKind.TCP), both_node("b")).good(A, 2).refused(udp("a"))
    assert story.health(A).suspected
    assert Verdict.HEALTHY is story.verdict(A)

    assert not story.good(A).health(A).suspected


def test_a_late_probe_of_a_node_that_is_probed_no_more_counts_for_nothing() -> None:
    """Nothing but traffic could undo what it did."""
    story = Story(unprobed("a"))
    before = story.state

    assert story.bad(A, 3).good(A, 3).state is before


# --- UDP that follows -----------------------------------------------------------------------------


def test_a_silent_udp_endpoint_has_its_siblings_verdict() -> None:
    """Silence is what most UDP services answer to a stray byte."""
    story = Story(both_node("a")).silent(udp("a"), 5).bad(A, 3)
    assert Verdict.UNHEALTHY is story.verdict(udp("a"))

    assert Verdict.HEALTHY is story.good(A, 2).verdict(udp("a"))


def test_a_refused_udp_endpoint_falls_alone_and_is_never_followed() -> None:
    """A closed port is evidence of its own; TCP may be well."""
    story = Story(both_node("a")).bad(udp("a"), 3)

    assert Verdict.UNHEALTHY is story.verdict(udp("a"))
    assert Verdict.UNKNOWN is story.verdict(A)


def test_silence_heals_a_refused_udp_endpoint() -> None:
    """The port is open again: that is all that can be known."""
    story = Story(both_node("a")).bad(udp("a"), 3).silent(udp("a"))
    assert Verdict.UNHEALTHY is story.verdict(udp("a"))

    assert Verdict.UNKNOWN is story.silent(udp("a")).verdict(udp("a"))  # its sibling's, which nobody has probed


def test_silence_heals_nothing_while_the_sibling_is_unhealthy() -> None:
    """A machine that is off is silent too."""
    story = Story(both_node("a")).bad(udp("a"), 3).bad(A, 3).silent(udp("a"), 9)

    assert Verdict.UNHEALTHY is story.health(udp("a")).verdict


def test_silence_heals_a_refused_endpoint_without_a_sibling() -> None:
    """Nobody else could."""
    story = Story(udp_node("a")).bad(udp("a"), 3).silent(udp("a"), 2)

    assert Verdict.HEALTHY is story.verdict(udp("a"))


def test_silence_takes_one_refusal_back() -> None:
    """ICMP errors are rate-limited: refusals come between silences, and a service refused once deserves its peace."""
    story = Story(udp_node("a")).bad(udp("a"), 2).silent(udp("a")).bad(udp("a"))
    assert Verdict.UNKNOWN is story.verdict(udp("a"))

    assert Verdict.UNHEALTHY is story.bad(udp("a")).verdict(udp("a"))


# --- live traffic ---------------------------------------------------------------------------------


def test_enough_failures_within_the_window_eject_at_once() -> None:
    """Clients find out first."""
    story = Story(tcp_node("a"), tcp_node("b")).at(1.0).refused(A, 2)
    assert Verdict.UNKNOWN is story.verdict(A)

    story.at(2.0).refused(A)
    assert (Verdict.UNHEALTHY, Cause.TRAFFIC, 3.0) == (
        story.verdict(A),
        story.health(A).cause,
        story.health(A).ejected_until,
    )


def test_failures_outside_the_window_do_not_count() -> None:
    """Three refusals a day are no outage."""
    story = Story(tcp_node("a"), tcp_node("b"), failure_threshold=9)
    for second in (0.0, 5.0, 10.0):
        story.at(second).refused(A)

    assert Verdict.UNKNOWN is story.verdict(A)


def test_the_window_is_counted_as_of_now() -> None:
    """Status must not show failures that no longer count."""
    story = Story(tcp_node("a"), tcp_node("b")).refused(A).at(3.0).refused(A)
    health, settings = story.health(A), story.state.config.globals

    assert [2, 1, 0] == [passive_failures(health, settings, now) for now in (4.0, 5.0, 8.0)]


def test_good_probes_do_not_empty_the_window() -> None:
    """A node that answers probes and fails clients is worse than a dead one."""
    story = Story(tcp_node("a"), tcp_node("b")).refused(A).good(A).refused(A).good(A).refused(A)

    assert Verdict.UNHEALTHY is story.verdict(A)


def test_failures_that_could_not_be_sent_are_counted_with_the_next() -> None:
    """A full channel must not hide an outage."""
    assert Verdict.UNHEALTHY is Story(tcp_node("a"), tcp_node("b")).refused(A, more=2).verdict(A)


def test_failed_connects_are_steps_of_the_failure_streak_one_per_timeout() -> None:
    """A busy second is one observation, not a hundred."""
    story = Story(tcp_node("a"), tcp_node("b"), passive_eject_threshold=99).refused(A, 9)
    assert 1 == story.health(A).bad_streak

    story.at(0.8).timed_out(A).at(1.6).timed_out(A)
    assert (Verdict.UNHEALTHY, Cause.TRAFFIC, None) == (
        story.verdict(A),
        story.health(A).cause,
        story.health(A).ejected_until,
    )


def test_an_unprobed_endpoint_that_falls_by_its_streak_is_ejected() -> None:
    """Otherwise nothing would ever bring it back."""
    story = Story(unprobed("a"), unprobed("b"), passive_eject_threshold=99)
    for second in (0.0, 1.0, 2.0):
        story.at(second).refused(A)

    assert 3.0 == story.health(A).ejected_until


def test_the_last_usable_endpoint_is_not_ejected_by_resets_or_timeouts() -> None:
    """Bad service beats none."""
    story = Story(tcp_node("a"), tcp_node("b", enabled=False)).reset(A, 9).timed_out(A, 9)

    assert Verdict.UNKNOWN is story.verdict(A)
    assert Verdict.UNHEALTHY is Story(tcp_node("a")).refused(A, 3).verdict(A)


def test_a_reset_is_no_step_of_the_failure_streak() -> None:
    """The node took the connection."""
    assert 0 == Story(tcp_node("a"), tcp_node("b")).reset(A).health(A).bad_streak


def test_resets_after_the_client_spoke_are_only_suspicion() -> None:
    """Else any client could eject any node with garbage."""
    story = Story(tcp_node("a"), tcp_node("b")).reset(A, 9, client="10.0.0.1", spoke=True)

    assert Verdict.UNKNOWN is story.verdict(A)
    assert story.health(A).suspected


def test_without_probes_such_resets_count_once_per_client() -> None:
    """Nobody else would ever notice, and still one client alone must not do it."""
    story = Story(unprobed("a"), unprobed("b")).reset(A, 9, client="10.0.0.1", spoke=True)
    assert Verdict.UNKNOWN is story.verdict(A)

    story.reset(A, client="10.0.0.2", spoke=True).reset(A, client="10.0.0.3", spoke=True)
    assert Verdict.UNHEALTHY is story.verdict(A)


def test_a_refusal_counts_whatever_the_client_said() -> None:
    """Over UDP the client always spoke first."""
    story = Story(udp_node("a"), udp_node("b"))
    refused = ForwardFailed(at=0.0, endpoint=udp("a"), kind=FailureKind.REFUSED, client="10.0.0.1", client_spoke=True)

    assert Verdict.UNHEALTHY is story.fold(*[refused] * 3).verdict(udp("a"))


def test_a_broken_tripwire_is_suspicion_until_the_next_good_probe() -> None:
    """Idle connections end for many reasons."""
    story = Story(tcp_node("a")).tripped(A)
    assert story.health(A).suspected

    assert not story.good(A).health(A).suspected


def test_failures_of_an_endpoint_that_is_out_prove_nothing_new() -> None:
    """Under fail-open it still gets traffic; its ejection must not grow from that."""
    story = Story(tcp_node("a")).refused(A, 3)
    until = story.health(A).ejected_until

    assert until == story.at(0.5).refused(A, 9).health(A).ejected_until


# --- coming back ----------------------------------------------------------------------------------


def test_good_probes_bring_an_ejected_endpoint_back_when_its_time_is_over() -> None:
    """At once then, though the streak was full before."""
    story = Story(tcp_node("a"), tcp_node("b")).refused(A, 3).good(A, 2)
    assert Verdict.UNHEALTHY is story.verdict(A)
    assert 1.0 == next_wakeup(story.state)

    assert Verdict.HEALTHY is story.at(1.0).verdict(A)


def test_an_ejection_that_is_over_leaves_a_probed_endpoint_to_its_probes() -> None:
    """Time heals nothing that can be looked at."""
    story = Story(tcp_node("a"), tcp_node("b")).refused(A, 3).good(A)
    assert float("inf") == next_wakeup(story.state)
    assert Verdict.UNHEALTHY is story.at(5.0).verdict(A)

    assert Verdict.HEALTHY is story.good(A).verdict(A)


def test_a_timer_that_comes_early_changes_nothing() -> None:
    """Timers are hints; the state decides."""
    story = Story(unprobed("a"), unprobed("b")).refused(A, 3).at(0.5)
    before = story.state
    assert story.fold(TimePassed(at=0.5)).state is before


def test_ejections_in_a_row_last_twice_as_long_each_up_to_the_limit() -> None:
    """A node that comes and goes is worse than one that is gone."""
    story = Story(unprobed("a"), unprobed("b"), eject_time_max=3.0).refused(A, 3)
    lasting = []
    for _ in range(3):
        until = story.health(A).ejected_until
        assert until is not None
        story.at(until).refused(A)
        again = story.health(A).ejected_until
        assert again is not None
        lasting.append(again - until)

    assert [2.0, 3.0, 3.0] == lasting


@pytest.mark.parametrize(("later", "lasting"), [(60.0, 2.0), (60.25, 1.0)])
def test_an_ejection_more_than_a_minute_after_the_return_starts_anew(later: float, lasting: float) -> None:
    """What was long ago says nothing of today."""
    story = Story(tcp_node("a"), tcp_node("b")).refused(A, 3).good(A, 2).at(1.0).at(1.0 + later).refused(A, 3)

    assert 1.0 + later + lasting == story.health(A).ejected_until


def test_an_unprobed_endpoint_proves_itself_with_one_flow() -> None:
    """Probation: one client risks what otherwise all would."""
    story = Story(unprobed("a"), unprobed("b")).refused(A, 3).at(1.0)
    assert (Verdict.PROBATION, "a") == (story.verdict(A), story.route().trial)
    assert forward_success_matters(story.state, A)

    assert Verdict.HEALTHY is story.served(A).verdict(A)
    assert None is story.route().trial


def test_a_failed_trial_ejects_again_for_longer() -> None:
    """One failure is enough there."""
    story = Story(unprobed("a"), unprobed("b")).refused(A, 3).at(1.0).refused(A)

    assert (Verdict.UNHEALTHY, 3.0) == (story.verdict(A), story.health(A).ejected_until)


def test_a_served_flow_clears_an_unprobed_endpoint() -> None:
    """It is all the evidence there is."""
    story = Story(unprobed("a"), unprobed("b")).refused(A, 2).served(A)

    assert (Verdict.HEALTHY, 0) == (story.verdict(A), story.health(A).bad_streak)
    assert story.tripped(A).health(A).suspected
    assert not story.served(A).health(A).suspected
    assert Verdict.HEALTHY is story.verdict(A)


def test_a_served_flow_says_nothing_of_a_probed_endpoint() -> None:
    """A node that takes connections may still fail its expectation; and every such event would cost."""
    story = Story(tcp_node("a")).bad(A, 2)
    before = story.state

    assert not forward_success_matters(before, A)
    assert story.served(A).state is before
    assert not forward_success_matters(before, tcp("nobody"))


@pytest.mark.parametrize("transport", [TCP, UDP])
def test_evidence_about_an_endpoint_that_is_gone_changes_nothing(transport: object) -> None:
    """It was under way when the reload came."""
    story = Story(tcp_node("b"))
    before = story.state
    gone = tcp("a") if transport is TCP else udp("b")

    assert story.good(gone).bad(gone).silent(gone).refused(gone).served(gone).tripped(gone).state is before
