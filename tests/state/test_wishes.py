"""What an operator may ask for, and what comes of it."""

from sniffgate.config.schema import Config, Failback
from sniffgate.state.events import OperatorDisabled, OperatorReleased, OperatorSwitched
from sniffgate.state.model import Mark, Override, RouteKey, Verdict
from sniffgate.state.wishes import refusal
from tests.state.build import TCP, UDP, Story, both_node, pool_named, tcp, tcp_node, udp, udp_node

A, B = tcp("a"), tcp("b")


def refused(story: Story, node: str, transport: object = None) -> str | None:
    return refusal(story.state, OperatorSwitched(at=story.now, node=node, transport=transport))  # type: ignore[arg-type]


def test_a_pin_wins_while_its_node_is_usable() -> None:
    """The operator knows something."""
    story = Story(tcp_node("a", priority=1), tcp_node("b")).switch("b")
    assert ("b", "b", "a") == (story.active(), story.route().pin, story.standbys())

    assert "a" == story.auto().active()


def test_a_pin_is_released_when_its_node_fails_and_another_is_usable() -> None:
    """And it stays released: coming back would be a surprise."""
    story = Story(tcp_node("a", priority=1), tcp_node("b")).switch("b").bad(B, 3)
    assert ("a", {}) == (story.active(), story.state.pins)

    assert "a" == story.good(B, 2).active()


def test_a_pin_stays_and_comes_first_when_nothing_is_usable() -> None:
    """Fail-open keeps to the operator's choice."""
    story = Story(tcp_node("a"), tcp_node("b")).switch("b").bad(A, 3).bad(B, 3)

    assert ("ba", "b") == (story.active(), story.route().pin)


def test_a_switch_pins_every_transport_of_the_node_unless_one_is_named() -> None:
    """Most operators think in nodes."""
    nodes = both_node("a"), both_node("b")

    assert ("b", "b") == (Story(*nodes).switch("b").active(), Story(*nodes).switch("b").active(UDP))
    assert ("ab", "b") == (Story(*nodes).switch("b", UDP).active(), Story(*nodes).switch("b", UDP).active(UDP))


def test_releasing_one_transport_leaves_the_other() -> None:
    """What was pinned apart is released apart."""
    story = Story(both_node("a"), both_node("b")).switch("b").auto(UDP)

    assert ("b", "ab") == (story.active(), story.active(UDP))


def test_together_a_switch_pins_both_and_auto_releases_both() -> None:
    """Half a move is what this setting forbids."""
    story = Story(both_node("a", priority=1), both_node("b"), move_together=True).switch("b", TCP)
    assert ("b", "b") == (story.active(), story.active(UDP))

    assert ("a", "a") == (story.auto(UDP).active(), story.active(UDP))


def test_together_both_pins_fall_when_one_must() -> None:
    """TCP has nobody else, but UDP has."""
    story = Story(both_node("a"), udp_node("c"), move_together=True).switch("a").refused(udp("a"), 3)

    assert {} == story.state.pins


def test_disabling_releases_a_pin_even_of_the_last_usable_node() -> None:
    """Enabling it later must not bring a forgotten pin back."""
    story = Story(tcp_node("a"), tcp_node("b")).bad(B, 3).switch("a").disable("a")

    assert {} == story.enable("a").state.pins


def test_a_switch_to_what_cannot_serve_says_why() -> None:
    """Pinning a dead node by a typo would be an outage."""
    story = Story(both_node("node-a"), tcp_node("node-b"), tcp_node("off", enabled=False), move_together=True)

    assert "no node is named 'node-c'; did you mean 'node-b'?" == refused(story, "node-c")
    assert "no node is named 'x'" == refused(story, "x")
    assert "node-b has no udp address" == refused(story, "node-b", UDP)
    assert "off is disabled; enable it first" == refused(story, "off")
    assert None is refused(story, "node-b")
    story.bad(tcp("node-a"), 3)
    assert "node-a cannot be used: node-a/tcp is unhealthy (connection refused)" == refused(story, "node-a")
    story.mark("node-b", Mark.DOWN)
    assert "node-b cannot be used: it is marked down by the operator" == refused(story, "node-b")


def test_a_refused_wish_changes_nothing() -> None:
    """Whoever sends it unasked meets the same answer."""
    story = Story(tcp_node("a"), tcp_node("b")).bad(A, 3)
    before = story.state

    assert story.switch("a").switch("x").disable("x").mark("x", Mark.UP).state is before


