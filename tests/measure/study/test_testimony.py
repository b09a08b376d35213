"""What the control port claims is read from its status and held against traffic: a lie is told, the truth is not."""

import re

import pytest

from sniffgate.measure.study.scenario import Absent, Lied
from sniffgate.measure.study.steady import Asked
from sniffgate.measure.study.testimony import (
    GRACE,
    Claim,
    became_active,
    check_answers,
    check_moment,
    check_throughout,
    claim_of,
    look_before,
    lost_health,
    switches,
)

GOOD = (("node-a", "healthy"), ("node-b", "healthy"))
ILL = (("node-a", "unhealthy"), ("node-b", "healthy"))
CLAIMS = [
    Claim(0.0, "node-a", "node-a", GOOD),
    Claim(1.0, "node-b", "node-a", ILL),
    Claim(2.0, "node-b", "node-b", ILL),
]


def test_a_status_is_a_claim() -> None:
    """Its active nodes, and each node's state."""
    nodes = [{"name": "node-a", "healthy": False, "state": "unhealthy"}, {"name": "node-b", "healthy": True}]
    status = {"active": {"tcp": "node-b", "udp": None}, "nodes": nodes}

    assert Claim(3.0, "node-b", "", ILL) == claim_of(status, 3.0)


def test_a_status_without_active_nodes_is_a_lack() -> None:
    """Not an empty claim."""
    with pytest.raises(Absent, match=r"its status has no active\.tcp"):
        claim_of({"nodes": []}, 0.0)


def test_a_switch_is_a_change_of_the_active_node_of_one_transport() -> None:
    """Health alone is none."""
    assert [CLAIMS[1]] == switches(CLAIMS, "tcp")
    assert [CLAIMS[2]] == switches(CLAIMS, "udp")


def test_moments_are_those_of_the_first_claim_from_a_moment_on() -> None:
    """None where nothing of it was claimed."""
    assert 2.0 == became_active(CLAIMS, "node-b", "udp", 0.5)
    assert became_active(CLAIMS, "node-a", "tcp", 0.5) is None
    assert 1.0 == lost_health(CLAIMS, "node-a", 0.0)
    assert lost_health(CLAIMS, "node-b", 0.0) is None


def test_what_was_first_seen_by_a_look_was_not_so_at_the_one_before() -> None:
    """So a time that is counted from there is never too short."""
    assert 0.2 == look_before([0.1, 0.2, 0.3, 0.4], 0.3)
    assert 0.0 == look_before([0.3], 0.3)


def test_traffic_that_agrees_is_no_lie() -> None:
    """Nor is what was asked before the claim, or just after it."""
    seen = [Asked(0.5, 0.6, "node-a"), Asked(1.0 + GRACE / 2, 1.1, "node-a"), Asked(1.5, 1.6, "node-b")]

    check_answers(seen, CLAIMS, "tcp", "node-b", moment=0.8)


@pytest.mark.parametrize(
    ("asked", "what"),
    [(Asked(1.5, 1.6, "node-a"), "node-a answered"), (Asked(1.5, 3.5, None, "timeout"), "nobody answered (timeout)")],
)
def test_an_active_node_that_does_not_answer_is_a_lie(asked: Asked, what: str) -> None:
    """Whoever answered in its place, or nobody."""
    with pytest.raises(Lied, match=re.escape(f"claimed: node-b is active over tcp; seen: 450 ms on, {what}")):
        check_answers([asked], CLAIMS, "tcp", "node-b", moment=0.8)


def test_a_node_that_cannot_serve_is_not_expected_to() -> None:
    """A claim about another node than the one that can serve is blindness, not a lie."""
    check_answers([Asked(1.5, 3.5, None, "timeout")], CLAIMS[:1], "tcp", "node-b", moment=0.8)


def test_a_switch_is_dated_between_the_failure_and_its_being_seen() -> None:
    """But for what two clocks and a poll may differ."""
    assert 80.0 == check_moment(80.0, 100.0)
    assert -10.0 == check_moment(-10.0, 100.0)


@pytest.mark.parametrize("said", [-30.0, 130.0])
def test_a_switch_dated_before_the_failure_or_after_it_was_seen_is_a_lie(said: float) -> None:
    """A timestamp is a claim, too."""
    with pytest.raises(Lied, match=f"claimed: switched {said:.0f} ms after the failure; seen: 100 ms after it"):
        check_moment(said, 100.0)


def test_every_claim_holds_well_within_its_time() -> None:
    """Around its change anybody may answer, and for a node that cannot serve, too."""
    seen = [Asked(0.95, 0.96, "node-b"), Asked(1.05, 1.06, "node-a"), Asked(0.3, 0.4, "node-b")]

    check_throughout(seen, CLAIMS, "tcp", lambda node, asked: asked.at > 0.5)


@pytest.mark.parametrize(
    "asked", [Asked(0.3, 0.4, "node-b"), Asked(0.3, 0.4, None, "reset"), Asked(1.5, 1.6, "node-a")]
)
def test_an_able_node_that_is_passed_by_is_a_lie(asked: Asked) -> None:
    """In the time of any claim, not only the last."""
    with pytest.raises(Lied, match="is active over tcp, and it could serve; seen: "):
        check_throughout([asked], CLAIMS, "tcp", lambda node, asked: True)
