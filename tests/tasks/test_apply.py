"""Reloads of a running gateway: what changes is changed at once, and what does not change notices nothing."""

import contextlib
from collections.abc import Callable

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from sniffgate.address import Address
from sniffgate.config.schema import ListenerConfig, NodeConfig, pool_from
from sniffgate.errors import CannotBind, CommandRefused, ConnectRefused, PeerReset
from sniffgate.net.ports import Conn
from sniffgate.state.model import Endpoint, Mark, RouteKey, SwitchReason, Verdict
from sniffgate.testing import VirtualGateway, VirtualNetwork, has, now, open_gateway, when
from tests.tasks.configs import (
    GATEWAY,
    TCP,
    TCP_DOOR,
    UDP,
    UDP_DOOR,
    A,
    B,
    C,
    config_for,
    node_at,
    with_globals,
    with_listeners,
    with_nodes,
)
from tests.tasks.looking import held

A_TCP = Endpoint("node-a", TCP)
OTHER_DOOR = attrs.evolve(TCP_DOOR, name="other", listen=Address(GATEWAY, 81))


def door(port: int, pool: str = "default") -> ListenerConfig:
    """A TCP listener on `port`."""
    return attrs.evolve(TCP_DOOR, name=f"tcp-{port}", listen=Address(GATEWAY, port), pool=pool)


async def talk(conn: Conn, text: bytes = b"hi") -> bytes:
    """Sends `text` and returns the next answer."""
    await conn.send_all(text)
    return await conn.receive_some(1000)


async def ask_at(service: VirtualGateway, port: int, text: bytes = b"hi") -> bytes:
    """A TCP round trip of a new client at `port` of the gateway."""
    with await service.client.connect_tcp(Address(GATEWAY, port)) as conn:
        return await talk(conn, text)


async def ask_udp(service: VirtualGateway, port: int = UDP_DOOR.listen.port, text: bytes = b"hi") -> bytes:
    """A UDP round trip of a new client; b"" without an answer within a second."""
    with service.client.connect_udp(Address(GATEWAY, port)) as conn:
        conn.send_nowait(text)
        with trio.move_on_after(1.0):
            return await conn.receive()
        return b""


async def moment_of_end(conn: Conn) -> float:
    """When the other side ends a quiet connection, in whatever way."""
    with contextlib.suppress(PeerReset):
        assert b"" == await conn.receive_some(1000)
    return now()


def open_doors(service: VirtualGateway) -> set[tuple[str, Address]]:
    """The listening sockets of the gateway's machine."""
    return {(transport.value, place) for transport, place in service.network.host(GATEWAY).listening()}


# --- listeners come and go ------------------------------------------------------------------------


async def test_a_listener_that_cannot_be_bound_leaves_everything_as_it_was(autojump_clock: MockClock) -> None:
    """Half a reload is worse than none."""
    config = config_for(A, B)
    async with open_gateway(config) as service:
        await trio.sleep_until(0.5)
        with await service.network.host(GATEWAY).listen_tcp(Address(GATEWAY, 83)), await service.connect() as conn:
            await talk(conn)
            before, doors = service.state, open_doors(service)
            with pytest.raises(CannotBind, match=r"listener tcp-83: .*in use"):
                await service.apply(attrs.evolve(config, listeners=(door(82), door(83)), nodes=(B,)))

            assert before is service.state
            assert doors == open_doors(service)
            assert {"tcp", "udp"} == set(service.addresses)
            assert b"node-a:on" == await talk(conn, b"on")
            assert (b"node-a:hi", b"node-a:hi") == (await service.ask(), await ask_udp(service))


async def test_a_removed_listener_takes_nobody_and_its_flows_drain(autojump_clock: MockClock) -> None:
    """Its port refuses from now on; its flows have the drain timeout, then are cut."""
    config = config_for(A, listeners=(TCP_DOOR, OTHER_DOOR), drain_timeout=10.0)
    async with open_gateway(config) as service:
        await trio.sleep_until(3.0)
        with await service.connect() as conn:
            await talk(conn)
            await service.apply(with_listeners(config, OTHER_DOOR))
            await wait_all_tasks_blocked()
            with pytest.raises(ConnectRefused):
                await service.client.connect_tcp(TCP_DOOR.listen)
            await trio.sleep_until(12.9)
            assert b"node-a:still" == await talk(conn, b"still")

            assert 13.0 == await moment_of_end(conn)
        assert b"node-a:hi" == await ask_at(service, 81)
        assert 1 == service.gateway.ledger.traffic[A_TCP].drain_kills


