"""Which node a new flow gets, over real flows and across reloads."""

from collections.abc import Mapping

import attrs
from trio.testing import MockClock

from sniffgate.config.schema import Strategy, pool_from
from sniffgate.state.model import Mark
from tests.tasks.tcp_world import QA, QB, opened, quiet, served, settled, tcp_config
from tests.tasks.world import World, running


async def test_equal_priorities_share_by_fewest_flows(autojump_clock: MockClock) -> None:
    """A long-lived flow keeps its node's next one away, whoever came last."""
    nodes = (quiet("a", 5), quiet("b", 5), quiet("c", 5), quiet("d", 1))
    async with running(tcp_config(*nodes)) as world:
        conns = await opened(world, 6)
        assert {"node-a": 2, "node-b": 2, "node-c": 2, "node-d": 0} == served(world)

        for conn in (conns[1], conns[4]):  # node-b's
            conn.abort()
        await settled()
        await opened(world, 2)
        assert {"node-a": 2, "node-b": 4, "node-c": 2, "node-d": 0} == served(world)


async def test_a_client_that_still_waits_for_its_node_counts_as_its_flow(autojump_clock: MockClock) -> None:
    """Otherwise a node that hangs would get every client of the meantime."""
    nodes = (quiet("a", 5), quiet("b", 5))
    async with running(tcp_config(*nodes)) as world:
        world.nodes["node-a"].black_hole()
        await opened(world, 2)

        assert 1 == served(world)["node-b"]


async def test_round_robin_takes_every_node_in_turn(autojump_clock: MockClock) -> None:
    """Whatever their priorities and flows."""
    nodes = (quiet("a", 9), quiet("b"), quiet("c"))
    async with running(tcp_config(*nodes, strategy=Strategy.ROUND_ROBIN)) as world:
        answers = [await world.ask() for _ in range(7)]

        assert [f"node-{letter}:hi".encode() for letter in "abcabca"] == answers


async def test_round_robin_goes_on_where_it_was_after_a_node_has_left(autojump_clock: MockClock) -> None:
    """A change of the set favours nobody."""
    nodes = (quiet("a"), quiet("b"), quiet("c"))
    async with running(tcp_config(*nodes, strategy=Strategy.ROUND_ROBIN)) as world:
        assert b"node-a:hi" == await world.ask()
        await world.gateway.mark("node-b", Mark.DOWN)
        assert [b"node-c:hi", b"node-a:hi"] == [await world.ask(), await world.ask()]
        await world.gateway.mark("node-b", None)
        assert b"node-b:hi" == await world.ask()


def share_of(world: World, before: Mapping[str, int]) -> dict[str, int]:
    return {name: count - before[name] for name, count in served(world).items()}


async def test_weights_share_nine_hundred_flows_across_reloads(autojump_clock: MockClock) -> None:
    """5:3:1 within a tenth, though the configuration is applied again and again: the rotation survives."""
    nodes = (quiet("a", weight=5), quiet("b", weight=3), quiet("c", weight=1))
    config = tcp_config(*nodes, strategy=Strategy.WEIGHTED)
    async with running(config) as world:
        for number in range(900):
            if number % 50 == 49:
                settings = attrs.evolve(config.globals, drain_timeout=10.0 + number)
                pools = (pool_from(settings, "default"),)
                await world.gateway.apply(attrs.evolve(config, globals=settings, pools=pools))
            await world.ask()

        counts = served(world)
        assert 900 == sum(counts.values())
        for name, expected in (("node-a", 500), ("node-b", 300), ("node-c", 100)):
            assert 0.9 * expected <= counts[name] <= 1.1 * expected


async def test_smooth_weights_do_not_send_flows_in_bursts(autojump_clock: MockClock) -> None:
    """As nginx does it: the heavy node's turns are spread."""
    nodes = (quiet("a", weight=5), quiet("b", weight=1), quiet("c", weight=1))
    async with running(tcp_config(*nodes, strategy=Strategy.WEIGHTED)) as world:
        order = b"".join([(await world.ask())[5:6] for _ in range(7)])

        assert b"aabacaa" == order


async def test_weight_zero_gets_flows_only_if_all_are_zero(autojump_clock: MockClock) -> None:
    """So a node can be spared without being disabled."""
    nodes = (quiet("a", weight=0), quiet("b", weight=1))
    config = tcp_config(*nodes, strategy=Strategy.WEIGHTED)
    async with running(config) as world:
        for _ in range(10):
            await world.ask()
        assert {"node-a": 0, "node-b": 10} == served(world)

        before = served(world)
        spared = tuple(attrs.evolve(node, weight=0) for node in nodes)
        await world.gateway.apply(attrs.evolve(config, nodes=spared))
        for _ in range(10):
            await world.ask()
        assert {"node-a": 5, "node-b": 5} == share_of(world, before)


async def test_a_retry_prefers_the_rest_of_the_active_set(autojump_clock: MockClock) -> None:
    """Standbys are for when the whole tier is down."""
    nodes = (quiet("a", 5), quiet("b", 5), quiet("c", 1))
    async with running(tcp_config(*nodes)) as world:
        world.nodes["node-a"].kill()
        assert b"node-b:hi" == await world.ask()

        world.nodes["node-b"].kill()
        assert b"node-c:hi" == await world.ask()


async def test_a_pin_has_all_new_flows_until_its_node_is_unusable(autojump_clock: MockClock) -> None:
    """And is released then, not obeyed to the end."""
    async with running(tcp_config(QA, QB)) as world:
        await world.gateway.switch("node-b")
        assert b"node-b:hi" == await world.ask()
        await world.gateway.mark("node-b", Mark.DOWN)
        assert b"node-a:hi" == await world.ask()
        await world.gateway.mark("node-b", None)
        assert b"node-a:hi" == await world.ask()
