"""Probers in a running gateway: their pace to the moment, whom they speak for, and what they leave behind."""

import logging
import random
from itertools import pairwise

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from sniffgate.address import Address
from sniffgate.config.schema import NodeConfig, ProbeKind, pool_from
from sniffgate.state.model import Endpoint, Verdict
from sniffgate.testing import VirtualNetwork, exact, has, now, open_gateway, when
from sniffgate.testing.embedding import NoJitter
from tests.tasks.configs import (
    GATEWAY,
    TCP,
    TCP_DOOR,
    UDP,
    UDP_DOOR,
    A,
    B,
    config_for,
    with_globals,
    with_listeners,
    with_nodes,
)
from tests.tasks.looking import datagrams, held, syns

A_HOST, B_HOST = "10.0.0.1", "10.0.0.2"


# --- pace -----------------------------------------------------------------------------------------


async def test_probes_come_at_the_interval_once_the_first_verdict_stands(autojump_clock: MockClock) -> None:
    """The rate at a node is what the configuration says; only the first verdict is found at the fast interval."""
    async with open_gateway(config_for(A)) as service:
        await trio.sleep_until(4.5)

        assert [0.0, 0.05, 1.05, 2.05, 3.05, 4.05] == syns(service, A_HOST)


async def test_the_dice_move_each_interval_by_a_tenth_at_most(autojump_clock: MockClock) -> None:
    """Gateways that start together must not probe together; but an interval stays what it says."""
    async with open_gateway(config_for(A), dice=random.Random(7)) as service:
        await trio.sleep_until(100.0)
        gaps = [later - sooner for sooner, later in pairwise(syns(service, A_HOST)[1:])]

        assert 0.9 <= min(gaps)
        assert 1.1 >= max(gaps)
        assert 0.1 < max(gaps) - min(gaps)
        assert 95 <= len(gaps) <= 105


async def test_a_node_has_an_interval_of_its_own(autojump_clock: MockClock) -> None:
    """One node may be probed more gently than the others."""
    async with open_gateway(config_for(attrs.evolve(A, probe_interval=5.0), B)) as service:
        await trio.sleep_until(11.0)

        assert [0.0, 0.05, 5.05, 10.05] == syns(service, A_HOST)
        assert 12 == len(syns(service, B_HOST))


class StepsOfProbers(trio.abc.Instrument):
    """Counts the steps of the tasks that probe."""

    def __init__(self) -> None:
        self.count = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.count += ".prober." in task.name or ".tripwire." in task.name


async def test_the_news_of_one_node_wakes_no_other_s_prober(autojump_clock: MockClock) -> None:
    """Where 500 nodes fall at once, each would wake 500 tasks: seconds in which no client is served."""
    nodes = [
        NodeConfig(name=f"node-{number}", tcp=Address(f"10.0.1.{number + 1}", 7000), probe_interval=3600.0)
        for number in range(50)
    ]
    async with open_gateway(config_for(*nodes)) as service:
        await trio.sleep_until(10.0)
        steps = StepsOfProbers()
        trio.lowlevel.add_instrument(steps)
        epoch, revision = service.gateway.state.epoch, service.gateway.state.revision
        await service.disable("node-0")  # an epoch
        service.gateway.services.reporter.suspected(Endpoint("node-1", TCP))  # a revision, and a probe
        await wait_all_tasks_blocked()
        trio.lowlevel.remove_instrument(steps)

        assert epoch + 1 == service.gateway.state.epoch
        assert revision + 2 <= service.gateway.state.revision
        assert len(nodes) > steps.count  # those of one probe


async def test_an_interval_changed_by_a_reload_holds_at_once(autojump_clock: MockClock) -> None:
    """Nobody waits an old hour for a new second."""
    config = config_for(A, probe_interval=3600.0)
    async with open_gateway(config) as service:
        await trio.sleep_until(5.0)
        await service.apply(with_globals(config, probe_interval=1.0))
        await trio.sleep_until(7.5)
        await service.apply(with_globals(config, probe_interval=2.0))
        await trio.sleep_until(11.5)

        assert [0.0, 0.05, 5.0, 6.0, 7.0, 9.0, 11.0] == syns(service, A_HOST)