async def test_a_drain_of_a_removed_listener_outlives_its_pool(autojump_clock: MockClock) -> None:
    """The pool's own timeout serves when the pool itself went with the listener, as it was last."""
    pools = (pool_from(config_for().globals, "default"), pool_from(config_for().globals, "p", drain_timeout=4.0))
    there = attrs.evolve(A, pool="p")
    config = config_for(there, B, pools=pools, listeners=(door(82, pool="p"), OTHER_DOOR))
    async with open_gateway(config) as service:
        longer = attrs.evolve(config, pools=(pools[0], attrs.evolve(pools[1], drain_timeout=6.0)))
        await service.apply(longer)
        with await service.client.connect_tcp(Address(GATEWAY, 82)) as conn:
            await talk(conn)
            await trio.sleep_until(3.0)
            gone = attrs.evolve(config, pools=pools[:1], listeners=(OTHER_DOOR,), nodes=(B,))
            await service.apply(gone)

            assert 9.0 == await moment_of_end(conn)


async def test_twenty_rounds_of_removing_and_putting_back_leave_a_listener_that_works(
    autojump_clock: MockClock,
) -> None:
    """Over UDP too, where the old socket waits for replies that never come."""
    config = config_for(A)
    async with open_gateway(config) as service:
        service.nodes["node-a"].freeze(UDP)
        for _ in range(20):
            with service.datagrams() as client:
                client.send_nowait(b"?")
                await trio.sleep(0.1)
            await service.apply(with_listeners(config, OTHER_DOOR))
            assert ("tcp", OTHER_DOOR.listen) in open_doors(service)
            await trio.sleep(0.1)
            await service.apply(config)
        service.nodes["node-a"].recover(UDP)

        assert (b"node-a:hi", b"node-a:hi") == (await service.ask(), await ask_udp(service))
        assert {("tcp", TCP_DOOR.listen), ("udp", UDP_DOOR.listen)} == open_doors(service)


async def test_a_listener_removed_and_put_back_at_once_works(autojump_clock: MockClock) -> None:
    """Two reloads at one moment: the first listener may not have let go of its socket yet."""
    config = config_for(A)
    async with open_gateway(config) as service:
        for _ in range(20):
            await service.apply(with_listeners(config, OTHER_DOOR))
            await service.apply(config)

        assert (b"node-a:hi", b"node-a:hi") == (await service.ask(), await ask_udp(service))


async def test_a_port_moves_from_tcp_to_udp_and_back(autojump_clock: MockClock) -> None:
    """A socket's identity is its protocol and address."""
    config = config_for(A, listeners=(TCP_DOOR,))
    over_udp = attrs.evolve(TCP_DOOR, protocol=UDP)
    async with open_gateway(config) as service:
        for _ in range(3):
            await service.apply(with_listeners(config, over_udp))
            await trio.sleep(0.1)
            assert {("udp", TCP_DOOR.listen)} == open_doors(service)
            assert b"node-a:hi" == await ask_udp(service, TCP_DOOR.listen.port)
            await service.apply(config)
            await trio.sleep(1.0)
            assert {("tcp", TCP_DOOR.listen)} == open_doors(service)
            assert b"node-a:hi" == await service.ask()


async def test_two_listeners_swap_their_ports_and_no_socket_is_touched(autojump_clock: MockClock) -> None:
    """Each then serves its own pool, at the other's old port."""
    config = config_for(A, attrs.evolve(B, pool="p"), listeners=(TCP_DOOR, attrs.evolve(OTHER_DOOR, pool="p")))
    async with open_gateway(config) as service:
        sockets = {listener.socket for listener in service.gateway.listeners.values()}
        assert (b"node-a:hi", b"node-b:hi") == (await service.ask(), await ask_at(service, 81))
        swapped = (
            attrs.evolve(TCP_DOOR, listen=OTHER_DOOR.listen),
            attrs.evolve(OTHER_DOOR, pool="p", listen=TCP_DOOR.listen),
        )
        await service.apply(with_listeners(config, *swapped))

        assert sockets == {listener.socket for listener in service.gateway.listeners.values()}
        assert {"tcp": OTHER_DOOR.listen, "other": TCP_DOOR.listen} == service.addresses
        assert (b"node-b:hi", b"node-a:hi") == (await service.ask(), await ask_at(service, 81))


