"""Every change of an active set is told with its reason and its evidence."""

import pytest

from sniffgate.config.schema import Failback, NodeConfig, Strategy
from sniffgate.state.model import RECENT_SWITCHES, RouteKey, SwitchReason
from tests.state.build import TCP, Story, both_node, tcp, tcp_node, udp

A, B = tcp("a"), tcp("b")
TIERS = tcp_node("a", priority=1), tcp_node("b")


def reasons(story: Story) -> list[SwitchReason]:
    return [switch.reason for switch in story.state.switches]


def test_the_first_table_is_the_start() -> None:
    """A history begins somewhere."""
    (switch,) = Story(*TIERS).state.switches

    assert (SwitchReason.START, (), ("a",), "") == (switch.reason, switch.before, switch.after, switch.detail)
    assert (1, RouteKey("default", TCP)) == (switch.epoch, switch.route)


def test_a_failover_tells_the_evidence() -> None:
    """The first line of every post-mortem."""
    switch = Story(*TIERS).at(2.0).bad(A, 3, error="timed out").state.switches[-1]

    assert (SwitchReason.FAILOVER, ("a",), ("b",), 2.0) == (switch.reason, switch.before, switch.after, switch.at)
    assert "a/tcp unhealthy by probes (timed out)" == switch.detail


def test_the_evidence_against_a_follower_is_its_siblings() -> None:
    """Its own is spotless."""
    switches = Story(both_node("a", priority=1), both_node("b")).bad(A, 3).state.switches

    assert ["a/tcp unhealthy by probes (connection refused)"] == [
        switch.detail for switch in switches if switch.route.transport is udp("a").transport and switch.detail
    ]


def test_failback_rejoin_fail_open_and_recovery_are_told_apart() -> None:
    """They drain and alarm differently."""
    story = Story(*TIERS).bad(A, 3).good(A, 2).bad(A, 3).bad(B, 3).good(B, 2)
    assert [
        SwitchReason.START,
        SwitchReason.FAILOVER,
        SwitchReason.FAILBACK,
        SwitchReason.FAILOVER,
        SwitchReason.FAIL_OPEN,
        SwitchReason.RECOVERY,
    ][:4] == reasons(story)[:4]
    assert [SwitchReason.FAIL_OPEN, SwitchReason.RECOVERY] == reasons(story)[4:]

    equals = Story(tcp_node("a"), tcp_node("b")).bad(A, 3).good(A, 2)
    assert SwitchReason.REJOIN is reasons(equals)[-1]
    assert "a/tcp healthy for 0.0 s, of the tier in use" == equals.state.switches[-1].detail


def test_a_failback_tells_who_came_back_and_by_what_right() -> None:
    """Whoever was on the other node asks why it was left: nothing was wrong with it."""
    story = Story(*TIERS, failback_delay=5.0).bad(A, 3).at(7.0).good(A, 2).at(20.0)
    switch = story.state.switches[-1]

    assert (SwitchReason.FAILBACK, ("b",), ("a",), 12.0) == (switch.reason, switch.before, switch.after, switch.at)
    assert "a/tcp healthy for 5.0 s, failback auto" == switch.detail


def test_a_rejoin_tells_who_joined() -> None:
    """And without tiers there is none to speak of."""
    story = Story(tcp_node("a"), tcp_node("b"), strategy=Strategy.ROUND_ROBIN).bad(A, 3).good(A, 2)

    assert (SwitchReason.REJOIN, "a/tcp healthy for 0.0 s") == (reasons(story)[-1], story.state.switches[-1].detail)


def test_the_evidence_of_hundreds_of_nodes_is_cut_short() -> None:
    """The state keeps a hundred switches: their words must not fill it."""
    together = Story(*[tcp_node(f"n{number:03}") for number in range(10)], failure_threshold=1)
    for number in range(10):
        together.bad(tcp(f"n{number:03}"))
    detail = together.state.switches[-1].detail

    assert SwitchReason.FAIL_OPEN is reasons(together)[-1]
    assert (8, True) == (detail.count("/tcp"), detail.endswith("; and 1 more"))


def test_a_route_that_closes_failed_over_to_nobody() -> None:
    """And whoever opens it again is its recovery."""
    story = Story(tcp_node("a"), fail_open=False).bad(A, 3)
    assert (SwitchReason.FAILOVER, ()) == (reasons(story)[-1], story.state.switches[-1].after)

    assert SwitchReason.RECOVERY is reasons(story.good(A, 2))[-1]


