"""Draining: what is under way may finish until a deadline, to the exact second, and what is new goes elsewhere."""

import math

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from sniffgate.address import Address
from sniffgate.config.schema import ListenerConfig, Strategy, Transport
from sniffgate.errors import ConnectRefused
from sniffgate.net.relay import EndReason
from sniffgate.state.model import Endpoint, Mark
from sniffgate.testing import VirtualGateway, VirtualNetwork, ending, exchange, open_gateway
from sniffgate.testing.fabric import Buffers
from sniffgate.testing.trace import Fate, Kind
from tests.tasks.configs import QA, QB, TCP, TCP_DOOR, A, B, config_for, quiet, tcp_config
from tests.tasks.looking import Endings, endings, opened

# --- the deadline ---------------------------------------------------------------------------------


@pytest.mark.parametrize("timeout", [0.0, 1.0, 10.0])
async def test_a_drained_flow_is_cut_exactly_at_its_deadline(timeout: float, autojump_clock: MockClock) -> None:
    """Zero means at once; no flow lives a moment longer, and none is cut early."""
    async with open_gateway(tcp_config(QA, QB, drain_timeout=timeout)) as service:
        (conn,) = await opened(service)
        assert b"node-a:hi" == await exchange(conn)
        await trio.sleep(3.0)
        await service.mark("node-a", Mark.DOWN)

        assert ("end of stream", 3.0 + timeout) == await ending(conn)


async def test_an_infinite_drain_never_cuts(autojump_clock: MockClock) -> None:
    """Some sessions are worth more than a tidy failover."""
    async with open_gateway(tcp_config(QA, QB, drain_timeout=math.inf)) as service:
        (conn,) = await opened(service)
        await service.mark("node-a", Mark.DOWN)
        await trio.sleep(50_000.0)

        assert b"node-a:hi" == await exchange(conn)
        assert b"node-b:hi" == await service.ask()


async def test_a_draining_flow_goes_on_as_before(autojump_clock: MockClock) -> None:
    """It may finish its work: that is what the time is for."""
    async with open_gateway(tcp_config(QA, QB, drain_timeout=5.0)) as service:
        (conn,) = await opened(service)
        await service.mark("node-a", Mark.DOWN)
        await trio.sleep(4.9)

        assert b"node-a:more" == await exchange(conn, b"more")


async def test_a_flow_that_ends_in_time_is_no_kill(autojump_clock: MockClock) -> None:
    """The counter tells operators whether their drain time is too short."""
    async with open_gateway(tcp_config(QA, QB, drain_timeout=5.0)) as service:
        conns = await opened(service, 2)
        await service.mark("node-a", Mark.DOWN)
        await conns[0].send_eof()
        assert ("end of stream", 0.0) == await ending(conns[0])
        assert ("end of stream", 5.0) == await ending(conns[1])
        await wait_all_tasks_blocked()

        assert {EndReason.COMPLETE: 1, EndReason.DRAINED: 1} == endings(service)
        traffic = service.gateway.ledger.of(Endpoint("node-a", TCP))
        assert (2, 0, 1) == (traffic.total, traffic.active, traffic.drain_kills)


async def test_promotion_before_the_deadline_lifts_it(autojump_clock: MockClock) -> None:
    """A node that is back in time keeps its flows."""
    async with open_gateway(tcp_config(QA, QB, drain_timeout=2.0)) as service:
        (conn,) = await opened(service)
        await service.mark("node-a", Mark.DOWN)
        await trio.sleep(1.999)
        await service.mark("node-a", None)
        await trio.sleep(100.0)

        assert b"node-a:hi" == await exchange(conn)


async def test_a_second_fall_has_a_deadline_of_its_own(autojump_clock: MockClock) -> None:
    """A lifted deadline leaves nothing behind."""
    async with open_gateway(tcp_config(QA, QB, drain_timeout=2.0)) as service:
        (conn,) = await opened(service)
        for mark in (Mark.DOWN, None, Mark.DOWN):
            await service.mark("node-a", mark)
            await trio.sleep(1.0)

        assert ("end of stream", 4.0) == await ending(conn)