async def test_a_listener_widens_to_every_address_of_its_port(autojump_clock: MockClock) -> None:
    """Only our own leaving socket is in the way, so it makes way; flows drain, replies to come are lost and counted."""
    wide = (attrs.evolve(TCP_DOOR, listen=Address("", 80)), attrs.evolve(UDP_DOOR, listen=Address("", 53)))
    config = config_for(A)
    network = VirtualNetwork()
    network.set_latency(0.3, "10.0.0.1")
    async with open_gateway(config, network=network) as service:
        with await service.connect() as conn, service.datagrams() as client:
            await talk(conn)
            client.send_nowait(b"late")
            await trio.sleep(0.1)
            await service.apply(with_listeners(config, *wide))
            await trio.sleep(1.0)

            assert {("tcp", Address("", 80)), ("udp", Address("", 53))} == open_doors(service)
            assert b"node-a:on" == await talk(conn, b"on")
            assert (b"node-a:hi", b"node-a:hi") == (await service.ask(), await ask_udp(service))
        await service.apply(config)
        await trio.sleep(1.0)
        assert {("tcp", TCP_DOOR.listen), ("udp", UDP_DOOR.listen)} == open_doors(service)
        assert b"node-a:hi" == await service.ask()


async def test_a_listener_that_made_way_in_vain_serves_again(autojump_clock: MockClock) -> None:
    """Another program's socket is in the way as well: the old listener is restored, with its flows."""
    config = config_for(A, listeners=(TCP_DOOR,))
    async with open_gateway(config) as service:
        machine = service.network.host(GATEWAY, "10.0.0.253")
        with await machine.listen_tcp(Address("10.0.0.253", 80)), await service.connect() as conn:
            await talk(conn)
            before = service.state
            with pytest.raises(CannotBind):
                await service.apply(with_listeners(config, attrs.evolve(TCP_DOOR, listen=Address("", 80))))

            assert before is service.state
            assert (b"node-a:on", b"node-a:hi") == (await talk(conn, b"on"), await service.ask())


async def test_a_listener_at_another_address_of_the_port_is_not_disturbed_in_vain(autojump_clock: MockClock) -> None:
    """Only a socket that can be in the way is closed: clients of the other one would be refused for a moment."""
    config = config_for(A, listeners=(TCP_DOOR,))
    async with open_gateway(config) as service:
        machine = service.network.host(GATEWAY, "10.0.0.253")
        with await machine.listen_tcp(Address("10.0.0.253", 80)):
            (socket,) = [listener.socket for listener in service.gateway.listeners.values()]
            moved = attrs.evolve(TCP_DOOR, listen=Address("10.0.0.253", 80))
            with pytest.raises(CannotBind):
                await service.apply(with_listeners(config, moved))

            assert [socket] == [listener.socket for listener in service.gateway.listeners.values()]


async def test_a_listener_is_renamed_without_touching_it(autojump_clock: MockClock) -> None:
    """A name is no part of a socket."""
    config = config_for(A, listeners=(TCP_DOOR,))
    async with open_gateway(config) as service:
        with await service.connect() as conn:
            await talk(conn)
            await service.apply(with_listeners(config, attrs.evolve(TCP_DOOR, name="front")))
            await trio.sleep(60.0)

            assert b"node-a:on" == await talk(conn, b"on")
        assert {"front": TCP_DOOR.listen} == service.addresses


async def test_a_listener_on_any_port_keeps_the_one_it_has(autojump_clock: MockClock) -> None:
    """Port 0 means: choose once."""
    free = attrs.evolve(TCP_DOOR, listen=Address(GATEWAY, 0))
    config = config_for(A, listeners=(free, attrs.evolve(free, name="two")))
    async with open_gateway(config) as service:
        before = dict(service.addresses)
        for round_ in range(5):
            await service.apply(with_globals(config, drain_timeout=20.0 + round_))

        assert before == service.addresses
        assert 2 == len({address.port for address in before.values()})
        assert b"node-a:hi" == await ask_at(service, before["two"].port)