def test_operators_and_reloads_are_named() -> None:
    """So that nobody looks for a fault."""
    story = Story(*TIERS, failback=Failback.MANUAL)

    assert SwitchReason.OPERATOR is reasons(story.switch("b"))[-1]
    assert SwitchReason.OPERATOR is reasons(story.disable("b"))[-1]
    assert SwitchReason.RELOAD is reasons(story.reload(tcp_node("c")))[-1]
    assert SwitchReason.RELOAD is reasons(story.reload().reload(tcp_node("c")))[-1]


def test_a_newcomer_that_was_waiting_to_be_healthy_came_by_reload() -> None:
    """It does not come back: it was never there."""
    story = Story(tcp_node("b")).good(B, 2).reload(*TIERS).good(A, 2)

    assert SwitchReason.RELOAD is reasons(story)[-1]
    assert "a/tcp healthy since a reload brought it" == story.state.switches[-1].detail


@pytest.mark.parametrize(
    ("nodes", "detail"),
    [
        ((tcp_node("b"),), "a/tcp removed"),
        ((tcp_node("a", priority=1, enabled=False), tcp_node("b")), "a/tcp disabled"),
        ((tcp_node("a", priority=1), tcp_node("b", priority=2)), "b/tcp priority 0 -> 2"),
        ((tcp_node("a", priority=-1), tcp_node("b", priority=2)), "a/tcp priority 1 -> -1; b/tcp priority 0 -> 2"),
        ((tcp_node("c"),), "a/tcp removed; c/tcp added"),
        ((tcp_node("a", priority=1, pool="other"), tcp_node("b")), "a/tcp pool default -> other"),
        ((both_node("a", priority=1, tcp=None), tcp_node("b")), "a/tcp address a.example:80 -> none"),
    ],
)
def test_a_switch_by_reload_tells_what_the_file_says_now(nodes: tuple[NodeConfig, ...], detail: str) -> None:
    """Who wrote the file may not be who reads the log; and a node may have left for what was said of another."""
    story = Story(*TIERS).good(A, 2).good(B, 2).reload(*nodes)
    (switch,) = [
        switch for switch in story.state.switches[1:] if switch.route == RouteKey("default", TCP)
    ]  # fmt: skip

    assert (SwitchReason.RELOAD, detail) == (switch.reason, switch.detail)


def test_promotions_are_counted_and_only_recent_switches_kept() -> None:
    """A flapping node must not grow the state without end."""
    story = Story(*TIERS)
    for _ in range(RECENT_SWITCHES):
        story.bad(A, 3).good(A, 2)

    assert RECENT_SWITCHES == len(story.state.switches)
    assert RECENT_SWITCHES + 1 == story.health(A).promotions


def test_eight_nodes_are_told_whole() -> None:
    """Nobody is told of none more."""
    together = Story(*[tcp_node(f"n{number}") for number in range(9)], failure_threshold=1)
    for number in range(9):
        together.bad(tcp(f"n{number}"))
    detail = together.state.switches[-1].detail

    assert (8, False) == (detail.count("/tcp"), "more" in detail)


def test_a_recovery_out_of_nothing_tells_who_is_well_again_and_no_error_of_the_past() -> None:
    """The last error stays in the state; it is not why the route is open again."""
    story = Story(tcp_node("a"), fail_open=False).bad(A, 3).good(A, 2)

    assert (SwitchReason.RECOVERY, "a/tcp healthy by probes") == (reasons(story)[-1], story.state.switches[-1].detail)


def test_a_fall_without_an_error_is_told_without_one() -> None:
    """No empty brackets."""
    assert "a/tcp unhealthy by probes" == Story(*TIERS).bad(A, 3, error="").state.switches[-1].detail


def test_a_newcomer_that_brings_a_waiting_node_along_came_by_reload() -> None:
    """The tier takes over because of the newcomer: the other one would still have to wait."""
    nodes = (*TIERS, tcp_node("c", priority=1))
    story = Story(*TIERS, failback_delay=30.0).good(B, 2).bad(A, 3).good(A, 2).reload(*nodes, failback_delay=30.0)
    assert "b" == story.active()
    switch = story.good(tcp("c"), 2).state.switches[-1]

    assert (("a", "c"), SwitchReason.RELOAD) == (switch.after, switch.reason)
    assert "c/tcp healthy since a reload brought it" == switch.detail


def test_a_reload_is_told_of_those_that_came_or_went_and_of_no_others() -> None:
    """Who stays active has nothing to explain, whatever else the file says of it now."""
    story = Story(*TIERS).good(A, 2).good(B, 2).reload(tcp_node("a", priority=2), tcp_node("b", priority=2))

    assert (("a", "b"), "b/tcp priority 0 -> 2") == (story.state.switches[-1].after, story.state.switches[-1].detail)