def test_other_wishes_about_known_nodes_are_never_refused() -> None:
    """Disabling a dead node is exactly what one does with it."""
    story = Story(tcp_node("a")).bad(A, 3)

    assert None is refusal(story.state, OperatorDisabled(at=0.0, node="a"))
    assert None is refusal(story.state, OperatorReleased(at=0.0))


def test_a_disabled_node_gets_nothing_until_it_is_enabled() -> None:
    """Even under fail-open."""
    story = Story(tcp_node("a"), tcp_node("b")).disable("a").bad(B, 3)
    assert "b" == story.active()

    assert "a" == story.enable("a").active()


def test_a_drain_is_a_disable_with_a_deadline_of_its_own() -> None:
    """Counted from when it was asked."""
    story = Story(tcp_node("a"), tcp_node("b")).at(3.0).drain("a", 0.0)
    assert ("b", Override(enabled=False, drain=0.0, drain_at=3.0)) == (story.active(), story.state.overrides["a"])

    assert {} == story.enable("a").state.overrides


def test_a_wish_for_what_is_so_anyway_changes_nothing() -> None:
    """Nothing changed, nothing is published."""
    story = Story(tcp_node("a"), tcp_node("b", enabled=False))
    before = story.state

    assert story.enable("a").disable("b").drain("b").mark("a", None).auto().state is before
    assert Override(enabled=True) == story.enable("b").state.overrides["b"]


def test_a_mark_stands_above_all_evidence_until_it_is_taken_back() -> None:
    """Probes may lie either way."""
    story = Story(tcp_node("a"), tcp_node("b")).mark("a", Mark.DOWN).good(A, 9)
    assert (Verdict.UNHEALTHY, "b") == (story.verdict(A), story.active())

    story.mark("a", Mark.UP).bad(A, 9)
    assert (Verdict.HEALTHY, "ab") == (story.verdict(A), story.active())
    assert (Verdict.UNHEALTHY, "b") == (story.mark("a", None).verdict(A), story.active())


def test_a_node_marked_up_need_not_prove_that_it_lasts() -> None:
    """The operator's word is no recovery; under manual failback it still does not move traffic."""
    nodes = tcp_node("a", priority=1), tcp_node("b")
    assert "a" == Story(*nodes, failback_delay=99.0).bad(A, 3).mark("a", Mark.UP).active()
    assert "b" == Story(*nodes, failback=Failback.MANUAL).bad(A, 3).mark("a", Mark.UP).active()


def test_wishes_are_kept_whole() -> None:
    """Each says what it says, and takes back what it contradicts; a mark stands beside them."""
    story = Story(tcp_node("a"), tcp_node("b")).at(5.0)

    def kept() -> Override | None:
        return story.state.overrides.get("a")

    story.drain("a", 3.0)
    assert Override(enabled=False, drain=3.0, drain_at=5.0) == kept()
    story.at(6.0).drain("a")
    assert Override(enabled=False) == kept()
    story.drain("a", 0.0).mark("a", Mark.DOWN)
    assert Override(enabled=False, drain=0.0, drain_at=6.0, mark=Mark.DOWN) == kept()
    story.disable("a")
    assert Override(enabled=False, mark=Mark.DOWN) == kept()
    story.drain("a", 0.0).enable("a")
    assert Override(mark=Mark.DOWN) == kept()


WORDY = {"udp_probe_payload": b"ping", "udp_probe_expect": b"pong"}  # so that UDP has a verdict of its own


def test_apart_the_pin_over_one_transport_outlives_the_other() -> None:
    """Only together do they go together; that another pool moves together is its own affair."""
    nodes = both_node("a", **WORDY), both_node("b", **WORDY), both_node("c", pool="other")
    config = Config(nodes=nodes, pools=(pool_named("other", move_together=True),))
    story = Story(*nodes).apply(config).switch("a").bad(A, 3)

    assert {RouteKey("default", UDP): "a"} == story.state.pins


def test_together_a_pin_on_another_node_is_not_dragged_along() -> None:
    """They were pinned apart before the file bound them together."""
    nodes = both_node("a", **WORDY), both_node("b", **WORDY)
    story = Story(*nodes).switch("a", TCP).switch("b", UDP).reload(*nodes, move_together=True)
    assert {RouteKey("default", TCP): "a", RouteKey("default", UDP): "b"} == story.state.pins

    assert {RouteKey("default", UDP): "b"} == story.bad(A, 3).state.pins