async def test_after_a_cut_the_node_serves_anew(autojump_clock: MockClock) -> None:
    """A lease that is over is never used again: new flows have a new one, without its deadline."""
    async with open_gateway(tcp_config(QA, QB, drain_timeout=1.0)) as service:
        await opened(service)
        await service.mark("node-a", Mark.DOWN)
        await trio.sleep(1.0)
        await service.mark("node-a", None)
        (conn,) = await opened(service)
        await trio.sleep(50.0)

        assert b"node-a:hi" == await exchange(conn)


async def test_a_node_that_is_back_at_the_very_deadline_serves_anew(autojump_clock: MockClock) -> None:
    """Whether the cut or the recovery comes first at that moment, the new flow lives."""
    async with open_gateway(tcp_config(QA, QB, drain_timeout=0.0)) as service:
        (old,) = await opened(service)
        await service.mark("node-a", Mark.DOWN)
        await service.mark("node-a", None)
        new = await service.connect()
        assert b"node-a:hi" == await exchange(new)
        await trio.sleep(20.0)

        assert ("end of stream", 20.0) == await ending(old)  # cut at 0.0, looked at now
        assert b"node-a:hi" == await exchange(new)


async def test_a_new_flow_does_not_inherit_a_deadline(autojump_clock: MockClock) -> None:
    """Under fail-open the only node drains its old flows, while new ones have nowhere else to go and may stay."""
    async with open_gateway(tcp_config(QA, drain_timeout=3.0)) as service:
        (old,) = await opened(service)
        await service.mark("node-a", Mark.DOWN)
        await trio.sleep(1.0)
        (new,) = await opened(service)

        assert ("end of stream", 3.0) == await ending(old)
        await trio.sleep(50.0)
        assert b"node-a:hi" == await exchange(new)


async def test_a_retry_to_a_draining_standby_has_its_own_time(autojump_clock: MockClock) -> None:
    """It came after the failback: the deadline was for those from before."""
    async with open_gateway(tcp_config(QA, QB, drain_timeout=3.0)) as service:
        await service.mark("node-a", Mark.DOWN)
        (old,) = await opened(service)
        await service.mark("node-a", None)
        await trio.sleep(1.0)
        service.nodes["node-a"].refuse()
        (new,) = await opened(service)

        assert ("end of stream", 3.0) == await ending(old)
        await trio.sleep(50.0)
        assert b"node-b:hi" == await exchange(new)


# --- whose flows ----------------------------------------------------------------------------------


async def test_a_tcp_switch_drains_tcp_and_leaves_udp_alone(autojump_clock: MockClock) -> None:
    """Draining belongs to an endpoint, not to its node."""
    async with open_gateway(config_for(A, B, drain_timeout=2.0)) as service:
        (conn,) = await opened(service)
        with service.datagrams() as session, trio.fail_after(60.0):
            session.send_nowait(b"one")
            assert b"node-a:one" == await session.receive()
            await service.switch("node-b", Transport.TCP)

            assert ("end of stream", 2.0) == await ending(conn)
            await trio.sleep(20.0)
            session.send_nowait(b"two")
            assert b"node-a:two" == await session.receive()
            assert 1 == service.gateway.ledger.of(Endpoint("node-a", Transport.UDP)).total


async def test_an_unhealthy_member_drains_alone(autojump_clock: MockClock) -> None:
    """The rest of a round-robin set has nothing to do with it."""
    nodes = (quiet("a"), quiet("b"), quiet("c"))
    async with (
        open_gateway(tcp_config(*nodes, drain_timeout=2.0, strategy=Strategy.ROUND_ROBIN)) as service,
        trio.open_nursery() as nursery,
    ):
        seen = Endings()
        conns = await opened(service, 6)
        for number, conn in enumerate(conns):
            nursery.start_soon(seen.watch, f"{'abc'[number % 3]}{number}", conn)
        await trio.sleep(1.0)
        await service.mark("node-b", Mark.DOWN)
        await trio.sleep(60.0)

        assert {"b1": ("end of stream", 3.0), "b4": ("end of stream", 3.0)} == seen.seen
        nursery.cancel_scope.cancel()