# --- what a listener does -------------------------------------------------------------------------


async def test_a_listener_with_another_pool_serves_it_and_lets_the_old_flows_drain(autojump_clock: MockClock) -> None:
    """New clients at once; old ones within the drain timeout."""
    config = config_for(A, attrs.evolve(B, pool="p"), listeners=(TCP_DOOR,), drain_timeout=5.0)
    async with open_gateway(config) as service:
        await trio.sleep_until(3.0)
        with await service.connect() as conn:
            await talk(conn)
            await service.apply(with_listeners(config, attrs.evolve(TCP_DOOR, pool="p")))
            assert b"node-b:hi" == await service.ask()
            assert b"node-a:on" == await talk(conn, b"on")

            assert 8.0 == await moment_of_end(conn)


async def test_limits_of_a_listener_hold_for_its_new_flows(autojump_clock: MockClock) -> None:
    """Flows in progress keep what they began with."""
    config = config_for(A, listeners=(TCP_DOOR,))
    async with open_gateway(config) as service:
        with await service.connect() as old:
            await talk(old)
            await service.apply(with_listeners(config, attrs.evolve(TCP_DOOR, idle_timeout=5.0, max_connections=2)))
            began = now()
            with await service.connect() as new:
                await talk(new)
                with await service.connect() as third:
                    await third.send_all(b"hi")
                    with trio.move_on_after(1.0):
                        pytest.fail(f"beyond max_connections: {await third.receive_some(100)!r}")
                    assert began + 5.0 == await moment_of_end(new)
                    assert b"node-a:hi" == await third.receive_some(100)
            await trio.sleep(100.0)
            assert b"node-a:old" == await talk(old, b"old")


async def test_two_hundred_reloads_disturb_no_flow_no_counter_and_leak_no_socket(autojump_clock: MockClock) -> None:
    """What a file does not change, a reload does not touch."""
    config = config_for(A, B)
    async with open_gateway(config) as service:
        with await service.connect() as conn, service.datagrams() as client:
            await talk(conn, b"12345")
            client.send_nowait(b"x")
            await client.receive()
            await trio.sleep_until(0.5)
            sockets = [listener.socket for listener in service.gateway.listeners.values()]
            count = len(held(service))
            for round_ in range(200):
                changed = attrs.evolve(B, priority=-round_, remark=str(round_))
                await service.apply(with_nodes(config, A, changed))
            await trio.sleep_until(0.6)

            assert sockets == [listener.socket for listener in service.gateway.listeners.values()]
            assert count == len(held(service))
            assert b"node-a:on" == await talk(conn, b"on")
            client.send_nowait(b"y")
            assert b"node-a:y" == await client.receive()
        traffic = service.gateway.ledger.traffic[A_TCP]
        assert (1, 7) == (traffic.total, traffic.bytes_tx)


async def test_flows_on_nodes_that_are_replaced_again_and_again_all_end(autojump_clock: MockClock) -> None:
    """Old generations do not pile up: each ends within its drain."""
    config = config_for(A, drain_timeout=5.0)
    async with open_gateway(config) as service:
        conns = []
        for round_ in range(100):
            conn = await service.connect()
            conns.append(conn)
            await talk(conn)
            named = attrs.evolve(A, name=f"node-{round_}")
            await service.apply(with_nodes(config, named))
            await trio.sleep(1.0)
        assert 5 <= service.gateway.ledger.flows(TCP) <= 6
        await trio.sleep(10.0)

        assert 0 == service.gateway.ledger.flows(TCP)
        assert 2 == len([each for each in held(service) if each[1].host == GATEWAY and each[1].port in (80, 53)])
        for conn in conns:
            conn.close()


async def test_a_pool_removed_while_a_client_is_connecting_resets_that_client(autojump_clock: MockClock) -> None:
    """It crashes nothing, and the client does not hang."""
    network = VirtualNetwork()
    network.set_latency(1.0, "10.0.0.1")
    config = config_for(attrs.evolve(A, pool="p"), B, listeners=(door(82, pool="p"), TCP_DOOR))
    async with open_gateway(config, network=network) as service:
        with await service.client.connect_tcp(Address(GATEWAY, 82)) as conn:
            await trio.sleep(0.5)
            await service.apply(attrs.evolve(config, listeners=(TCP_DOOR,), nodes=(B,)))

            assert now() + 10.0 >= await moment_of_end(conn)
        assert b"node-b:hi" == await service.ask()


