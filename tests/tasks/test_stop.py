"""The end of a gateway: no client more, a grace for those inside, and nothing left behind."""

import pytest
import trio
from trio.testing import MockClock

from sniffgate.address import Address
from sniffgate.errors import CommandRefused, ConnectRefused
from sniffgate.net.relay import EndReason
from sniffgate.net.relay_tasks import TaskRelay
from sniffgate.net.resolver import Resolver
from sniffgate.tasks.gateway import Gateway, run_gateway
from sniffgate.testing.virtual import VirtualNetwork
from tests.tasks.tcp_world import (
    QA,
    QB,
    SECOND_LISTENER,
    TCP_LISTENER,
    Endings,
    echo,
    ending,
    endings,
    gateway_tasks,
    opened,
    settled,
    tcp_config,
)
from tests.tasks.world import GATEWAY, TCP_PORT, A, B, NoJitter, config_for, running


async def test_stop_takes_no_more_clients_and_frees_the_port(autojump_clock: MockClock) -> None:
    """Another instance may take over while the flows here finish."""
    async with running(tcp_config(QA)) as world:
        (conn,) = await opened(world)
        world.gateway.stop()
        await settled()

        with pytest.raises(ConnectRefused):
            await world.connect()
        with await world.network.host(GATEWAY).listen_tcp(TCP_LISTENER.listen):
            assert b"node-a:hi" == await echo(conn)


async def test_a_flow_may_finish_within_the_grace_and_is_cut_at_its_end(autojump_clock: MockClock) -> None:
    """Exactly so long: an init system counts too."""
    async with running(tcp_config(QA, shutdown_grace=5.0)) as world, trio.open_nursery() as nursery:
        seen = Endings()
        finishing, staying = await opened(world, 2)
        nursery.start_soon(seen.watch, "finishing", finishing)
        nursery.start_soon(seen.watch, "staying", staying)
        await trio.sleep(1.0)
        world.gateway.stop()
        await trio.sleep(2.0)
        await finishing.send_eof()
        await trio.sleep(20.0)

        assert {"finishing": ("end of stream", 3.0), "staying": ("end of stream", 6.0)} == seen.seen
        assert {EndReason.COMPLETE: 1, EndReason.SHUTDOWN: 1} == endings(world)


async def test_a_second_stop_cuts_at_once(autojump_clock: MockClock) -> None:
    """Who asks twice means it; a later and longer grace gives nothing back."""
    async with running(tcp_config(QA, shutdown_grace=60.0)) as world:
        (conn,) = await opened(world)
        world.gateway.stop()
        await trio.sleep(1.0)
        world.gateway.stop(0.0)
        world.gateway.stop(30.0)

        assert ("end of stream", 1.0) == await ending(conn)


async def test_a_flow_that_drains_keeps_its_nearer_deadline(autojump_clock: MockClock) -> None:
    """The grace is no gift: the end only moves closer, and the reason is the drain's."""
    async with running(tcp_config(QA, QB, drain_timeout=2.0, shutdown_grace=60.0)) as world:
        (conn,) = await opened(world)
        await world.gateway.disable("node-a")
        world.gateway.stop()

        assert ("end of stream", 2.0) == await ending(conn)
        await settled()
        assert {EndReason.DRAINED: 1} == endings(world)


async def test_a_client_that_waits_for_its_node_may_still_get_it(autojump_clock: MockClock) -> None:
    """It was accepted, so it has the grace as any other."""
    async with running(tcp_config(QA, QB, connect_timeout=2.0, shutdown_grace=5.0)) as world:
        world.nodes["node-a"].black_hole()
        (conn,) = await opened(world)
        world.gateway.stop()

        assert b"node-b:hi" == await echo(conn)
        assert 2.0 == trio.current_time()
        assert ("end of stream", 5.0) == await ending(conn)


async def test_a_client_that_still_waits_at_the_end_is_reset_and_counted(autojump_clock: MockClock) -> None:
    """Nothing it sent has been read, and it learns that."""
    async with running(tcp_config(QA, connect_timeout=60.0, shutdown_grace=5.0)) as world:
        world.nodes["node-a"].black_hole()
        (conn,) = await opened(world)
        world.gateway.stop()
        world.gateway.stop(30.0)  # gives nothing back

        assert ("reset", 5.0) == await ending(conn)
        await settled()
        assert {EndReason.SHUTDOWN: 1} == endings(world)