async def test_a_payload_changed_by_a_reload_is_asked_at_once(autojump_clock: MockClock) -> None:
    """What the old question had as its answer says nothing about the new one."""
    config = config_for(A)
    async with open_gateway(config) as service:
        await trio.sleep_until(3.5)
        changed = attrs.evolve(A, probe_payload=b"PING", probe_expect=b"node-a:PING")
        await service.apply(with_nodes(config, changed))
        await trio.sleep_until(3.6)

        assert [(3.5, b"PING")] == [(each.time, each.data) for each in service.nodes["node-a"].received]
        assert 3.5 == service.health("node-a").last_probe_at


async def test_a_probe_under_way_with_old_settings_does_not_count(autojump_clock: MockClock) -> None:
    """A hanging probe for an old expectation would otherwise fail the node after the file was mended."""
    config = config_for(attrs.evolve(A, probe_payload=b"x", probe_expect=b"never"), probe_timeout=5.0)
    async with open_gateway(config) as service:
        await trio.sleep_until(1.0)
        await service.apply(with_nodes(config, A))
        await trio.sleep_until(20.0)

        assert (Verdict.HEALTHY, 0) == (service.health("node-a").verdict, service.health("node-a").probe_fail)


async def test_twenty_unrelated_reloads_change_no_probe(autojump_clock: MockClock) -> None:
    """A rate that grows with reloads makes servers block the gateway."""
    config = config_for(A)
    async with open_gateway(config) as service:
        for round_ in range(20):
            await trio.sleep_until(0.2 + 0.1 * round_)
            await service.apply(with_globals(config, drain_timeout=20.0 + round_))
        await trio.sleep_until(4.5)

        assert [0.0, 0.05, 1.05, 2.05, 3.05, 4.05] == syns(service, A_HOST)


# --- verdicts -------------------------------------------------------------------------------------


async def test_verdicts_come_after_the_thresholds_at_the_fast_interval(autojump_clock: MockClock) -> None:
    """Three failures or two successes in a row: the first at the interval, the others right after it."""
    async with open_gateway(config_for(A)) as service:
        assert 0.05 == await when(service, has("node-a", Verdict.HEALTHY))
        await trio.sleep_until(3.5)
        service.nodes["node-a"].kill()
        assert 4.15 == await when(service, has("node-a", Verdict.UNHEALTHY))
        await trio.sleep_until(10.5)
        service.nodes["node-a"].recover()
        assert 11.20 == await when(service, has("node-a", Verdict.HEALTHY))


@pytest.mark.parametrize(("failures", "successes"), [(1, 1), (5, 4)])
async def test_verdicts_follow_the_configured_thresholds(
    failures: int, successes: int, autojump_clock: MockClock
) -> None:
    """The keys mean what they say."""
    async with open_gateway(config_for(A, failure_threshold=failures, success_threshold=successes)) as service:
        began = await when(service, has("node-a", Verdict.HEALTHY))
        assert exact(0.05 * (successes - 1)) == began
        service.nodes["node-a"].kill()
        fell = await when(service, has("node-a", Verdict.UNHEALTHY))
        assert exact(began + 1.0 + 0.05 * (failures - 1)) == fell
        service.nodes["node-a"].recover()
        assert exact(fell + 1.0 + 0.05 * (successes - 1)) == await when(service, has("node-a", Verdict.HEALTHY))


async def test_a_success_between_failures_starts_the_count_anew(autojump_clock: MockClock) -> None:
    """One blip must not add up with the next."""
    async with open_gateway(config_for(A)) as service:
        for blip in (1.5, 3.7):
            await trio.sleep_until(blip)
            service.nodes["node-a"].refuse()
            await when(service, lambda state: state.health[Endpoint("node-a", TCP)].bad_streak == 2)
            service.nodes["node-a"].recover()
        await trio.sleep_until(10.0)

        assert (Verdict.HEALTHY, 0.05) == (service.health("node-a").verdict, exact(service.health("node-a").since))
        assert (4, 0) == (service.health("node-a").probe_fail, service.health("node-a").bad_streak)


