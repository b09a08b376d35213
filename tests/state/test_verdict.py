"""Who may have traffic: the operator before the evidence, and each predicate for itself."""

from typing import Any

import attrs
import pytest

from sniffgate.config.schema import NodeConfig, ProbeKind
from sniffgate.state import verdict as rules
from sniffgate.state.model import Cause, Health, Mark, State, Verdict
from tests.state.build import Story, both_node, tcp, tcp_node, udp

VERDICTS = tuple(Verdict)


def state_of(node: NodeConfig, **changes: dict[str, Any]) -> State:
    """A state in which the endpoints of `node` have that health: `tcp={...}`, `udp={...}`."""
    state = Story(node, tcp_node("z")).state
    health = dict(state.health)
    for transport, fields in changes.items():
        endpoint = {"tcp": tcp, "udp": udp}[transport](node.name)
        health[endpoint] = attrs.evolve(health[endpoint], **fields)
    return attrs.evolve(state, health=health)


@pytest.mark.parametrize("verdict", VERDICTS)
@pytest.mark.parametrize("mark", [None, *Mark])
@pytest.mark.parametrize("enabled", [True, False])
def test_who_may_serve(verdict: Verdict, mark: Mark | None, enabled: bool) -> None:
    """Enabled, and by the operator's word or else by the evidence not out."""
    node = tcp_node("a", enabled=enabled)
    state = Story(node).mark("a", mark).state
    state = attrs.evolve(state, health={tcp("a"): Health(verdict=verdict, cause=Cause.PROBES)})
    member = state.config.member(tcp("a"))
    stands = verdict in (Verdict.UNKNOWN, Verdict.HEALTHY)
    word = {Mark.UP: Verdict.HEALTHY, Mark.DOWN: Verdict.UNHEALTHY}
    usable = stands if mark is None else mark is Mark.UP

    assert usable == rules.is_usable(state, node, tcp("a")) == rules.is_member_usable(state, member)
    assert (usable and enabled) == rules.may_serve(state, member)
    assert (verdict if mark is None else word[mark]) == rules.verdict_of(state, node, tcp("a"))
    assert (() if stands or mark is not None else (tcp("a"),)) == rules.culprits(state, node, tcp("a"))


@pytest.mark.parametrize("wish", [True, False])
def test_the_operators_wish_is_the_last_word_on_being_enabled(wish: bool) -> None:
    """Whatever the file says."""
    for enabled in (True, False):
        node = tcp_node("a", enabled=enabled)
        story = Story(node).enable("a") if wish else Story(node).disable("a")
        assert wish == rules.is_enabled(story.state, node)
        assert wish == rules.may_serve(story.state, story.state.config.member(tcp("a")))


@pytest.mark.parametrize("own", VERDICTS)
@pytest.mark.parametrize("sibling", VERDICTS)
def test_a_follower_has_its_siblings_verdict_unless_it_is_out_itself(own: Verdict, sibling: Verdict) -> None:
    """It is refused for itself alone; it is well only as long as the node is."""
    node = both_node("a")
    state = state_of(node, udp={"verdict": own}, tcp={"verdict": sibling})
    out = (Verdict.UNHEALTHY, Verdict.PROBATION)

    assert (own if own in out else sibling) == rules.verdict_of(state, node, udp("a"))
    assert sibling == rules.verdict_of(state, node, tcp("a"))
    guilty = [each for each, verdict in ((tcp("a"), sibling), (udp("a"), own)) if verdict in out]
    assert tuple(guilty) == rules.culprits(state, node, udp("a"))


def test_who_stands_by_two_is_healthy_since_the_later_of_them() -> None:
    """A failback delay counts from when all was well."""
    node = both_node("a")
    state = state_of(node, udp={"since": 3.0}, tcp={"since": 5.0})

    assert (5.0, 5.0) == (
        rules.healthy_since(state, node, udp("a")), rules.healthy_since(state, node, tcp("a"))
    )  # fmt: skip
    state = state_of(node, udp={"since": 7.0}, tcp={"since": 5.0})
    assert (7.0, 5.0) == (
        rules.healthy_since(state, node, udp("a")), rules.healthy_since(state, node, tcp("a"))
    )  # fmt: skip


def test_under_move_together_both_sides_decide() -> None:
    """Else each for itself."""
    node = both_node("a")

    assert (tcp("a"),) == rules.endpoints_that_decide(Story(node).state, node, tcp("a"))
    assert (udp("a"),) == rules.endpoints_that_decide(Story(node).state, node, udp("a"))
    together = Story(node, move_together=True).state
    for endpoint in (tcp("a"), udp("a")):
        assert (tcp("a"), udp("a")) == rules.endpoints_that_decide(together, node, endpoint)


@pytest.mark.parametrize("verdict", VERDICTS)
@pytest.mark.parametrize("joining", [True, False])
@pytest.mark.parametrize("probe", [ProbeKind.AUTO, ProbeKind.NONE])
def test_a_newcomer_may_join_once_it_is_known(verdict: Verdict, joining: bool, probe: ProbeKind) -> None:
    """Unless nobody ever looks."""
    node = tcp_node("a", probe=probe)
    state = state_of(node, tcp={"verdict": verdict, "joining": joining})
    waits = joining and verdict is Verdict.UNKNOWN and probe is ProbeKind.AUTO

    assert joining == rules.is_joining(state, node, tcp("a"))
    assert (not waits) == rules.may_join(state, node, tcp("a"))


def test_under_move_together_one_side_that_joins_is_enough_to_join_and_to_wait() -> None:
    """The node comes as one."""
    node = both_node("a", udp_probe_payload=b"ping")
    state = Story(node, move_together=True).state
    health = {**state.health, udp("a"): Health(joining=True)}
    state = attrs.evolve(state, health=health)

    assert rules.is_joining(state, node, tcp("a"))
    assert not rules.may_join(state, node, tcp("a"))


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({}, False),
        ({"suspected": True}, True),
        ({"bad_streak": 1}, True),
        ({"verdict": Verdict.UNHEALTHY}, True),
        ({"verdict": Verdict.HEALTHY}, False),
        ({"verdict": Verdict.PROBATION}, False),
    ],
)
def test_a_follower_is_probed_in_doubt_only(changes: dict[str, Any], wanted: bool) -> None:
    """A stray byte every second annoys VPN, SIP and game servers."""
    health = attrs.evolve(Health(), **changes)

    assert wanted == rules.wants_probe(both_node("a"), udp("a"), health)
    assert rules.wants_probe(both_node("a"), tcp("a"), health)
    assert rules.wants_probe(both_node("a", udp_probe_payload=b"ping"), udp("a"), health)
    assert not rules.wants_probe(both_node("a", probe=ProbeKind.NONE), udp("a"), health)
    assert not rules.wants_probe(both_node("a", probe=ProbeKind.TCP), udp("a"), health)
