"""Hedged connects: where a node does not answer, the next is tried beside it, within bounds."""

import attrs
import trio
from trio.testing import MockClock

from sniffgate.config.schema import GlobalConfig, Transport, pool_from
from sniffgate.state.model import Endpoint, RouteKey
from sniffgate.tasks.hedging import HedgeBudget
from sniffgate.testing import open_gateway
from sniffgate.testing.trace import Fate, Kind
from tests.tasks.configs import A, B, C, config_for

UNPROBED = [attrs.evolve(node, probe=type(node.probe).NONE) for node in (A, B, C)]


async def test_a_client_of_a_black_hole_is_served_by_the_standby_after_the_hedge_delay(
    autojump_clock: MockClock,
) -> None:
    """Nobody should wait for a connect timeout when another node would answer at once."""
    async with open_gateway(config_for(*UNPROBED)) as service:
        service.nodes["node-a"].black_hole()

        assert b"node-b:hi" == await service.ask()
        assert 0.2 == trio.current_time()


async def test_without_hedging_the_standby_is_tried_after_the_connect_timeout(autojump_clock: MockClock) -> None:
    """A database standby must not be written to because the primary was slow for a moment."""
    async with open_gateway(config_for(*UNPROBED, hedge_delay=0.0)) as service:
        service.nodes["node-a"].black_hole()

        assert b"node-b:hi" == await service.ask()
        assert 3.0 == trio.current_time()


async def test_no_byte_of_the_client_reaches_the_node_that_lost(autojump_clock: MockClock) -> None:
    """The slower connect is closed without a word, or a request would be carried out twice."""
    async with open_gateway(config_for(*UNPROBED)) as service:
        service.network.set_latency(0.25, "10.0.0.1")  # a connect takes half a second: slow, not dead

        assert b"node-b:hi" == await service.ask()
        await trio.sleep(2.0)

        assert b"" == service.nodes["node-a"].data()
        assert 1 == len(service.nodes["node-a"].accepted)
        assert [] == service.nodes["node-a"].conns


async def test_a_late_success_is_slow_and_no_failure(autojump_clock: MockClock) -> None:
    """A node that answers late is no dead node."""
    async with open_gateway(config_for(*UNPROBED)) as service:
        service.network.set_latency(0.25, "10.0.0.1")
        await service.ask()
        await trio.sleep(4.0)

        health = service.state.health[Endpoint("node-a", Transport.TCP)]
        assert (0, ()) == (health.bad_streak, health.window)
        assert 0 == service.gateway.ledger.of(Endpoint("node-a", Transport.TCP)).failed


async def test_the_loser_of_a_race_is_evidence_when_its_connect_times_out(autojump_clock: MockClock) -> None:
    """The client is served long before, but that the node did not answer must still count."""
    async with open_gateway(config_for(*UNPROBED, passive_eject_threshold=1)) as service:
        service.nodes["node-a"].black_hole()
        await service.ask()

        key = RouteKey("default", Transport.TCP)
        state = await service.wait_for(lambda state: "node-a" not in state.routes[key].active)
        assert 3.0 == trio.current_time()
        assert "timeout" == state.health[Endpoint("node-a", Transport.TCP)].last_error


async def test_a_node_that_is_usually_slow_is_given_three_times_its_usual_time(autojump_clock: MockClock) -> None:
    """What is far away is not hanging."""
    async with open_gateway(config_for(*UNPROBED, hedge_delay=0.2)) as service:
        service.network.set_latency(0.09, "10.0.0.1")
        assert b"node-a:hi" == await service.ask()  # a connect takes 0.18 s
        began = trio.current_time()
        service.nodes["node-a"].black_hole()

        assert b"node-b:hi" == await service.ask()
        assert 3 * 0.18 == round(trio.current_time() - began, 9)


async def test_the_early_bytes_of_a_client_arrive_once_and_whole_at_the_winner(autojump_clock: MockClock) -> None:
    """They wait in the kernel until there is a node."""
    async with open_gateway(config_for(*UNPROBED)) as service:
        service.nodes["node-a"].black_hole()
        with await service.connect() as conn:
            await conn.send_all(b"x" * 40_000)
            await trio.sleep(1.0)

        assert b"x" * 40_000 == service.nodes["node-b"].data()


async def test_a_slow_pool_does_not_double_its_own_load(autojump_clock: MockClock) -> None:
    """At most a tenth of the new flows in ten seconds hedge, and at least three."""
    async with open_gateway(config_for(*UNPROBED, hedge_delay=0.1)) as service:
        for host in ("10.0.0.1", "10.0.0.2", "10.0.0.3"):
            service.network.set_latency(0.2, host)  # every connect takes 0.4 s
        async with trio.open_nursery() as clients:
            for _ in range(20):
                clients.start_soon(service.ask)

        assert 3 == service.gateway.ledger.hedged
        assert 23 == len(service.network.trace.select(Kind.SYN, Fate.SENT, source=None)) - 20


async def test_a_third_node_is_tried_when_the_second_hangs_too(autojump_clock: MockClock) -> None:
    """Each try that hangs brings the next, up to connect_retry."""
    async with open_gateway(config_for(*UNPROBED)) as service:
        service.nodes["node-a"].black_hole()
        service.nodes["node-b"].black_hole()

        assert b"node-c:hi" == await service.ask()
        assert 0.4 == trio.current_time()


async def test_a_hedge_that_is_refused_makes_way_for_the_next_node_at_once(autojump_clock: MockClock) -> None:
    """A refusal says by itself that waiting is no use."""
    async with open_gateway(config_for(*UNPROBED)) as service:
        service.nodes["node-a"].black_hole()
        service.nodes["node-b"].refuse()

        assert b"node-c:hi" == await service.ask()
        assert 0.2 == trio.current_time()


async def test_a_pool_may_hedge_by_its_own_delay(autojump_clock: MockClock) -> None:
    """Databases and caches share a gateway."""
    pool = pool_from(GlobalConfig(), "default", hedge_delay=0.05)
    async with open_gateway(config_for(*UNPROBED, pools=(pool,))) as service:
        service.nodes["node-a"].black_hole()

        assert b"node-b:hi" == await service.ask()
        assert 0.05 == trio.current_time()


def test_the_budget_grows_with_the_traffic() -> None:
    """A tenth of a busy route is more than three."""
    budget = HedgeBudget()
    for number in range(100):
        budget.count_flow(number / 100)

    assert 10 == sum(budget.take(1.0) for _ in range(50))


def test_the_budget_is_there_again_after_its_window() -> None:
    """It bounds a rate, not a total."""
    budget = HedgeBudget()
    assert [True, True, True, False] == [budget.take(0.0) for _ in range(4)]
    assert not budget.take(9.9)
    assert budget.take(10.0)


def test_the_budget_forgets_old_traffic() -> None:
    """What was busy a minute ago does not pay for hedges now."""
    budget = HedgeBudget()
    for _ in range(1000):
        budget.count_flow(0.0)

    assert 3 == sum(budget.take(60.0) for _ in range(10))