# --- nodes ----------------------------------------------------------------------------------------


async def test_a_removed_node_drains_and_the_others_serve(autojump_clock: MockClock) -> None:
    """Its flows have the drain timeout."""
    config = config_for(A, B, drain_timeout=5.0)
    async with open_gateway(config) as service:
        await trio.sleep_until(3.0)
        with await service.connect() as conn:
            await talk(conn)
            await service.apply(with_nodes(config, B))
            assert b"node-b:hi" == await service.ask()

            assert 8.0 == await moment_of_end(conn)


async def test_a_node_that_lost_its_udp_address_is_a_removed_endpoint(autojump_clock: MockClock) -> None:
    """Its TCP side goes on as if nothing had happened."""
    config = config_for(A, B)
    async with open_gateway(config) as service:
        with await service.connect() as conn:
            await talk(conn)
            assert b"node-a:hi" == await ask_udp(service)
            await service.apply(with_nodes(config, attrs.evolve(A, udp=None), B))

            assert b"node-b:hi" == await ask_udp(service)
            await trio.sleep(60.0)
            assert b"node-a:on" == await talk(conn, b"on")
            assert b"node-a:hi" == await service.ask()


async def test_a_readdressed_node_starts_unknown_and_joins_when_healthy(autojump_clock: MockClock) -> None:
    """Old flows drain at the old address; nobody is sent to the new one before a probe has found it well."""
    config = config_for(A, B, drain_timeout=5.0, success_threshold=3)
    async with open_gateway(config) as service:
        await trio.sleep_until(3.0)
        elsewhere = node_at("node-a", "10.0.0.7", 20)
        with await service.connect() as conn:
            await talk(conn)
            await service.apply(with_nodes(config, elsewhere, B))
            assert Verdict.UNKNOWN is service.health("node-a").verdict
            assert b"node-b:hi" == await service.ask()
            served = await service.network.host("10.0.0.7").listen_tcp(Address("10.0.0.7", 7000))
            with served:
                assert 3.0 < await when(service, has("node-a", Verdict.HEALTHY))
                assert ("node-a",) == service.state.routes[RouteKey("default", TCP)].active
                assert SwitchReason.RELOAD is service.state.switches[-1].reason
            assert b"node-a:on" == await talk(conn, b"on")
            assert 8.0 == await moment_of_end(conn)


async def test_a_dead_node_added_on_top_never_sees_a_client(autojump_clock: MockClock) -> None:
    """A reload must not send live traffic to a node that no probe has found well."""
    config = config_for(B)
    top = attrs.evolve(A, priority=99)
    async with open_gateway(config) as service:
        service.network.kill("10.0.0.1")
        await trio.sleep_until(1.0)
        await service.apply(with_nodes(config, top, B))
        for _ in range(40):
            assert b"node-b:hi" == await service.ask()
            await trio.sleep(0.05)

        assert 0 == service.gateway.ledger.of(A_TCP).failed
        assert Verdict.UNHEALTHY is service.health("node-a").verdict


async def test_a_node_added_as_the_only_usable_one_serves_at_once(autojump_clock: MockClock) -> None:
    """An unknown node is better than a dead one."""
    config = config_for(A, B, probe_interval=3600.0)
    async with open_gateway(config) as service:
        service.nodes["node-a"].kill()
        await service.mark("node-a", Mark.DOWN)
        await service.apply(with_nodes(config, A))
        await service.apply(with_nodes(config, A, attrs.evolve(B, remark="back")))

        assert b"node-b:hi" == await service.ask()


# --- the operator's choice ------------------------------------------------------------------------


async def test_unrelated_reloads_leave_the_operators_wishes_alone(autojump_clock: MockClock) -> None:
    """A node drained by hand for maintenance must not be back in service by the next reload."""
    config = config_for(A, B, C)
    async with open_gateway(config) as service:
        await trio.sleep_until(0.5)
        await service.drain("node-a", 60.0)
        await service.switch("node-c")
        for round_ in range(5):
            changed = attrs.evolve(B, remark=str(round_))
            await service.apply(with_nodes(config, attrs.evolve(A, weight=2 + round_), changed, C))

        assert b"node-c:hi" == await service.ask()
        await service.release()
        assert b"node-b:hi" == await service.ask()
        service.nodes["node-a"].freeze()
        await trio.sleep(5.0)
        service.nodes["node-a"].recover()
        await trio.sleep(5.0)
        assert b"node-b:hi" == await service.ask()
        await service.enable("node-a")
        assert b"node-a:hi" == await service.ask()