async def hosted(network: VirtualNetwork, *, task_status: trio.TaskStatus[Gateway] = trio.TASK_STATUS_IGNORED) -> None:
    """A gateway with TCP and UDP on a network of its own, without nodes that answer."""
    host = network.host(GATEWAY)
    names = Resolver(host.look_up)
    config = config_for(A, B, drain_timeout=100.0)
    await run_gateway(config, network=host, names=names, relay=TaskRelay(), dice=NoJitter(), task_status=task_status)


async def test_run_gateway_returns_when_the_last_flow_has_ended(autojump_clock: MockClock) -> None:
    """Not before, and not at the end of the grace when there is nothing to wait for."""
    network = VirtualNetwork()
    async with trio.open_nursery() as nursery:
        gateway: Gateway = await nursery.start(hosted, network)
        await trio.sleep(3.0)
        gateway.stop(60.0)
    assert 3.0 <= trio.current_time() < 4.0

    assert [] == network.host(GATEWAY).open_sockets()
    with pytest.raises(CommandRefused):
        await gateway.disable("node-a")


async def test_a_stop_before_the_listeners_have_begun_is_a_stop(autojump_clock: MockClock) -> None:
    """Signals come when they like."""
    network = VirtualNetwork()

    async with trio.open_nursery() as nursery:
        gateway: Gateway = await nursery.start(hosted, network)
        gateway.stop()
    assert [] == network.host(GATEWAY).open_sockets()


async def test_cancelling_leaves_nothing_behind(autojump_clock: MockClock) -> None:
    """No socket and no task, whatever was under way: a relayed flow, one that connects, or a session."""
    network = VirtualNetwork()
    gateway_host, client = network.host(GATEWAY), network.host("10.0.0.9")
    with await network.host("10.0.0.1").listen_tcp(Address("10.0.0.1", 7000)):
        async with trio.open_nursery() as nursery:
            gateway: Gateway = await nursery.start(hosted, network)
            await client.connect_tcp(gateway.addresses["tcp"])
            client.connect_udp(gateway.addresses["udp"]).send_nowait(b"hello")
            await settled()
            network.black_hole("10.0.0.1")
            await client.connect_tcp(gateway.addresses["tcp"])
            await settled()
            assert 6 <= len(gateway_host.open_sockets())
            assert 15 <= len(gateway_tasks())
            nursery.cancel_scope.cancel()

        await settled()
        assert [] == gateway_host.open_sockets()
        assert set() == gateway_tasks()


async def test_cancelling_cuts_flows_as_a_shutdown(autojump_clock: MockClock) -> None:
    """They end as cleanly as they can, and are not called drained."""
    lines: list[EndReason] = []
    network = VirtualNetwork()
    node = await network.host("10.0.0.1").listen_tcp(Address("10.0.0.1", 7000))
    async with trio.open_nursery() as nursery:
        gateway: Gateway = await nursery.start(hosted, network)
        conn = await network.host("10.0.0.9").connect_tcp(gateway.addresses["tcp"])
        await settled()
        nursery.cancel_scope.cancel()
    lines += gateway.ledger.endings

    assert [EndReason.SHUTDOWN] == lines
    assert ("end of stream", 0.0) == await ending(conn)
    node.close()


async def test_two_gateways_in_one_process_do_not_disturb_each_other(autojump_clock: MockClock) -> None:
    """It is a library: two of its gateways share no state, and the end of one is none of the other's business."""
    network = VirtualNetwork()
    elsewhere = tcp_config(QB, listeners=(SECOND_LISTENER,))
    async with running(tcp_config(QA), network=network) as one, running(elsewhere, network=network) as two:
        (conn,) = await opened(one)
        (other,) = await opened(two, port=SECOND_LISTENER.listen.port)
        await one.gateway.disable("node-a")
        one.gateway.stop(0.0)

        assert ("end of stream", 0.0) == await ending(conn)
        assert b"node-b:hi" == await echo(other)
        assert {} == dict(two.gateway.ledger.endings)
        (new,) = await opened(two, port=SECOND_LISTENER.listen.port)
        assert b"node-b:hi" == await echo(new)


async def test_clients_that_wait_in_the_backlog_are_served_before_the_port_is_given_back(
    autojump_clock: MockClock,
) -> None:
    """They were let in by the kernel: closing the socket would reset them."""
    async with running(tcp_config(QA, shutdown_grace=5.0)) as world:
        conns = [await world.client.connect_tcp(Address(GATEWAY, TCP_PORT)) for _ in range(3)]
        world.gateway.stop()
        for conn in conns:
            await conn.send_all(b"hi")
            assert b"node-a:hi" == await conn.receive_some(100)
            conn.close()