async def test_silence_is_found_in_one_timeout_and_the_fast_steps(autojump_clock: MockClock) -> None:
    """Three timeouts one after another would leave clients hanging for seconds."""
    async with open_gateway(config_for(A)) as service:
        await trio.sleep_until(3.5)
        service.nodes["node-a"].black_hole()

        assert 4.95 == await when(service, has("node-a", Verdict.UNHEALTHY))
        assert [4.05, 4.10, 4.15] == syns(service, A_HOST)[5:]


async def test_an_unhealthy_silent_node_is_probed_at_the_interval_one_by_one(autojump_clock: MockClock) -> None:
    """Its silence is no news: at most one probe is in flight, and none comes early."""
    async with open_gateway(config_for(A)) as service:
        service.nodes["node-a"].black_hole()
        await when(service, has("node-a", Verdict.UNHEALTHY))
        begun = len(syns(service, A_HOST))
        most = 0
        for _ in range(1000):
            await trio.sleep(0.1)
            most = max(most, len(held(service, A_HOST)))

        assert 1 == most
        assert 100 == len(syns(service, A_HOST)) - begun


async def test_results_count_in_the_order_of_the_starts(autojump_clock: MockClock) -> None:
    """A late failure of an early probe must not spoil what later probes have found."""
    async with open_gateway(config_for(A)) as service:
        await trio.sleep_until(4.0)
        service.nodes["node-a"].black_hole()
        await trio.sleep_until(4.07)
        service.nodes["node-a"].recover()
        await trio.sleep_until(4.80)
        assert 5 == service.health("node-a").probe_ok
        await trio.sleep_until(4.90)

        found = service.health("node-a")
        assert (Verdict.HEALTHY, 0.05, 1, 0) == (found.verdict, exact(found.since), found.probe_fail, found.bad_streak)
        assert 7 <= found.probe_ok


async def test_a_slow_server_is_not_suspected_again(autojump_clock: MockClock) -> None:
    """Four times the last latency is the measure, so a distant node is probed no more often than a near one."""
    network = VirtualNetwork()
    network.set_latency(0.15, A_HOST)
    async with open_gateway(config_for(A), network=network) as service:
        await trio.sleep_until(2.0)
        before = len(syns(service, A_HOST))
        await trio.sleep_until(12.0)

        assert 10 == len(syns(service, A_HOST)) - before


async def test_an_endpoint_that_never_gets_a_verdict_is_not_hurried_for_ever(autojump_clock: MockClock) -> None:
    """A UDP server that answers no stray byte stays unknown, and would have a probe after the other."""
    silent = NodeConfig(name="node-a", udp=Address(A_HOST, 7000))
    async with open_gateway(config_for(silent, listeners=(UDP_DOOR,))) as service:
        service.nodes["node-a"].reply = lambda data: None
        await trio.sleep_until(10.0)

        assert [0.0, 0.8, 1.6, 2.4, 3.2, 4.0, 4.8, 5.8, 6.8, 7.8, 8.8, 9.8] == datagrams(service, A_HOST)
        assert Verdict.UNKNOWN is service.health("node-a", UDP).verdict


async def test_trouble_of_a_client_makes_the_next_probe_immediate(autojump_clock: MockClock) -> None:
    """The node is dead now; the interval may be long."""
    async with open_gateway(config_for(A, B, probe_interval=60.0)) as service:
        await trio.sleep_until(30.0)
        service.nodes["node-a"].kill()

        assert b"node-b:hi" == await service.ask()
        assert 30.05 == await when(service, has("node-a", Verdict.UNHEALTHY))
        assert [0.0, 0.05, 30.0, 30.0, 30.05] == syns(service, A_HOST)  # one of them is the client's


