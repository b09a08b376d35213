"""Whose health a piece of evidence is about, and when a client may be to blame."""

import pytest

from sniffgate.config.schema import ProbeKind
from sniffgate.state.events import FailureKind, ForwardFailed
from sniffgate.state.model import PassiveFailure, Verdict
from tests.state.build import Story, both_node, tcp, tcp_node, udp

A, B = tcp_node("a", priority=2), tcp_node("b", priority=1)


def test_a_reset_before_the_client_spoke_is_the_nodes_doing() -> None:
    """Nobody provoked it, so it counts, from one client as often as it happens."""
    story = Story(A, B).at(1.0).reset(tcp("a"), times=2, client="10.0.0.9", spoke=False)

    assert (PassiveFailure(1.0),) * 2 == story.health(tcp("a")).window
    assert Verdict.UNHEALTHY is story.reset(tcp("a"), client="10.0.0.9").health(tcp("a")).verdict


@pytest.mark.parametrize("clients", [("10.0.0.1", "10.0.0.2", "10.0.0.3"), ("10.0.0.1",) * 3])
def test_a_reset_after_the_client_spoke_only_casts_doubt_on_a_probed_node(clients: tuple[str, ...]) -> None:
    """Garbage is reset by honest nodes, and its probes know better, however many clients send it."""
    story = Story(A, B).at(1.0)
    for client in clients:
        story.reset(tcp("a"), client=client, spoke=True)

    assert ((), True, "reset") == (
        story.health(tcp("a")).window, story.health(tcp("a")).suspected, story.health(tcp("a")).last_error
    )  # fmt: skip


def test_a_refusal_after_a_client_spoke_counts() -> None:
    """A datagram may be refused after many were answered: that is no client's doing."""
    story = Story(A, B).at(1.0)
    story.fold(ForwardFailed(at=1.0, endpoint=tcp("a"), kind=FailureKind.REFUSED, client="10.0.0.1", client_spoke=True))

    assert (PassiveFailure(1.0),) == story.health(tcp("a")).window


def test_a_failure_of_who_is_out_already_casts_no_doubt_on_who_speaks_for_it() -> None:
    """Under fail-open flows go there all the same, and each would have the sibling probed in haste."""
    node = both_node("a", probe=ProbeKind.TCP)
    story = Story(node, both_node("b", priority=-1), passive_eject_threshold=2, eject_time=60.0)
    story.at(1.0).refused(udp("a"))
    assert story.health(tcp("a")).suspected
    story.refused(udp("a"))
    assert Verdict.UNHEALTHY is story.health(udp("a")).verdict

    before = story.at(2.0).good(tcp("a")).health(tcp("a"))
    assert not before.suspected
    assert before == story.refused(udp("a")).health(tcp("a"))