async def test_a_reload_that_touches_enabled_ends_the_operators_wish(autojump_clock: MockClock) -> None:
    """The file has the last word about what it speaks of."""
    config = config_for(A, B)
    off = with_nodes(config, attrs.evolve(A, enabled=False), B)
    async with open_gateway(config) as service:
        await service.disable("node-a")
        await service.apply(off)
        assert b"node-b:hi" == await service.ask()
        await service.apply(config)

        assert b"node-a:hi" == await service.ask()
        assert {} == service.state.overrides


@pytest.mark.parametrize(
    ("change", "holds"),
    [
        (lambda node: (attrs.evolve(B, remark="x"), node), True),
        (lambda node: (B, attrs.evolve(node, remark="x")), False),
        (lambda node: (B,), False),
    ],
)
async def test_a_mark_holds_until_its_node_changes_or_goes(
    change: Callable[[NodeConfig], tuple[NodeConfig, ...]], holds: bool, autojump_clock: MockClock
) -> None:
    """It is a word about the node as it was."""
    config = config_for(A, B)
    async with open_gateway(config) as service:
        await trio.sleep_until(0.5)
        await service.mark("node-a", Mark.DOWN)
        await service.apply(with_nodes(config, *change(A)))
        await service.apply(with_nodes(config, *change(A)))

        assert holds == ("node-a" in service.state.overrides)


async def test_a_mark_stands_above_probes_until_it_is_taken_back(autojump_clock: MockClock) -> None:
    """Down though it answers; up though it does not."""
    config = config_for(A, B)
    async with open_gateway(config) as service:
        await trio.sleep_until(0.5)
        await service.mark("node-a", Mark.DOWN)
        await trio.sleep_until(10.0)
        assert b"node-b:hi" == await service.ask()
        await service.mark("node-a", None)
        assert b"node-a:hi" == await service.ask()


async def test_a_node_removed_and_added_again_begins_anew(autojump_clock: MockClock) -> None:
    """Neither its health nor the operator's wishes outlive it."""
    config = config_for(A, B)
    async with open_gateway(config) as service:
        await trio.sleep_until(3.0)
        await service.drain("node-a")
        await service.apply(with_nodes(config, B))
        await service.apply(config)

        assert (Verdict.UNKNOWN, 3.0) == (service.health("node-a").verdict, service.health("node-a").since)
        assert {} == service.state.overrides
        await trio.sleep_until(4.0)
        assert b"node-a:hi" == await service.ask()


# --- beside the end -------------------------------------------------------------------------------


async def test_a_stopping_gateway_takes_no_configuration(autojump_clock: MockClock) -> None:
    """A listener opened now would never be told to stop."""
    config = config_for(A)
    async with open_gateway(config) as service:
        with await service.connect() as conn:
            await talk(conn)
            service.gateway.stop(5.0)
            with pytest.raises(CommandRefused, match="stopping"):
                await service.apply(with_listeners(config, TCP_DOOR, OTHER_DOOR))
            assert 5.0 == await moment_of_end(conn)


async def test_a_reload_cancelled_while_it_binds_changes_nothing(autojump_clock: MockClock) -> None:
    """Who asked may go away in the middle of it."""
    config = config_for(A)
    slow = attrs.evolve(OTHER_DOOR, listen=Address("gateway.test", 81))
    network = VirtualNetwork()
    network.names["gateway.test"] = (GATEWAY,)
    network.names.delay = 1.0
    async with open_gateway(config, network=network) as service:
        wide = attrs.evolve(TCP_DOOR, listen=Address("", 80))
        before, doors = service.state.config, open_doors(service)
        with trio.move_on_after(0.5):
            await service.apply(with_listeners(config, wide, UDP_DOOR, slow))

        assert before is service.state.config
        assert doors == open_doors(service)
        assert b"node-a:hi" == await service.ask()