async def test_troubles_hurry_probes_to_the_fast_interval_and_no_further(autojump_clock: MockClock) -> None:
    """A hundred clients that are reset must not become a hundred probes."""
    config = config_for(A, probe_interval=60.0, passive_eject_threshold=1000)
    async with open_gateway(config) as service:
        service.nodes["node-a"].reply = lambda data: service.nodes["node-a"].reset_clients()
        await trio.sleep_until(10.0)
        for _ in range(100):
            with await service.connect() as conn:
                await conn.send_all(b"x")
                await trio.sleep(0.01)
        probes = len(syns(service, A_HOST)) - 2 - 100

        assert 1 <= probes <= 1.0 / 0.05 + 1


# --- who probes whom ------------------------------------------------------------------------------


async def test_two_listeners_on_the_same_nodes_probe_them_once(autojump_clock: MockClock) -> None:
    """Probes must not multiply unseen; when the first listener goes, the second one goes on at the same beat."""
    second = attrs.evolve(TCP_DOOR, name="second", listen=Address(GATEWAY, 81))
    config = config_for(A, listeners=(TCP_DOOR, second))
    async with open_gateway(config) as service:
        await trio.sleep_until(3.5)
        await service.apply(with_listeners(config, second))
        await trio.sleep_until(6.5)
        await service.apply(with_listeners(config, TCP_DOOR))
        await trio.sleep_until(9.5)

        assert [0.0, *(exact(0.05 + second) for second in range(10))] == syns(service, A_HOST)


async def test_nothing_probes_for_a_pool_without_listeners(autojump_clock: MockClock) -> None:
    """Nobody reads that verdict."""
    config = config_for(A, attrs.evolve(B, pool="other"), listeners=(TCP_DOOR,))
    async with open_gateway(config) as service:
        await trio.sleep_until(5.0)

        assert [] == syns(service, B_HOST)
        assert [] == datagrams(service, A_HOST)


async def test_probe_tcp_speaks_for_both_endpoints(autojump_clock: MockClock) -> None:
    """One question answers for the whole node, for a UDP listener alone too."""
    node = attrs.evolve(A, probe=ProbeKind.TCP)
    async with open_gateway(config_for(node, listeners=(UDP_DOOR,))) as service:
        await trio.sleep_until(0.5)
        assert [Verdict.HEALTHY] * 2 == [service.health("node-a", each).verdict for each in (TCP, UDP)]
        service.nodes["node-a"].kill(UDP)
        await trio.sleep_until(3.5)
        assert Verdict.HEALTHY is service.health("node-a", UDP).verdict
        service.nodes["node-a"].kill(TCP)
        await trio.sleep_until(4.5)

        assert [Verdict.UNHEALTHY] * 2 == [service.health("node-a", each).verdict for each in (TCP, UDP)]
        assert [] == datagrams(service, A_HOST)


async def test_probe_udp_speaks_for_both_endpoints(autojump_clock: MockClock) -> None:
    """And then silence is a failure, found in one timeout and two fast steps."""
    node = attrs.evolve(A, probe=ProbeKind.UDP)
    async with open_gateway(config_for(node, listeners=(TCP_DOOR,))) as service:
        await trio.sleep_until(0.5)
        assert [Verdict.HEALTHY] * 2 == [service.health("node-a", each).verdict for each in (TCP, UDP)]
        service.nodes["node-a"].freeze(UDP)

        assert 1.95 == await when(service, has("node-a", Verdict.UNHEALTHY, TCP))
        assert Verdict.UNHEALTHY is service.health("node-a", UDP).verdict
        assert [] == syns(service, A_HOST)


async def test_probe_none_probes_nothing_and_proves_nothing(autojump_clock: MockClock) -> None:
    """Not probing is never a success."""
    async with open_gateway(config_for(attrs.evolve(A, probe=ProbeKind.NONE))) as service:
        await trio.sleep_until(60.0)

        assert ([], []) == (syns(service, A_HOST), datagrams(service, A_HOST))
        assert Verdict.UNKNOWN is service.health("node-a").verdict


