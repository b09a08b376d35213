"""How long the flows of a lease may live: each rule, and what no story may bring about."""

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sniffgate.address import Address
from sniffgate.config.schema import Failback, NodeConfig, ProbeKind
from sniffgate.state.model import Mark
from sniffgate.state.terms import NEVER, LeaseKind, Subject, Terms, terms_at
from tests.state.build import TCP, Story, pool_named, tcp, tcp_node

A, B = tcp_node("a", priority=2), tcp_node("b", priority=1)
STANDBY, ACTIVE, RETIRING = LeaseKind
ORDINARY, FAILBACK = 10.0, 7.0
FAST = {
    "failure_threshold": 1,
    "success_threshold": 1,
    "drain_timeout": ORDINARY,
    "failback_drain_timeout": FAILBACK,
}


def told(*nodes: NodeConfig, **settings: object) -> Story:
    return Story(*(nodes or (A, B)), **{**FAST, **settings})


class Held:
    """A lease's terms, as a listener keeps them while a story goes on."""

    def __init__(self, story: Story, node: NodeConfig) -> None:
        assert node.tcp is not None
        self.story = story
        self.subject = Subject(endpoint=tcp(node.name), configured=node.tcp, pool=story.state.config.pool("default"))
        self.terms = Terms()
        self.follow()

    def follow(self, *, gone: bool = False) -> Terms:
        self.terms = terms_at(self.story.state, self.story.now, self.subject, self.terms, gone=gone)
        return self.terms

    @property
    def seen(self) -> tuple[LeaseKind, float]:
        self.follow()
        return self.terms.kind, self.terms.deadline


def test_a_lease_in_the_active_set_has_no_deadline() -> None:
    """Flows live as long as their node is the one to use."""
    assert (ACTIVE, NEVER) == Held(told(), A).seen


def test_a_lease_opened_outside_the_active_set_has_no_deadline() -> None:
    """A retry's flow is where it is for lack of anything better, and nothing tells it to go."""
    story = told()
    held = Held(story, B)

    assert (STANDBY, NEVER) == held.seen
    story.at(5.0).good(tcp("a"))
    assert (STANDBY, NEVER) == held.seen


def test_a_standby_lease_becomes_active_with_its_endpoint() -> None:
    """What began as a retry is an ordinary flow once its node is the one in use."""
    story = told()
    held = Held(story, B)
    story.at(1.0).bad(tcp("a"))

    assert (ACTIVE, NEVER) == held.seen


def test_a_failed_endpoint_drains_for_the_ordinary_time() -> None:
    """Its flows may still finish if the node is not quite dead."""
    story = told()
    held = Held(story, A)
    story.at(2.0).bad(tcp("a"))

    assert (RETIRING, 2.0 + ORDINARY) == held.seen


def test_a_healthy_endpoint_that_is_left_drains_for_the_failback_time() -> None:
    """It works: so there may be less, or more, of a hurry."""
    story = told()
    story.at(1.0).bad(tcp("a"))
    held = Held(story, B)
    story.at(3.0).good(tcp("a"))

    assert (RETIRING, 3.0 + FAILBACK) == held.seen


def test_a_standby_whose_endpoint_falls_retires() -> None:
    """An endpoint that falls takes every lease with it, whichever way its flows came."""
    story = told()
    held = Held(story, B)
    story.at(4.0).bad(tcp("b"))

    assert (RETIRING, 4.0 + ORDINARY) == held.seen


def test_a_lease_left_for_a_better_one_has_the_ordinary_time_from_its_later_fall() -> None:
    """With no end to the failback drain, a dead node must still let go of its flows."""
    story = told(failback_drain_timeout=NEVER)
    story.at(1.0).bad(tcp("a"))
    held = Held(story, B)
    story.at(3.0).good(tcp("a"))
    assert (RETIRING, NEVER) == held.seen

    story.at(8.0).bad(tcp("b"))
    assert (RETIRING, 8.0 + ORDINARY) == held.seen


def test_a_later_fall_does_not_move_a_nearer_deadline_away() -> None:
    """A promise to be gone by then is kept."""
    story = told()
    story.at(1.0).bad(tcp("a"))
    held = Held(story, B)
    story.at(3.0).good(tcp("a"))
    held.follow()
    story.at(8.0).bad(tcp("b"))

    assert (RETIRING, 3.0 + FAILBACK) == held.seen


def test_a_repeated_fall_does_not_move_the_deadline() -> None:
    """A flapping node drains once."""
    story = told(failback=Failback.MANUAL)
    held = Held(story, A)
    story.at(2.0).bad(tcp("a"))
    held.follow()
    for now in (3.0, 5.0):
        story.at(now).good(tcp("a"))
        assert (RETIRING, 2.0 + ORDINARY) == held.seen
        story.at(now + 1).bad(tcp("a"))
        assert (RETIRING, 2.0 + ORDINARY) == held.seen


