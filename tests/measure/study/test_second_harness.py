"""The scenarios of the second harness and those beyond the paper, one short real trial each.

What is asserted holds however busy the machine is: only another behaviour would break it.
"""

from collections.abc import Sequence

import pytest

from sniffgate.measure.study.artifact import Value
from sniffgate.measure.study.gateway import DEFAULT_COMMAND
from sniffgate.measure.study.scenario import SCENARIOS
from sniffgate.measure.study.scenarios import grid
from sniffgate.measure.study.trial import run_trial
from sniffgate.state.detection import Answer

HERE = [plan.name for plan in SCENARIOS.values() if plan.harness != "first"]
Seen = dict[str, Sequence[Value]]


def trial(name: str, arm: str) -> Seen:
    """The observations of one trial, which must not fail."""
    plan = SCENARIOS[name]
    outcome = run_trial(plan, next(each for each in plan.arms if each.name == arm), 1, DEFAULT_COMMAND)

    assert (None, None) == (outcome.trial.failure, outcome.absent)
    return {key: each.values for key, each in outcome.trial.observations.items()}


def one(seen: Seen, key: str) -> float:
    value = seen[key][0]
    assert not isinstance(value, str)
    return value


def test_the_grid_has_the_cells_of_the_paper() -> None:
    """Twelve for each transport."""
    arms = SCENARIOS["grid"].arms

    assert 24 == len(arms)
    assert {"tcp": 12, "udp": 12} == {
        probe: sum(arm.overrides["nodes.probe"] == probe for arm in arms) for probe in ("tcp", "udp")
    }


@pytest.mark.parametrize(
    ("probe", "answered", "least", "most"),
    [
        ("tcp", Answer.REFUSED, 0.1, 0.21),
        ("udp", Answer.REFUSED, 0.1, 0.21),
        ("tcp", Answer.SILENT, 0.4, 0.51),
        ("udp", Answer.SILENT, 0.4, 0.51),
    ],
)
def test_the_schedule_of_a_cell_is_that_of_the_manual(probe: str, answered: Answer, least: float, most: float) -> None:
    """Two fast steps of 50 ms after the first probe to meet a refusal; the probe timeout on top where it is silent."""
    assert pytest.approx((least, most)) == grid.schedule(probe, 100, 3, answered)


@pytest.mark.e2e
@pytest.mark.slow
def test_a_cell_of_the_grid_is_found_no_sooner_than_its_schedule_says() -> None:
    """And its first request does not wait for a verdict."""
    seen = trial("grid", "tcp-50-3")

    for key in ("detection", "silent_detection"):
        assert one(seen, f"{key}_schedule_ms") - grid.MARGIN <= one(seen, f"{key}_ms")
    assert one(seen, "silent_detection_ms") < 3 * 300  # not as many timeouts as the threshold
    assert one(seen, "first_request_ms") < 250  # no connect timed out


@pytest.mark.e2e
@pytest.mark.slow
def test_a_dead_udp_port_under_tcp_probes_loses_next_to_nothing() -> None:
    """What the paper's gateway lost all of; every datagram and every claim is in the artifact."""
    seen = trial("blind", "udp-dies-tcp-probe")

    assert (100, 0) == (one(seen, "datagrams"), one(seen, "requests_lost"))
    assert one(seen, "datagrams_lost") <= 5
    assert len(seen["datagram_at_s"]) == len(seen["datagram_by"]) >= 100
    assert sum(str(by).startswith("node-") for by in seen["datagram_by"]) == len(seen["datagram_ms"])
    assert {"node-b"} == set(seen["datagram_by"][-20:])


@pytest.mark.e2e
@pytest.mark.slow
def test_load_alone_ejects_a_dead_node_once() -> None:
    """And no client loses a request but those that were at the node."""
    seen = trial("load", "killed-1")

    assert (1, 1) == (one(seen, "ejected"), one(seen, "ejections"))
    assert one(seen, "requests_lost_at_the_dying_node") == one(seen, "requests_lost")


@pytest.mark.e2e
@pytest.mark.slow
def test_a_client_of_a_black_hole_waits_for_the_hedge_only() -> None:
    """For less than the node takes to be found out, which would free the client too."""
    seen = trial("blackhole", "default")

    assert 200 <= one(seen, "first_request_ms") < 390
    assert 0 == one(seen, "requests_lost")


@pytest.mark.e2e
@pytest.mark.slow
def test_a_tripwire_notices_a_kill_before_the_next_regular_probe() -> None:
    """Which may be a second away."""
    assert one(trial("tripwire", "on-1000"), "detection_ms") < 400


@pytest.mark.e2e
@pytest.mark.slow
def test_a_drain_at_failback_has_a_timeout_of_its_own() -> None:
    """300 ms, where the ordinary drain has 1000."""
    assert 295 <= one(trial("failback", "drain-300"), "old_connection_cut_ms") < 900


@pytest.mark.e2e
@pytest.mark.slow
def test_a_udp_stream_loses_no_more_than_what_died_with_its_node() -> None:
    """And nothing comes twice."""
    seen = trial("udpstream", "killed-5")

    assert one(seen, "datagrams_lost") <= 5
    assert 0 == one(seen, "datagrams_doubled")


@pytest.mark.soak
def test_without_probes_a_dead_node_stays_out() -> None:
    """It is ejected, never resurrected while dead, and back once it lives; no probe is claimed and none arrives."""
    seen = trial("none", "threshold-2")

    assert (0, 0) == (one(seen, "probes_claimed"), one(seen, "probes_seen"))
    assert (0, 0) == (one(seen, "resurrections"), one(seen, "requests_lost"))
    assert one(seen, "ejections") >= 1
    assert 1 == len(seen["switched_at_ms"])


@pytest.mark.soak
def test_a_frozen_node_is_found_by_its_words_alone() -> None:
    """A kernel that accepts is all that a probe without words sees."""
    words, blind = trial("frozen", "words"), trial("frozen", "connect")

    assert (1, 0) == (one(words, "noticed"), one(blind, "noticed"))
    assert one(words, "requests_lost") < one(blind, "requests_lost")


@pytest.mark.soak
def test_beside_a_flapping_node_nothing_is_lost_that_was_not_at_it() -> None:
    """And a delay of failback moves traffic once."""
    seen, delayed = trial("flap", "period-1200"), trial("flap", "period-1200-delay")

    assert one(seen, "requests_lost_at_the_dying_node") == one(seen, "requests_lost")
    assert 1 == one(delayed, "switches")


@pytest.mark.soak
@pytest.mark.parametrize("name", HERE)
def test_every_arm_of_a_scenario_has_figures(name: str) -> None:
    """A trial of each."""
    for arm in SCENARIOS[name].arms:
        assert trial(name, arm.name)
