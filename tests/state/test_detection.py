"""The bounds of detection, by hand; that the gateway keeps them is shown by tests/scenarios."""

from typing import Any

import attrs
import pytest

from sniffgate.config.schema import GlobalConfig, NodeConfig, ProbeKind, Transport
from sniffgate.state.detection import NEVER, Answer, detection_bounds, shortest_flap
from tests.state.build import both_node, tcp_node, udp_node

RULES = GlobalConfig()  # I 1 s, F 50 ms, T 800 ms, t 3, s 2, connect 3 s
TCP, UDP = Transport.TCP, Transport.UDP
REFUSED, SILENT = Answer.REFUSED, Answer.SILENT
NODE = both_node("a")
WORDY = both_node("a", udp_probe_expect=b"pong")


def bounds(
    answered: Answer,
    *,
    node: NodeConfig = NODE,
    transport: Transport = TCP,
    traffic: bool = False,
    latency: float = 0.0,
    **settings: Any,
) -> object:
    rules = attrs.evolve(RULES, **settings)
    found = detection_bounds(rules, node, transport, answered=answered, with_traffic=traffic, latency=latency)
    return pytest.approx(tuple(found))


def test_a_refusal_takes_an_interval_at_most_and_the_fast_steps() -> None:
    """Both transports alike, once silence over UDP means something."""
    assert (0.1, 1.2) == bounds(REFUSED)
    assert (0.1, 1.2) == bounds(REFUSED, node=WORDY, transport=UDP)
    assert (0.1, 1.2) == bounds(REFUSED, node=udp_node("a"), transport=UDP)
    assert (0.0, 1.1) == bounds(REFUSED, failure_threshold=1)


def test_a_datagram_that_died_with_its_server_is_waited_for_or_overtaken() -> None:
    """TCP has no such thing: the kernel of a dead process resets its connections."""
    for transport in (TCP, UDP):
        assert (0.1, 1.2) == bounds(REFUSED, node=WORDY, transport=transport)
    assert (0.0, 1.1) == bounds(REFUSED, node=WORDY, transport=UDP, failure_threshold=1)
    assert (0.0, 0.8) == bounds(REFUSED, node=WORDY, transport=UDP, failure_threshold=1, probe_interval=0.1)
    assert (0.1, 0.21) == bounds(REFUSED, node=WORDY, transport=UDP, probe_interval=0.1)
    assert (0.1, 2.1) == bounds(REFUSED, node=WORDY, transport=UDP, probe_interval=0.1, latency=0.3)


def test_silence_takes_one_timeout_and_not_as_many_as_the_threshold() -> None:
    """Probes overlap."""
    assert (0.9, 2.0) == bounds(SILENT)
    assert (0.9, 2.0) == bounds(SILENT, node=WORDY, transport=UDP)
    assert (0.8, 1.9) == bounds(SILENT, failure_threshold=1)
    assert (0.07, 1.17) == bounds(SILENT, probe_timeout=0.02, failure_threshold=2)  # none overlap: 0.05 + 0.02


def test_a_refused_client_saves_the_wait_and_one_step() -> None:
    """Its failure counts, and the probes follow at once."""
    assert (0.05, 0.1) == bounds(REFUSED, traffic=True)
    assert (0.05, 0.1) == bounds(REFUSED, node=WORDY, transport=UDP, traffic=True)


def test_one_failure_of_a_client_may_suffice() -> None:
    """By either threshold, probed or not."""
    unprobed = tcp_node("a", probe=ProbeKind.NONE)
    for threshold in ("failure_threshold", "passive_eject_threshold"):
        settings: dict[str, Any] = {threshold: 1}
        for node in (NODE, unprobed):
            assert (0.0, 0.0) == bounds(REFUSED, node=node, traffic=True, **settings)
        assert (3.0, NEVER) == bounds(SILENT, node=unprobed, traffic=True, **settings)


def test_without_probes_one_client_proves_nothing() -> None:
    """It takes as many as `passive_eject_threshold`."""
    unprobed = tcp_node("a", probe=ProbeKind.NONE)
    assert (NEVER, NEVER) == bounds(REFUSED, node=unprobed)
    assert (NEVER, NEVER) == bounds(REFUSED, node=unprobed, traffic=True)


def test_a_client_of_a_silent_node_matters_only_when_it_times_out() -> None:
    """Later than the probes do, as a rule; a swallowed datagram never tells anybody."""
    assert (0.9, 2.0) == bounds(SILENT, traffic=True)
    assert (0.85, 2.0) == bounds(SILENT, traffic=True, connect_timeout=0.1)
    assert (0.9, 2.0) == bounds(SILENT, node=WORDY, transport=UDP, traffic=True, connect_timeout=0.1)