def test_the_way_back_into_the_active_set_lifts_the_deadline() -> None:
    """Flows of a node that recovered in time go on."""
    story = told()
    held = Held(story, A)
    story.at(2.0).bad(tcp("a"))
    held.follow()
    story.at(4.0).good(tcp("a"))
    assert (ACTIVE, NEVER) == held.seen

    story.at(9.0).bad(tcp("a"))
    assert (RETIRING, 9.0 + ORDINARY) == held.seen


@pytest.mark.parametrize("timeout", [0.0, 3.0, NEVER])
def test_the_drain_timeout_counts_from_the_fall(timeout: float) -> None:
    """Zero is at once, inf never."""
    story = told(drain_timeout=timeout)
    held = Held(story, A)
    story.at(2.0).bad(tcp("a"))

    assert (RETIRING, 2.0 + timeout) == held.seen


def test_fail_open_keeps_no_lease_active() -> None:
    """The last node has fallen all the same: its old flows drain, while new ones have nowhere else to go."""
    story = told(A)
    before = Held(story, A)
    story.at(1.0).bad(tcp("a"))
    during = Held(story, A)

    assert (RETIRING, 1.0 + ORDINARY) == before.seen
    assert (STANDBY, NEVER) == during.seen


def test_a_lease_opened_under_fail_open_joins_and_retires_as_others_do() -> None:
    """Once its endpoint has been usable, losing that again is a fall."""
    story = told(failback=Failback.MANUAL)
    story.at(1.0).bad(tcp("a")).bad(tcp("b"))
    held = Held(story, A)
    story.at(2.0).good(tcp("b"))
    assert (STANDBY, NEVER) == held.seen
    story.at(3.0).good(tcp("a"))
    assert (STANDBY, NEVER) == held.seen
    story.at(4.0).bad(tcp("a"))
    assert (RETIRING, 4.0 + ORDINARY) == held.seen


def test_a_lease_opened_on_trial_has_no_deadline_until_its_endpoint_is_active() -> None:
    """An endpoint in probation is not usable yet, but it has not fallen during this lease."""
    story = told(attrs.evolve(A, probe=ProbeKind.NONE), B)
    before = Held(story, A)
    story.at(1.0).refused(tcp("a"))
    assert (RETIRING, 1.0 + ORDINARY) == before.seen
    story.at(2.0)
    assert "a" == story.route(TCP).trial
    on_trial = Held(story, A)

    assert (RETIRING, 1.0 + ORDINARY) == before.seen
    assert (STANDBY, NEVER) == on_trial.seen
    story.at(3.0).served(tcp("a"))
    assert (ACTIVE, NEVER) == before.seen
    assert (ACTIVE, NEVER) == on_trial.seen


def test_a_disabled_node_drains_as_configured() -> None:
    """The operator takes it out; what runs may finish."""
    story = told()
    held = Held(story, A)
    story.at(1.0).disable("a")

    assert (RETIRING, 1.0 + ORDINARY) == held.seen


def test_a_disabled_standby_drains_too() -> None:
    """It is to be empty, whichever way its flows came."""
    story = told()
    held = Held(story, B)
    story.at(1.0).disable("b")

    assert (RETIRING, 1.0 + ORDINARY) == held.seen


def test_a_marked_down_node_drains() -> None:
    """The operator's word counts as evidence."""
    story = told()
    held = Held(story, A)
    story.at(1.0).mark("a", Mark.DOWN)

    assert (RETIRING, 1.0 + ORDINARY) == held.seen


@pytest.mark.parametrize("seconds", [0.0, 3.0, 100.0, NEVER])
def test_an_operators_drain_has_its_own_deadline(seconds: float) -> None:
    """Shorter or longer than configured: the order says so."""
    story = told()
    held = Held(story, A)
    story.at(5.0).drain("a", seconds)

    assert (RETIRING, 5.0 + seconds) == held.seen


def test_a_new_order_replaces_the_one_before() -> None:
    """Only an operator may give more time."""
    story = told()
    held = Held(story, A)
    story.at(5.0).drain("a", 3.0)
    held.follow()
    story.at(6.0).drain("a", NEVER)
    assert (RETIRING, NEVER) == held.seen
    story.at(7.0).drain("a", 3.0)
    assert (RETIRING, 10.0) == held.seen


def test_an_order_is_counted_from_when_it_was_given() -> None:
    """A listener that looks late must not give more time."""
    story = told()
    held = Held(story, A)
    story.at(5.0).drain("a", 3.0)
    story.now = 6.5

    assert (RETIRING, 8.0) == held.seen


