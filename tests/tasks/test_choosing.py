"""Which node a new flow gets, over real flows and across reloads."""

from collections.abc import Mapping

import attrs
from trio.testing import MockClock, wait_all_tasks_blocked

from sniffgate.config.schema import Strategy, pool_from
from sniffgate.state.model import Mark
from sniffgate.testing import VirtualGateway, open_gateway
from tests.tasks.configs import QA, QB, quiet, tcp_config
from tests.tasks.looking import opened, served


async def test_equal_priorities_share_by_fewest_flows(autojump_clock: MockClock) -> None:
    """A long-lived flow keeps its node's next one away, whoever came last."""
    nodes = (quiet("a", 5), quiet("b", 5), quiet("c", 5), quiet("d", 1))
    async with open_gateway(tcp_config(*nodes)) as service:
        conns = await opened(service, 6)
        assert {"node-a": 2, "node-b": 2, "node-c": 2, "node-d": 0} == served(service)

        for conn in (conns[1], conns[4]):  # node-b's
            conn.abort()
        await wait_all_tasks_blocked()
        await opened(service, 2)
        assert {"node-a": 2, "node-b": 4, "node-c": 2, "node-d": 0} == served(service)


async def test_a_client_that_still_waits_for_its_node_counts_as_its_flow(autojump_clock: MockClock) -> None:
    """Otherwise a node that hangs would get every client of the meantime."""
    nodes = (quiet("a", 5), quiet("b", 5))
    async with open_gateway(tcp_config(*nodes)) as service:
        service.nodes["node-a"].black_hole()
        await opened(service, 2)

        assert 1 == served(service)["node-b"]


async def test_round_robin_takes_every_node_in_turn(autojump_clock: MockClock) -> None:
    """Whatever their priorities and flows."""
    nodes = (quiet("a", 9), quiet("b"), quiet("c"))
    async with open_gateway(tcp_config(*nodes, strategy=Strategy.ROUND_ROBIN)) as service:
        answers = [await service.ask() for _ in range(7)]

        assert [f"node-{letter}:hi".encode() for letter in "abcabca"] == answers


async def test_round_robin_goes_on_where_it_was_after_a_node_has_left(autojump_clock: MockClock) -> None:
    """A change of the set favours nobody."""
    nodes = (quiet("a"), quiet("b"), quiet("c"))
    async with open_gateway(tcp_config(*nodes, strategy=Strategy.ROUND_ROBIN)) as service:
        assert b"node-a:hi" == await service.ask()
        await service.mark("node-b", Mark.DOWN)
        assert [b"node-c:hi", b"node-a:hi"] == [await service.ask(), await service.ask()]
        await service.mark("node-b", None)
        assert b"node-b:hi" == await service.ask()


def share_of(service: VirtualGateway, before: Mapping[str, int]) -> dict[str, int]:
    return {name: count - before[name] for name, count in served(service).items()}


async def test_weights_share_nine_hundred_flows_across_reloads(autojump_clock: MockClock) -> None:
    """5:3:1 within a tenth, though the configuration is applied again and again: the rotation survives."""
    nodes = (quiet("a", weight=5), quiet("b", weight=3), quiet("c", weight=1))
    config = tcp_config(*nodes, strategy=Strategy.WEIGHTED)
    async with open_gateway(config) as service:
        for number in range(900):
            if number % 50 == 49:
                settings = attrs.evolve(config.globals, drain_timeout=10.0 + number)
                pools = (pool_from(settings, "default"),)
                await service.apply(attrs.evolve(config, globals=settings, pools=pools))
            await service.ask()

        counts = served(service)
        assert 900 == sum(counts.values())
        for name, expected in (("node-a", 500), ("node-b", 300), ("node-c", 100)):
            assert 0.9 * expected <= counts[name] <= 1.1 * expected


async def test_smooth_weights_do_not_send_flows_in_bursts(autojump_clock: MockClock) -> None:
    """As nginx does it: the heavy node's turns are spread."""
    nodes = (quiet("a", weight=5), quiet("b", weight=1), quiet("c", weight=1))
    async with open_gateway(tcp_config(*nodes, strategy=Strategy.WEIGHTED)) as service:
        order = b"".join([(await service.ask())[5:6] for _ in range(7)])

        assert b"aabacaa" == order


async def test_weight_zero_gets_flows_only_if_all_are_zero(autojump_clock: MockClock) -> None:
    """So a node can be spared without being disabled."""
    nodes = (quiet("a", weight=0), quiet("b", weight=1))
    config = tcp_config(*nodes, strategy=Strategy.WEIGHTED)
    async with open_gateway(config) as service:
        for _ in range(10):
            await service.ask()
        assert {"node-a": 0, "node-b": 10} == served(service)

        before = served(service)
        spared = tuple(attrs.evolve(node, weight=0) for node in nodes)
        await service.apply(attrs.evolve(config, nodes=spared))
        for _ in range(10):
            await service.ask()
        assert {"node-a": 5, "node-b": 5} == share_of(service, before)


async def test_a_retry_prefers_the_rest_of_the_active_set(autojump_clock: MockClock) -> None:
    """Standbys are for when the whole tier is down."""
    nodes = (quiet("a", 5), quiet("b", 5), quiet("c", 1))
    async with open_gateway(tcp_config(*nodes)) as service:
        service.nodes["node-a"].kill()
        assert b"node-b:hi" == await service.ask()

        service.nodes["node-b"].kill()
        assert b"node-c:hi" == await service.ask()


async def test_a_pin_has_all_new_flows_until_its_node_is_unusable(autojump_clock: MockClock) -> None:
    """And is released then, not obeyed to the end."""
    async with open_gateway(tcp_config(QA, QB)) as service:
        await service.switch("node-b")
        assert b"node-b:hi" == await service.ask()
        await service.mark("node-b", Mark.DOWN)
        assert b"node-a:hi" == await service.ask()
        await service.mark("node-b", None)
        assert b"node-a:hi" == await service.ask()