async def test_flows_of_a_healthy_standby_have_the_failback_time(autojump_clock: MockClock) -> None:
    """They are not in danger: how long they may stay is a matter of taste."""
    async with open_gateway(tcp_config(QA, QB, drain_timeout=1.0, failback_drain_timeout=7.0)) as service:
        await service.mark("node-a", Mark.DOWN)
        (conn,) = await opened(service)
        await trio.sleep(1.0)
        await service.mark("node-a", None)

        assert ("end of stream", 8.0) == await ending(conn)


async def test_a_standby_that_falls_after_failback_has_the_ordinary_time(autojump_clock: MockClock) -> None:
    """From then on, since only then it is in danger."""
    async with open_gateway(tcp_config(QA, QB, drain_timeout=1.5, failback_drain_timeout=math.inf)) as service:
        await service.mark("node-a", Mark.DOWN)
        (conn,) = await opened(service)
        await service.mark("node-a", None)
        await trio.sleep(40.0)
        await service.mark("node-b", Mark.DOWN)

        assert ("end of stream", 41.5) == await ending(conn)


async def test_a_standbys_flow_from_a_retry_stays_after_the_better_node_is_back(autojump_clock: MockClock) -> None:
    """It was never part of a switch, so no switch ends it."""
    async with open_gateway(tcp_config(QA, QB, drain_timeout=1.0)) as service:
        service.nodes["node-a"].refuse()
        (conn,) = await opened(service)
        service.nodes["node-a"].recover()
        await service.switch("node-a")
        await trio.sleep(30.0)

        assert b"node-b:hi" == await exchange(conn)


# --- the operator ---------------------------------------------------------------------------------


async def test_a_disabled_node_drains_as_configured(autojump_clock: MockClock) -> None:
    """And the standby takes what is new at once."""
    async with open_gateway(tcp_config(QA, QB, drain_timeout=2.0)) as service:
        (conn,) = await opened(service)
        await service.disable("node-a")

        assert b"node-b:hi" == await service.ask()
        assert ("end of stream", 2.0) == await ending(conn)


async def test_drain_has_a_deadline_of_its_own_and_a_later_order_wins(autojump_clock: MockClock) -> None:
    """Three seconds, then for ever, then enabled again: the flow lives on."""
    async with open_gateway(tcp_config(QA, QB, drain_timeout=1.0)) as service:
        (conn,) = await opened(service)
        await service.drain("node-a", 3.0)
        await trio.sleep(2.0)
        assert b"node-a:hi" == await exchange(conn)
        await service.drain("node-a", math.inf)
        await trio.sleep(1000.0)
        assert b"node-a:hi" == await exchange(conn)
        assert b"node-b:hi" == await service.ask()
        await service.enable("node-a")
        await trio.sleep(1000.0)

        assert b"node-a:hi" == await exchange(conn)
        assert b"node-a:hi" == await service.ask()


async def test_drain_for_three_seconds_cuts_after_three_seconds(autojump_clock: MockClock) -> None:
    """Whatever is configured."""
    async with open_gateway(tcp_config(QA, QB, drain_timeout=100.0)) as service:
        (conn,) = await opened(service)
        await trio.sleep(1.0)
        await service.drain("node-a", 3.0)

        assert ("end of stream", 4.0) == await ending(conn)


async def test_a_removed_node_drains(autojump_clock: MockClock) -> None:
    """A reload is no reason to cut what runs."""
    config = tcp_config(QA, QB, drain_timeout=2.0)
    async with open_gateway(config) as service:
        (conn,) = await opened(service)
        await service.apply(attrs.evolve(config, nodes=(QB,)))
        assert b"node-a:hi" == await exchange(conn)
        assert b"node-b:hi" == await service.ask()

        assert ("end of stream", 2.0) == await ending(conn)


