"""Nodes that are reached by a name, and what happens when the name's answer changes."""

import contextlib

import attrs
import pytest
import trio
from trio.testing import MockClock

from sniffgate.address import Address
from sniffgate.config.schema import NodeConfig, Transport
from sniffgate.errors import PeerReset
from sniffgate.net.ports import Conn
from sniffgate.net.relay import EndReason
from sniffgate.state.model import Verdict
from sniffgate.testing.backends import Node
from sniffgate.testing.virtual import VirtualNetwork
from tests.tasks.looking import TCP, TCP_DOOR, UDP, UDP_DOOR, at, has, health, now, when
from tests.tasks.world import B, World, config_for, node_at, running

OLD, NEW = "10.0.0.1", "10.0.0.11"
NAMED = NodeConfig(name="app", priority=20, tcp=Address("app.test", 7000), udp=Address("app.test", 7000))


async def serve_at(world: World, *hosts: str) -> None:
    """A backend at each address, which answers with it."""
    for host in hosts:
        await world.nursery.start(Node(world.network, host, host).serve)


def answering(*hosts: str) -> VirtualNetwork:
    """A network in which the node's name has these addresses."""
    network = VirtualNetwork()
    network.names["app.test"] = hosts
    return network


async def talk(conn: Conn, text: bytes = b"hi") -> bytes:
    """Sends `text` and returns the next answer."""
    await conn.send_all(text)
    return await conn.receive_some(1000)


async def moment_of_end(conn: Conn) -> float:
    """When the other side ends a quiet connection, in whatever way."""
    with contextlib.suppress(PeerReset):
        assert b"" == await conn.receive_some(1000)
    return now()


async def test_new_flows_and_probes_go_to_the_new_address_within_a_second(autojump_clock: MockClock) -> None:
    """A container that came back elsewhere is found without a reload, while the old address still answers."""
    async with running(config_for(NAMED), network=answering(OLD)) as world:
        await serve_at(world, OLD, NEW)
        await at(5.5)
        assert b"10.0.0.1:hi" == await world.ask()
        world.network.names["app.test"] = (NEW,)
        await at(6.55)

        assert b"10.0.0.11:hi" == await world.ask()
        await at(8.0)
        sent = world.network.trace
        assert [] == [record for record in sent if record.time > 6.6 and record.destination.host == OLD]
        assert Verdict.HEALTHY is health(world, "app").verdict


async def test_flows_to_an_address_that_left_drain_and_are_cut(autojump_clock: MockClock) -> None:
    """Two seconds after it was seen to be gone the drain begins; the reason says why."""
    async with running(config_for(NAMED, drain_timeout=5.0), network=answering(OLD)) as world:
        await serve_at(world, OLD, NEW)
        await at(5.2)
        with await world.connect() as conn:
            await talk(conn)
            await at(10.0)
            world.network.names["app.test"] = (NEW,)
            await at(16.9)
            assert b"10.0.0.1:on" == await talk(conn, b"on")
            ended = await moment_of_end(conn)

        # seen within the second that an answer is used, at one of two looks a second
        assert 10.0 + 2.0 + 5.0 <= ended <= 10.0 + 1.0 + 0.5 + 2.0 + 5.0
        assert 1 == world.gateway.ledger.endings[EndReason.DNS_GONE]
        assert 1 == world.gateway.ledger.traffic[next(iter(world.gateway.ledger.traffic))].drain_kills


async def test_a_udp_session_at_an_address_that_left_goes_on_at_the_new_one(autojump_clock: MockClock) -> None:
    """It moves as at any drain, to the node's new address."""
    async with running(config_for(NAMED), network=answering(OLD)) as world:
        await serve_at(world, OLD, NEW)
        await at(5.0)
        with world.datagrams() as client:
            client.send_nowait(b"1")
            assert b"10.0.0.1:1" == await client.receive()
            world.network.names["app.test"] = (NEW,)
            await at(9.0)
            client.send_nowait(b"2")
            assert b"10.0.0.11:2" == await client.receive()


async def test_an_address_that_is_missing_for_a_second_retires_nothing(autojump_clock: MockClock) -> None:
    """Round-robin DNS leaves addresses out for a moment."""
    async with running(config_for(NAMED, drain_timeout=0.0), network=answering(OLD)) as world:
        await serve_at(world, OLD, NEW)
        await at(5.0)
        with await world.connect() as conn:
            await talk(conn)
            for _ in range(20):
                world.network.names["app.test"] = (NEW,)
                await trio.sleep(1.0)
                world.network.names["app.test"] = (NEW, OLD)
                await trio.sleep(2.0)

            assert b"10.0.0.1:on" == await talk(conn, b"on")


async def test_an_address_that_returns_during_the_drain_keeps_its_flows(autojump_clock: MockClock) -> None:
    """A deadline is lifted when its reason is gone."""
    async with running(config_for(NAMED, drain_timeout=10.0), network=answering(OLD)) as world:
        await serve_at(world, OLD, NEW)
        await at(5.0)
        with await world.connect() as conn:
            await talk(conn)
            world.network.names["app.test"] = (NEW,)
            await at(12.0)
            world.network.names["app.test"] = (NEW, OLD)
            await at(60.0)

            assert b"10.0.0.1:on" == await talk(conn, b"on")