def test_an_order_stands_while_its_node_also_falls() -> None:
    """The operator knows best."""
    story = told()
    held = Held(story, A)
    story.at(5.0).drain("a", NEVER)
    held.follow()
    story.at(6.0).bad(tcp("a"))

    assert (RETIRING, NEVER) == held.seen


def test_an_order_reaches_what_drains_already() -> None:
    """More time for a node that has failed is the operator's to give."""
    story = told()
    held = Held(story, A)
    story.at(1.0).bad(tcp("a"))
    held.follow()
    story.at(2.0).drain("a", 60.0)

    assert (RETIRING, 62.0) == held.seen


def test_enable_undoes_a_drain() -> None:
    """A change of mind in time costs no flow."""
    story = told()
    held = Held(story, A)
    story.at(5.0).drain("a", 3.0)
    held.follow()
    story.at(6.0).enable("a")

    assert (ACTIVE, NEVER) == held.seen


@pytest.mark.parametrize(("seconds", "deadline"), [(NEVER, 7.0 + ORDINARY), (3.0, 8.0)])
def test_a_withdrawn_order_leaves_the_ordinary_time(seconds: float, deadline: float) -> None:
    """Nobody asks for endless patience any more, and no promise to be gone sooner is broken."""
    story = told()
    held = Held(story, A)
    story.at(5.0).drain("a", seconds)
    held.follow()
    story.at(7.0).disable("a")

    assert (RETIRING, deadline) == held.seen


def test_an_order_from_before_the_lease_is_lifted_with_enable() -> None:
    """The same order again is a new one."""
    story = told()
    held = Held(story, A)
    story.at(1.0).drain("a", 3.0)
    held.follow()
    story.at(1.0).enable("a")
    held.follow()
    story.at(1.0).drain("a", 3.0)

    assert (RETIRING, 4.0) == held.seen


def test_a_removed_node_drains() -> None:
    """A reload takes it away; its pool's time still holds."""
    story = told()
    held = Held(story, A)
    story.at(3.0).reload(B, **FAST)

    assert (RETIRING, 3.0 + ORDINARY) == held.seen


def test_a_removed_node_is_not_kept_by_an_order_of_endless_patience() -> None:
    """The order was about a node that is no more."""
    story = told()
    held = Held(story, A)
    story.at(2.0).drain("a", NEVER)
    held.follow()
    story.at(3.0).reload(B, **FAST)

    assert (RETIRING, 3.0 + ORDINARY) == held.seen


def test_a_node_that_is_elsewhere_now_drains_where_it_was() -> None:
    """Flows at the old address are at a node that is configured no more."""
    story = told()
    held = Held(story, A)
    story.at(3.0).reload(attrs.evolve(A, tcp=Address("elsewhere.example", 80)), B, **FAST)
    assert (RETIRING, 3.0 + ORDINARY) == held.seen

    story.at(4.0).reload(A, B, **FAST).good(tcp("a"))
    assert (ACTIVE, NEVER) == held.seen


def test_a_node_in_another_pool_drains() -> None:
    """Its flows came by a route that does not lead there any more."""
    story = told()
    held = Held(story, A)
    story.at(3.0).reload(attrs.evolve(A, pool="other"), B, **FAST)

    assert (RETIRING, 3.0 + ORDINARY) == held.seen


def test_a_pool_that_is_gone_still_has_its_drain_time() -> None:
    """The last flows of a pool are treated as it was configured."""
    node = tcp_node("p", pool="private")
    story = Story(node, **FAST)
    held = Held(story, node)
    held.subject = attrs.evolve(held.subject, pool=pool_named("private", drain_timeout=33.0))
    held.follow()
    story.at(1.0).reload(A, **FAST)

    assert (RETIRING, 34.0) == held.seen


def test_the_pools_present_time_counts_not_the_one_at_opening() -> None:
    """A reload that shortens the drain shortens the drains that begin after it."""
    story = told()
    held = Held(story, A)
    story.at(1.0).reload(A, B, **{**FAST, "drain_timeout": 2.0})
    held.follow()
    story.at(5.0).bad(tcp("a"))

    assert (RETIRING, 7.0) == held.seen


def test_a_drain_under_way_keeps_its_deadline_over_a_reload() -> None:
    """What was promised to a flow is not taken back, nor stretched."""
    story = told()
    held = Held(story, A)
    story.at(1.0).bad(tcp("a"))
    held.follow()
    story.at(2.0).reload(A, B, **{**FAST, "drain_timeout": 100.0})

    assert (RETIRING, 1.0 + ORDINARY) == held.seen