async def test_a_listener_that_serves_another_pool_drains_its_flows(autojump_clock: MockClock) -> None:
    """Clients of the pool it serves now must not meet those of the old one for ever, but nobody is cut short."""
    other = quiet("b", pool="other")
    config = tcp_config(QA, other, drain_timeout=2.0)
    listener = ListenerConfig(name="tcp", protocol=TCP, listen=config.listeners[0].listen, pool="other")
    async with open_gateway(config) as service:
        (conn,) = await opened(service)
        await service.apply(attrs.evolve(config, listeners=(listener,)))
        await wait_all_tasks_blocked()

        assert b"node-b:hi" == await service.ask()
        assert ("end of stream", 2.0) == await ending(conn)


async def test_a_client_that_waits_while_its_listener_changes_pools_goes_to_the_new_one(
    autojump_clock: MockClock,
) -> None:
    """It is a new flow, so it goes where new flows go."""
    other = quiet("b", pool="other")
    config = tcp_config(QA, other, connect_timeout=60.0)
    listener = ListenerConfig(name="tcp", protocol=TCP, listen=config.listeners[0].listen, pool="other")
    async with open_gateway(config) as service, trio.open_nursery() as nursery:
        service.nodes["node-a"].black_hole()

        async def move() -> None:
            await trio.sleep(1.0)
            await service.apply(attrs.evolve(config, listeners=(listener,)))

        nursery.start_soon(move)
        assert b"node-b:hi" == await service.ask()
        assert 1.0 == trio.current_time()


# --- the cut itself -------------------------------------------------------------------------------


async def stalled(service: VirtualGateway) -> None:
    """A node that sends far more than its client, which does not read, and the buffers take."""
    service.nodes["node-a"].reply = lambda _: b"x" * 1_000_000


async def test_an_idle_flow_is_cut_with_an_end_of_stream(autojump_clock: MockClock) -> None:
    """Both sides: nothing was lost, so nothing is called lost."""
    async with open_gateway(tcp_config(QA, QB, drain_timeout=1.0)) as service:
        (conn,) = await opened(service)
        await exchange(conn)
        await service.mark("node-a", Mark.DOWN)

        assert ("end of stream", 1.0) == await ending(conn)
        await wait_all_tasks_blocked()
        assert [] == service.nodes["node-a"].conns
        assert [] == service.network.trace.select(Kind.RST, Fate.SENT)


async def test_a_flow_in_mid_transfer_is_cut_with_a_reset(autojump_clock: MockClock) -> None:
    """An end of stream would make half a file look whole; and who does not read cannot delay the cut."""
    network = VirtualNetwork(buffers=Buffers(send=1000, receive=1000))
    async with open_gateway(tcp_config(QA, QB, drain_timeout=1.0), network=network) as service:
        await stalled(service)
        (conn,) = await opened(service)
        await conn.send_all(b"all of it, please")
        await trio.sleep(1.0)
        await service.mark("node-a", Mark.DOWN)
        await trio.sleep(1.0)
        await wait_all_tasks_blocked()

        assert [2.0] * 2 == [record.time for record in service.network.trace.select(Kind.RST, Fate.SENT)]
        assert {EndReason.DRAINED: 1} == endings(service)
        assert "reset" == (await ending(conn))[0]


async def test_a_listener_removed_by_a_reload_drains_its_flows(autojump_clock: MockClock) -> None:
    """Its port is free at once; its flows have the drain time."""
    config = tcp_config(QA, QB, drain_timeout=2.0)
    moved = attrs.evolve(config.listeners[0], listen=Address("10.0.0.254", 8080))
    async with open_gateway(config) as service:
        (conn,) = await opened(service)
        await service.apply(attrs.evolve(config, listeners=(moved,)))
        await wait_all_tasks_blocked()
        with pytest.raises(ConnectRefused):
            await service.client.connect_tcp(TCP_DOOR.listen)

        assert ("end of stream", 2.0) == await ending(conn)
        await wait_all_tasks_blocked()
        assert {EndReason.DRAINED: 1} == endings(service)