async def test_a_udp_endpoint_that_follows_is_left_in_peace_while_fine(autojump_clock: MockClock) -> None:
    """A stray byte every second annoys VPN and game servers."""
    async with open_gateway(config_for(A)) as service:
        await trio.sleep_until(60.0)

        assert [] == datagrams(service, A_HOST)


async def test_a_udp_endpoint_that_follows_is_probed_from_its_first_refusal_until_it_is_back(
    autojump_clock: MockClock,
) -> None:
    """Live traffic shows the closed port; the probes make the verdict and find the return."""
    async with open_gateway(config_for(A, B)) as service:
        service.nodes["node-a"].reply = lambda data: None
        await trio.sleep_until(10.0)
        service.nodes["node-a"].kill(UDP)
        with service.datagrams() as client:
            client.send_nowait(b"x")
            assert b"node-b:x" == await client.receive()
            assert 10.05 == await when(service, has("node-a", Verdict.UNHEALTHY, UDP))
        await trio.sleep_until(20.5)
        service.nodes["node-a"].recover(UDP)
        assert exact(21.05 + 0.8 + 0.8) == await when(service, has("node-a", Verdict.HEALTHY, UDP))
        before = len(datagrams(service, A_HOST))
        await trio.sleep_until(60.0)

        assert before == len(datagrams(service, A_HOST))
        assert Verdict.HEALTHY is service.health("node-a", TCP).verdict


async def test_one_refusal_of_a_living_follower_costs_a_look_or_two(autojump_clock: MockClock) -> None:
    """A service that restarted is left in peace again."""
    network = VirtualNetwork()
    network.set_latency(0.01, A_HOST)
    async with open_gateway(config_for(A, B), network=network) as service:
        await trio.sleep_until(10.0)
        service.nodes["node-a"].refuse(UDP)
        with service.datagrams() as client:
            client.send_nowait(b"x")
            await trio.sleep_until(10.015)
            service.nodes["node-a"].recover(UDP)
            assert b"node-b:x" == await client.receive()
        await trio.sleep_until(60.0)

        assert [10.0, 10.02] == datagrams(service, A_HOST)  # the client's, and one probe
        assert 0 == service.health("node-a", UDP).bad_streak


async def test_move_together_probes_the_siblings_too(autojump_clock: MockClock) -> None:
    """The node leaves as a whole, so a listener over one transport reads the verdict over the other."""
    node = attrs.evolve(A, udp_probe_payload=b"?")
    pool = pool_from(config_for().globals, "default", move_together=True)
    async with open_gateway(config_for(node, B, pools=(pool,), listeners=(TCP_DOOR,))) as service:
        await trio.sleep_until(0.5)
        service.nodes["node-a"].kill(UDP)
        await when(service, has("node-a", Verdict.UNHEALTHY, UDP))

        assert b"node-b:hi" == await service.ask()


async def test_a_disabled_node_is_probed_all_the_same(autojump_clock: MockClock) -> None:
    """So that the operator sees whether it is fit before enabling it."""
    async with open_gateway(config_for(attrs.evolve(A, enabled=False), B)) as service:
        await trio.sleep_until(3.5)
        assert Verdict.HEALTHY is service.health("node-a").verdict
        service.nodes["node-a"].kill()

        assert 4.15 == await when(service, has("node-a", Verdict.UNHEALTHY))


# --- what is left behind --------------------------------------------------------------------------


async def test_the_prober_of_a_removed_node_ends_at_once(autojump_clock: MockClock) -> None:
    """Its hanging probe holds a descriptor otherwise."""
    config = config_for(A, B, probe_timeout=30.0)
    async with open_gateway(config) as service:
        service.nodes["node-a"].black_hole()
        await trio.sleep_until(3.0)
        assert [] != held(service, A_HOST)
        await service.apply(with_nodes(config, B))
        await wait_all_tasks_blocked()

        assert 3.0 == now()
        assert [] == held(service, A_HOST)
        begun = len(syns(service, A_HOST))
        await trio.sleep_until(60.0)
        assert begun == len(syns(service, A_HOST))


