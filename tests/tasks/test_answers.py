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
from sniffgate.testing import Node, VirtualGateway, VirtualNetwork, has, now, open_gateway, when
from tests.tasks.configs import TCP, TCP_DOOR, UDP, UDP_DOOR, B, config_for, node_at

OLD, NEW = "10.0.0.1", "10.0.0.11"
NAMED = NodeConfig(name="app", priority=20, tcp=Address("app.test", 7000), udp=Address("app.test", 7000))


async def serve_at(service: VirtualGateway, *hosts: str) -> None:
    """A backend at each address, which answers with it."""
    for host in hosts:
        await service.nursery.start(Node(service.network, host, host).serve)


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
    async with open_gateway(config_for(NAMED), network=answering(OLD)) as service:
        await serve_at(service, OLD, NEW)
        await trio.sleep_until(5.5)
        assert b"10.0.0.1:hi" == await service.ask()
        service.network.names["app.test"] = (NEW,)
        await trio.sleep_until(6.55)

        assert b"10.0.0.11:hi" == await service.ask()
        await trio.sleep_until(8.0)
        sent = service.network.trace
        assert [] == [record for record in sent if record.time > 6.6 and record.destination.host == OLD]
        assert Verdict.HEALTHY is service.health("app").verdict


async def test_flows_to_an_address_that_left_drain_and_are_cut(autojump_clock: MockClock) -> None:
    """Two seconds after it was seen to be gone the drain begins; the reason says why."""
    async with open_gateway(config_for(NAMED, drain_timeout=5.0), network=answering(OLD)) as service:
        await serve_at(service, OLD, NEW)
        await trio.sleep_until(5.2)
        with await service.connect() as conn:
            await talk(conn)
            await trio.sleep_until(10.0)
            service.network.names["app.test"] = (NEW,)
            await trio.sleep_until(16.9)
            assert b"10.0.0.1:on" == await talk(conn, b"on")
            ended = await moment_of_end(conn)

        # seen within the second that an answer is used, at one of two looks a second
        assert 10.0 + 2.0 + 5.0 <= ended <= 10.0 + 1.0 + 0.5 + 2.0 + 5.0
        assert 1 == service.gateway.ledger.endings[EndReason.DNS_GONE]
        assert 1 == service.gateway.ledger.traffic[next(iter(service.gateway.ledger.traffic))].drain_kills


async def test_a_udp_session_at_an_address_that_left_goes_on_at_the_new_one(autojump_clock: MockClock) -> None:
    """It moves as at any drain, to the node's new address."""
    async with open_gateway(config_for(NAMED), network=answering(OLD)) as service:
        await serve_at(service, OLD, NEW)
        await trio.sleep_until(5.0)
        with service.datagrams() as client:
            client.send_nowait(b"1")
            assert b"10.0.0.1:1" == await client.receive()
            service.network.names["app.test"] = (NEW,)
            await trio.sleep_until(9.0)
            client.send_nowait(b"2")
            assert b"10.0.0.11:2" == await client.receive()


async def test_an_address_that_is_missing_for_a_second_retires_nothing(autojump_clock: MockClock) -> None:
    """Round-robin DNS leaves addresses out for a moment."""
    async with open_gateway(config_for(NAMED, drain_timeout=0.0), network=answering(OLD)) as service:
        await serve_at(service, OLD, NEW)
        await trio.sleep_until(5.0)
        with await service.connect() as conn:
            await talk(conn)
            for _ in range(20):
                service.network.names["app.test"] = (NEW,)
                await trio.sleep(1.0)
                service.network.names["app.test"] = (NEW, OLD)
                await trio.sleep(2.0)

            assert b"10.0.0.1:on" == await talk(conn, b"on")


async def test_an_address_that_returns_during_the_drain_keeps_its_flows(autojump_clock: MockClock) -> None:
    """A deadline is lifted when its reason is gone."""
    async with open_gateway(config_for(NAMED, drain_timeout=10.0), network=answering(OLD)) as service:
        await serve_at(service, OLD, NEW)
        await trio.sleep_until(5.0)
        with await service.connect() as conn:
            await talk(conn)
            service.network.names["app.test"] = (NEW,)
            await trio.sleep_until(12.0)
            service.network.names["app.test"] = (NEW, OLD)
            await trio.sleep_until(60.0)

            assert b"10.0.0.1:on" == await talk(conn, b"on")