def test_a_drain_under_way_is_not_cut_short_by_a_reload_either() -> None:
    """What was promised when it began holds, with a deadline and without one."""
    for timeout in (ORDINARY, NEVER):
        story = told(drain_timeout=timeout)
        held = Held(story, A)
        story.at(1.0).bad(tcp("a"))
        held.follow()
        story.at(2.0).reload(A, B, **{**FAST, "drain_timeout": 3.0})

        assert (RETIRING, 1.0 + timeout) == held.seen


def test_a_lease_opened_under_fail_open_drains_when_its_node_is_taken_away() -> None:
    """It was never usable, so it cannot fall; but the operator wants it empty."""
    story = told()
    story.at(1.0).bad(tcp("a")).bad(tcp("b"))
    held = Held(story, A)
    assert (STANDBY, NEVER) == held.seen
    story.at(2.0).disable("a")

    assert (RETIRING, 2.0 + ORDINARY) == held.seen


def test_a_withdrawn_order_leaves_a_fallen_node_the_ordinary_time() -> None:
    """Endless patience was for the maintenance; the node is back in the file and still dead."""
    story = told()
    held = Held(story, A)
    story.at(1.0).drain("a", NEVER)
    assert (RETIRING, NEVER) == held.seen
    story.at(2.0).bad(tcp("a")).enable("a")

    assert (RETIRING, 2.0 + ORDINARY) == held.seen


def test_an_address_that_left_its_names_answer_drains_and_comes_back() -> None:
    """The node is fine; where these flows are is not the node any more."""
    story = told()
    held = Held(story, A)
    story.at(3.0)
    held.follow(gone=True)
    assert (RETIRING, 3.0 + ORDINARY) == (held.terms.kind, held.terms.deadline)

    held.follow(gone=False)
    assert (ACTIVE, NEVER) == (held.terms.kind, held.terms.deadline)


def test_a_listener_without_a_route_keeps_what_it_has() -> None:
    """A route may be gone a moment before its node is: nothing is active then."""
    story = told()
    held = Held(story, A)
    state = attrs.evolve(story.state, routes={})

    terms = terms_at(state, 2.0, held.subject, held.terms)
    assert (RETIRING, 2.0 + FAILBACK) == (terms.kind, terms.deadline)


# --- whatever happens -----------------------------------------------------------------------------

STEPS = st.lists(
    st.tuples(
        st.floats(0.0, 4.0),
        st.sampled_from(
            ["bad", "good", "refused", "disable", "enable", "drain", "up", "down", "auto", "switch", "reload"]
        ),
        st.sampled_from("ab"),
        st.sampled_from([0.0, 1.0, 5.0, NEVER, None]),
        st.booleans(),
    ),
    max_size=25,
)


def _step(story: Story, what: str, node: str, seconds: float | None) -> None:
    match what:
        case "bad":
            story.bad(tcp(node))
        case "good":
            story.good(tcp(node))
        case "refused":
            story.refused(tcp(node))
        case "disable":
            story.disable(node)
        case "enable":
            story.enable(node)
        case "drain":
            story.drain(node, seconds)
        case "up" | "down":
            story.mark(node, Mark(what))
        case "auto":
            story.mark(node, None).auto()
        case "switch":
            story.switch(node)
        case "reload":
            story.reload(*{"a": (B,), "b": (A, B)}[node], **{**FAST, "drain_timeout": seconds or 1.0})


@given(steps=STEPS, opened=st.integers(0, 10), name=st.sampled_from("ab"))
def test_a_deadline_moves_away_only_by_being_lifted_or_by_order(
    steps: list[tuple[float, str, str, float | None, bool]], opened: int, name: str
) -> None:
    """Flows are promised an end and are never held longer by evidence; a lease that is over is never lifted."""
    story, held, node = told(), None, {"a": A, "b": B}[name]
    for number, (pause, what, about, seconds, gone) in enumerate(steps):
        story.at(story.now + pause)
        _step(story, what, about, seconds)
        if held is None:
            if number >= opened:
                held = Held(story, node)
            continue
        before = held.terms
        if before.deadline <= story.now:
            return  # over: a lease book never asks again
        after = held.follow(gone=gone and what == "reload")

        lifted = after.kind is ACTIVE and after.deadline == NEVER
        ordered = after.ordered is not None and after.ordered != before.ordered
        assert after.deadline <= before.deadline or lifted or ordered
        assert (after.kind is RETIRING) == (after.kind is not STANDBY and after.kind is not ACTIVE)
        assert after.deadline == NEVER or after.kind is RETIRING
        if lifted:
            assert name in story.route(TCP).active
        assert after == held.follow(gone=gone and what == "reload")