def test_a_follower_is_found_out_by_its_clients_alone() -> None:
    """It is not probed before it is suspected, and silence says nothing of it."""
    assert (NEVER, NEVER) == bounds(REFUSED, transport=UDP)
    assert (0.05, 0.1) == bounds(REFUSED, transport=UDP, traffic=True)
    assert (NEVER, NEVER) == bounds(SILENT, transport=UDP, traffic=True)
    assert (NEVER, NEVER) == bounds(SILENT, node=udp_node("a"), transport=UDP)


def test_where_the_other_transport_speaks_its_probes_decide() -> None:
    """And a refused client of either transport makes the next one immediate."""
    spoken = both_node("a", probe=ProbeKind.TCP)
    assert (0.1, 1.2) == bounds(REFUSED, node=spoken, transport=UDP)
    assert (0.05, 0.1) == bounds(REFUSED, node=spoken, transport=UDP, traffic=True)
    assert (0.05, 0.1) == bounds(REFUSED, node=spoken, traffic=True)


def test_distance_counts_where_one_probe_waits_for_another() -> None:
    """And four times the last latency is how long a silent probe is left alone."""
    assert (0.1, 1.4) == bounds(REFUSED, latency=0.1)  # 1.1 + 2 x 0.1 + 0.1
    assert (1.15, 2.35) == bounds(SILENT, latency=0.1)  # 0.4 + 0.05 + 0.8, less or plus
    assert (1.25, 2.45) == bounds(SILENT, latency=0.1, failure_threshold=5)
    # the first ends before the fifth starts, which may have to wait for the second, third and fourth: 4 x 0.4 + 0.5
    assert (0.95, 3.2) == bounds(SILENT, latency=0.1, failure_threshold=5, probe_timeout=0.5)


def test_an_interval_of_the_nodes_own_and_one_below_the_fast_one() -> None:
    """No probe comes ahead of the regular pace then."""
    quick = tcp_node("a", probe_interval=0.02)
    assert (0.04, 0.062) == bounds(REFUSED, node=quick)
    assert (0.02, 0.04) == bounds(REFUSED, node=quick, traffic=True)


def test_the_shortest_flap_is_nearly_an_interval_and_the_fast_steps() -> None:
    """So no node can switch a route more than twice in that time."""
    assert pytest.approx(1.05) == shortest_flap(RULES, NODE)


def test_the_last_latency_is_in_every_bound_that_waits_for_an_answer() -> None:
    """Far away, the answers themselves take time: a client's, and that of each probe after it."""
    assert (0.05, 0.35) == bounds(REFUSED, traffic=True, latency=0.1)  # 0.1 + 0.05 + 0.1 + 0.1
    assert (0.0, 0.1) == bounds(REFUSED, traffic=True, latency=0.1, failure_threshold=1)
    assert (1.1, 2.35) == bounds(SILENT, traffic=True, latency=0.1, connect_timeout=0.1)  # 0.4 + 0.8 - 0.1
    assert (0.1, 8.0) == bounds(REFUSED, latency=2.0)  # the probe before is answered after 2 s, then three more
    assert (0.0, 1.9) == bounds(SILENT, latency=1.0, failure_threshold=1)


def test_a_client_that_suffices_is_as_slow_as_its_connect() -> None:
    """Nothing else has to be waited for."""
    unprobed = tcp_node("a", probe=ProbeKind.NONE)
    assert (0.1, NEVER) == bounds(SILENT, node=unprobed, traffic=True, connect_timeout=0.1, failure_threshold=1)
    assert (0.1, 1.9) == bounds(SILENT, traffic=True, connect_timeout=0.1, failure_threshold=1)


def test_an_answer_takes_no_time_unless_it_is_said() -> None:
    """`check` knows no latency yet."""
    found = detection_bounds(RULES, NODE, TCP, answered=REFUSED, with_traffic=False)
    assert pytest.approx((0.1, 1.2)) == tuple(found)


def test_a_single_silent_probe_and_one_that_ends_as_the_last_begins_wait_for_no_other() -> None:
    """The two edges of overlapping."""
    assert (0.7, 1.9) == bounds(SILENT, latency=0.1, failure_threshold=1)  # 0.8 less or plus
    assert (0.8, 2.0) == bounds(SILENT, latency=0.1, probe_timeout=0.45)  # 0.4 + 0.05 + 0.45: not 2 x 0.4 + 0.45


def test_where_tcp_speaks_a_silent_udp_is_found_out() -> None:
    """By the silence of TCP, which means something."""
    assert (0.9, 2.0) == bounds(SILENT, node=both_node("a", probe=ProbeKind.TCP), transport=UDP)


def test_the_shortest_flap_is_counted_from_the_nodes_own_interval() -> None:
    """Nine tenths of it."""
    assert pytest.approx(1.95) == shortest_flap(RULES, tcp_node("a", probe_interval=2.0))