async def test_while_dns_fails_the_last_good_answer_serves(autojump_clock: MockClock) -> None:
    """An outage of the resolver takes no node out and cuts no flow."""
    async with open_gateway(config_for(NAMED, B), network=answering(OLD)) as service:
        await serve_at(service, OLD)
        await trio.sleep_until(5.0)
        with await service.connect() as conn:
            await talk(conn)
            service.network.names.failing = True
            for _ in range(60):
                await trio.sleep(1.0)
                assert b"10.0.0.1:hi" == await service.ask()

            assert b"10.0.0.1:on" == await talk(conn, b"on")
        assert (Verdict.HEALTHY, 0) == (service.health("app").verdict, service.health("app").probe_fail)


async def test_a_name_that_never_resolved_is_down_with_that_reason(autojump_clock: MockClock) -> None:
    """It is a failed probe with a word about DNS; clients are served by the next node meanwhile."""
    async with open_gateway(config_for(NAMED, B)) as service:
        assert b"node-b:hi" == await service.ask()
        assert 2.0 >= await when(service, has("app", Verdict.UNHEALTHY))
        assert service.health("app").last_error.startswith("dns: ")
        assert () == service.health("app").window
        assert b"node-b:hi" == await service.ask()
        service.network.names["app.test"] = (OLD,)
        await serve_at(service, OLD)
        await when(service, has("app", Verdict.HEALTHY))
        assert b"10.0.0.1:hi" == await service.ask()


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
    async with open_gateway(config, network=answering(OLD, NEW)) as service:
        await serve_at(service, OLD, NEW)
        inflict(service.network, OLD, first)
        inflict(service.network, NEW, second)
        await trio.sleep_until(30.0)
        answer = b""
        with trio.move_on_after(10.0), await service.connect() as conn:
            try:
                answer = await talk(conn)
            except PeerReset:
                answer = b""

        works = "serves" in (first, second)
        assert works == (service.health("app").verdict is not Verdict.UNHEALTHY)
        assert works == (answer != b"")


@pytest.mark.parametrize("second", ["serves", "refuses"])
@pytest.mark.parametrize("first", ["serves", "refuses"])
async def test_probe_and_udp_traffic_agree_about_a_name_with_two_addresses(
    first: str, second: str, autojump_clock: MockClock
) -> None:
    """Over UDP too, where a refusal comes late."""
    node = attrs.evolve(NAMED, tcp=None)
    async with open_gateway(config_for(node, listeners=(UDP_DOOR,)), network=answering(OLD, NEW)) as service:
        await serve_at(service, OLD, NEW)
        inflict(service.network, OLD, first)
        inflict(service.network, NEW, second)
        await trio.sleep_until(30.0)
        answer = b""
        with service.datagrams() as client, trio.move_on_after(5.0):
            client.send_nowait(b"hi")
            answer = await client.receive()

        works = "serves" in (first, second)
        assert works == (service.health("app", UDP).verdict is not Verdict.UNHEALTHY)
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
    async with open_gateway(config, network=network) as service:
        await service.apply(attrs.evolve(config, nodes=(numeric, *slow)))
        for _ in range(12):
            began = trio.current_time()
            assert b"node-n:hi" == await service.ask()
            assert began == trio.current_time()
            await trio.sleep(0.5)

        assert Verdict.HEALTHY is service.health("node-n").verdict
        assert Verdict.UNHEALTHY is service.health("slow-0").verdict
        assert "dns: no answer in 800 ms" == service.health("slow-0").last_error


@pytest.mark.parametrize("transport", [TCP, UDP])
async def test_a_slow_resolver_costs_new_flows_half_a_second_at_most(
    transport: Transport, autojump_clock: MockClock
) -> None:
    """The last good answer serves while the next look-up takes its time."""
    async with open_gateway(config_for(NAMED), network=answering(OLD)) as service:
        await serve_at(service, OLD)
        await trio.sleep_until(5.2)
        service.network.names.delay = 30.0
        for _ in range(20):
            await trio.sleep(0.7)
            began = trio.current_time()
            if transport is TCP:
                assert b"10.0.0.1:hi" == await service.ask()
            else:
                with service.datagrams() as client:
                    client.send_nowait(b"hi")
                    assert b"10.0.0.1:hi" == await client.receive()
            assert 0.5 >= trio.current_time() - began