async def test_while_dns_fails_the_last_good_answer_serves(autojump_clock: MockClock) -> None:
    """An outage of the resolver takes no node out and cuts no flow."""
    async with running(config_for(NAMED, B), network=answering(OLD)) as world:
        await serve_at(world, OLD)
        await at(5.0)
        with await world.connect() as conn:
            await talk(conn)
            world.network.names.failing = True
            for _ in range(60):
                await trio.sleep(1.0)
                assert b"10.0.0.1:hi" == await world.ask()

            assert b"10.0.0.1:on" == await talk(conn, b"on")
        assert (Verdict.HEALTHY, 0) == (health(world, "app").verdict, health(world, "app").probe_fail)


async def test_a_name_that_never_resolved_is_down_with_that_reason(autojump_clock: MockClock) -> None:
    """It is a failed probe with a word about DNS; clients are served by the next node meanwhile."""
    async with running(config_for(NAMED, B)) as world:
        assert b"node-b:hi" == await world.ask()
        assert 2.0 >= await when(world, has("app", Verdict.UNHEALTHY))
        assert health(world, "app").last_error.startswith("dns: ")
        assert () == health(world, "app").window
        assert b"node-b:hi" == await world.ask()
        world.network.names["app.test"] = (OLD,)
        await serve_at(world, OLD)
        await when(world, has("app", Verdict.HEALTHY))
        assert b"10.0.0.1:hi" == await world.ask()


STATES = ("serves", "refuses", "silent")


def inflict(network: VirtualNetwork, host: str, state: str) -> None:
    """Brings a machine into a state."""
    if state == "refuses":
        network.refuse(host)
    elif state == "silent":
        network.black_hole(host)


@pytest.mark.parametrize("second", STATES)
@pytest.mark.parametrize("first", STATES)
async def test_probe_and_tcp_traffic_agree_about_a_name_with_two_addresses(
    first: str, second: str, autojump_clock: MockClock
) -> None:
    """A working node must not stay out, nor a broken one stay in."""
    config = config_for(NAMED, listeners=(TCP_DOOR,), fail_open=True)
    async with running(config, network=answering(OLD, NEW)) as world:
        await serve_at(world, OLD, NEW)
        inflict(world.network, OLD, first)
        inflict(world.network, NEW, second)
        await at(30.0)
        answer = b""
        with trio.move_on_after(10.0), await world.connect() as conn:
            try:
                answer = await talk(conn)
            except PeerReset:
                answer = b""

        works = "serves" in (first, second)
        assert works == (health(world, "app").verdict is not Verdict.UNHEALTHY)
        assert works == (answer != b"")


@pytest.mark.parametrize("second", ["serves", "refuses"])
@pytest.mark.parametrize("first", ["serves", "refuses"])
async def test_probe_and_udp_traffic_agree_about_a_name_with_two_addresses(
    first: str, second: str, autojump_clock: MockClock
) -> None:
    """Over UDP too, where a refusal comes late."""
    node = attrs.evolve(NAMED, tcp=None)
    async with running(config_for(node, listeners=(UDP_DOOR,)), network=answering(OLD, NEW)) as world:
        await serve_at(world, OLD, NEW)
        inflict(world.network, OLD, first)
        inflict(world.network, NEW, second)
        await at(30.0)
        answer = b""
        with world.datagrams() as client, trio.move_on_after(5.0):
            client.send_nowait(b"hi")
            answer = await client.receive()

        works = "serves" in (first, second)
        assert works == (health(world, "app", UDP).verdict is not Verdict.UNHEALTHY)
        assert works == (answer != b"")


async def test_slow_names_do_not_disturb_nodes_with_addresses(autojump_clock: MockClock) -> None:
    """Sixty-four look-ups that hang for half a minute are nobody else's trouble, reloads included."""
    slow = [
        attrs.evolve(NAMED, name=f"slow-{each}", priority=-each, tcp=Address(f"slow-{each}.test", 7000), udp=None)
        for each in range(64)
    ]
    numeric = node_at("node-n", "10.0.0.5", 50)
    network = VirtualNetwork()
    network.names.delay = 30.0
    config = config_for(numeric, *slow[:32])
    async with running(config, network=network) as world:
        await world.gateway.apply(attrs.evolve(config, nodes=(numeric, *slow)))
        for _ in range(40):
            began = trio.current_time()
            assert b"node-n:hi" == await world.ask()
            assert began == trio.current_time()
            await trio.sleep(0.5)

        assert Verdict.HEALTHY is health(world, "node-n").verdict
        assert Verdict.UNHEALTHY is health(world, "slow-0").verdict
        assert "dns: no answer in 800 ms" == health(world, "slow-0").last_error


@pytest.mark.parametrize("transport", [TCP, UDP])
async def test_a_slow_resolver_costs_new_flows_half_a_second_at_most(
    transport: Transport, autojump_clock: MockClock
) -> None:
    """The last good answer serves while the next look-up takes its time."""
    async with running(config_for(NAMED), network=answering(OLD)) as world:
        await serve_at(world, OLD)
        await at(5.2)
        world.network.names.delay = 30.0
        for _ in range(20):
            await trio.sleep(0.7)
            began = trio.current_time()
            if transport is TCP:
                assert b"10.0.0.1:hi" == await world.ask()
            else:
                with world.datagrams() as client:
                    client.send_nowait(b"hi")
                    assert b"10.0.0.1:hi" == await client.receive()
            assert 0.5 >= trio.current_time() - began