async def test_a_node_that_moves_to_a_pool_without_listeners_is_probed_no_more(autojump_clock: MockClock) -> None:
    """It still exists, but nobody reads its verdict."""
    config = config_for(A, B)
    async with open_gateway(config) as service:
        await trio.sleep_until(3.5)
        begun = len(syns(service, A_HOST))
        await service.apply(with_nodes(config, attrs.evolve(A, pool="other"), B))
        await trio.sleep_until(60.0)

        assert begun == len(syns(service, A_HOST))


async def test_a_node_removed_and_added_again_is_probed_again(autojump_clock: MockClock) -> None:
    """Even in two reloads at one moment."""
    config = config_for(A, B)
    async with open_gateway(config) as service:
        await trio.sleep_until(3.5)
        await service.apply(with_nodes(config, B))
        await service.apply(with_nodes(config, A, B))
        assert Verdict.UNKNOWN is service.health("node-a").verdict

        assert 3.55 == await when(service, has("node-a", Verdict.HEALTHY))


async def test_hanging_probes_leak_nothing_over_two_hundred_reloads(autojump_clock: MockClock) -> None:
    """At each reload the probes under way, and their descriptors, are ended."""
    config = config_for(A, B, probe_interval=0.2, probe_timeout=5.0)
    async with open_gateway(config) as service:
        service.nodes["node-a"].black_hole()
        most = 0
        for round_ in range(200):
            await trio.sleep(0.1)
            most = max(most, len(held(service, A_HOST)))
            changed = attrs.evolve(A, probe_payload=b"%d" % round_)
            await service.apply(with_nodes(config, changed, B))
        await service.apply(with_nodes(config, B))
        await trio.sleep(0.1)

        assert most <= config.globals.failure_threshold
        assert [] == held(service, A_HOST)


async def test_a_shortage_of_our_own_is_no_evidence_and_one_line(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """No port was left on this machine: the node may be in best health."""
    caplog.set_level(logging.INFO)
    network = VirtualNetwork(ports=range(40000, 40002))
    async with open_gateway(config_for(A, probe_interval=1.0), network=network) as service:
        await trio.sleep_until(0.5)
        machine = network.host(GATEWAY)
        with await machine.connect_tcp(Address(A_HOST, 7000)), await machine.connect_tcp(Address(A_HOST, 7000)):
            await trio.sleep_until(60.0)
        await trio.sleep_until(65.0)

        found = service.health("node-a")
        assert (Verdict.HEALTHY, 0, 0.05) == (found.verdict, found.probe_fail, exact(found.since))
        assert 59 == service.gateway.ledger.shortages["probe"]
        assert 1 == sum("cannot probe node-a/tcp" in each for each in caplog.messages)
        assert now() - 1.0 <= (found.last_probe_at or 0.0)


class CrashingDice(NoJitter):
    """Dice that fall off the table once."""

    falls_at = 5

    def uniform(self, a: float, b: float) -> float:
        """The middle, but once."""
        self.falls_at -= 1
        if not self.falls_at:
            raise ValueError("the dice fell off the table")
        return super().uniform(a, b)


async def test_a_crashed_prober_starts_again_alone(autojump_clock: MockClock) -> None:
    """A bug in one prober costs a tenth of a second of that prober, and no client anything."""
    async with open_gateway(config_for(A, listeners=(TCP_DOOR,)), dice=CrashingDice()) as service:
        with await service.connect() as conn:
            await conn.send_all(b"1")
            assert b"node-a:1" == await conn.receive_some(100)
            await trio.sleep_until(5.5)
            await conn.send_all(b"2")
            assert b"node-a:2" == await conn.receive_some(100)

        assert [0.0, 0.05, 1.05, 2.15, 3.15, 4.15, 5.15] == sorted(syns(service, A_HOST))[1:]
        service.expected_crashes = 1
