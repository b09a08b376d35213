"""The end of a gateway: no client more, a grace for those inside, and nothing left behind."""

import logging

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from sniffgate.address import Address
from sniffgate.errors import CommandRefused, ConnectRefused
from sniffgate.net.relay import EndReason
from sniffgate.testing import VirtualNetwork, ending, exchange, open_gateway
from tests.tasks.configs import GATEWAY, QA, QB, SECOND_DOOR, TCP_DOOR, TCP_PORT, A, B, config_for, tcp_config
from tests.tasks.looking import Endings, endings, gateway_tasks, held, opened


async def test_stop_takes_no_more_clients_and_frees_the_port(autojump_clock: MockClock) -> None:
    """Another instance may take over while the flows here finish."""
    async with open_gateway(tcp_config(QA)) as service:
        (conn,) = await opened(service)
        service.gateway.stop()
        await wait_all_tasks_blocked()

        with pytest.raises(ConnectRefused):
            await service.connect()
        with await service.network.host(GATEWAY).listen_tcp(TCP_DOOR.listen):
            assert b"node-a:hi" == await exchange(conn)


async def test_a_flow_may_finish_within_the_grace_and_is_cut_at_its_end(autojump_clock: MockClock) -> None:
    """Exactly so long: an init system counts too."""
    async with open_gateway(tcp_config(QA, shutdown_grace=5.0)) as service, trio.open_nursery() as nursery:
        seen = Endings()
        finishing, staying = await opened(service, 2)
        nursery.start_soon(seen.watch, "finishing", finishing)
        nursery.start_soon(seen.watch, "staying", staying)
        await trio.sleep(1.0)
        service.gateway.stop()
        await trio.sleep(2.0)
        await finishing.send_eof()
        await trio.sleep(20.0)

        assert {"finishing": ("end of stream", 3.0), "staying": ("end of stream", 6.0)} == seen.seen
        assert {EndReason.COMPLETE: 1, EndReason.SHUTDOWN: 1} == endings(service)


async def test_the_last_line_says_what_became_of_the_flows(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Who restarts a gateway wants to know whether clients felt it."""
    caplog.set_level(logging.INFO)
    async with open_gateway(tcp_config(QA, shutdown_grace=5.0)) as service:
        conns = await opened(service, 3)
        service.gateway.stop(60.0)
        await trio.sleep(1.0)
        await conns[0].send_eof()
        service.gateway.stop(2.0)
        await ending(conns[1])
        await wait_all_tasks_blocked()
        (line,) = [record for record in caplog.records if record.message == "stopped"]
        told = {key: getattr(line, key) for key in ("ended", "cut", "sessions", "seconds")}

        assert {"ended": 1, "cut": 2, "sessions": 0, "seconds": "3.0"} == told


async def test_a_second_stop_cuts_at_once(autojump_clock: MockClock) -> None:
    """Who asks twice means it; a later and longer grace gives nothing back."""
    async with open_gateway(tcp_config(QA, shutdown_grace=60.0)) as service:
        (conn,) = await opened(service)
        service.gateway.stop()
        await trio.sleep(1.0)
        service.gateway.stop(0.0)
        service.gateway.stop(30.0)

        assert ("end of stream", 1.0) == await ending(conn)


async def test_a_flow_that_drains_keeps_its_nearer_deadline(autojump_clock: MockClock) -> None:
    """The grace is no gift: the end only moves closer, and the reason is the drain's."""
    async with open_gateway(tcp_config(QA, QB, drain_timeout=2.0, shutdown_grace=60.0)) as service:
        (conn,) = await opened(service)
        await service.disable("node-a")
        service.gateway.stop()

        assert ("end of stream", 2.0) == await ending(conn)
        await wait_all_tasks_blocked()
        assert {EndReason.DRAINED: 1} == endings(service)


async def test_a_client_that_waits_for_its_node_may_still_get_it(autojump_clock: MockClock) -> None:
    """It was accepted, so it has the grace as any other."""
    async with open_gateway(tcp_config(QA, QB, connect_timeout=2.0, shutdown_grace=5.0)) as service:
        service.nodes["node-a"].black_hole()
        (conn,) = await opened(service)
        service.gateway.stop()

        assert b"node-b:hi" == await exchange(conn)
        assert 2.0 == trio.current_time()
        assert ("end of stream", 5.0) == await ending(conn)


async def test_a_client_that_still_waits_at_the_end_is_reset_and_counted(autojump_clock: MockClock) -> None:
    """Nothing it sent has been read, and it learns that."""
    async with open_gateway(tcp_config(QA, connect_timeout=60.0, shutdown_grace=5.0)) as service:
        service.nodes["node-a"].black_hole()
        (conn,) = await opened(service)
        service.gateway.stop()
        service.gateway.stop(30.0)  # gives nothing back

        assert ("reset", 5.0) == await ending(conn)
        await wait_all_tasks_blocked()
        assert {EndReason.SHUTDOWN: 1} == endings(service)


async def test_a_stopped_gateway_ends_with_its_last_flow(autojump_clock: MockClock) -> None:
    """Not before, and not at the end of the grace when there is nothing to wait for."""
    async with open_gateway(config_for(A, B), serve_nodes=False) as service:
        await trio.sleep(3.0)
        await service.stop(60.0)

        assert 3.0 == trio.current_time()
        assert [] == held(service)
        with pytest.raises(CommandRefused):
            await service.disable("node-a")


async def test_a_stop_before_the_listeners_have_begun_is_a_stop(autojump_clock: MockClock) -> None:
    """Signals come when they like."""
    async with open_gateway(config_for(A, B), serve_nodes=False) as service:
        await service.stop()

        assert 0.0 == trio.current_time()
        assert [] == held(service)


async def test_cancelling_leaves_nothing_behind(autojump_clock: MockClock) -> None:
    """No socket and no task, whatever was under way: a relayed flow, one that connects, or a session."""
    network = VirtualNetwork()
    with await network.host("10.0.0.1").listen_tcp(Address("10.0.0.1", 7000)):
        async with open_gateway(config_for(A, B), network, serve_nodes=False) as service:
            await service.connect()
            service.datagrams().send_nowait(b"hello")
            await wait_all_tasks_blocked()
            network.black_hole("10.0.0.1")
            await service.connect()
            await wait_all_tasks_blocked()
            assert 6 <= len(held(service))
            assert 15 <= len(gateway_tasks())

        await wait_all_tasks_blocked()
        assert [] == held(service)
        assert set() == gateway_tasks()


async def test_cancelling_cuts_flows_as_a_shutdown(autojump_clock: MockClock) -> None:
    """They end as cleanly as they can, and are not called drained."""
    network = VirtualNetwork()
    with await network.host("10.0.0.1").listen_tcp(Address("10.0.0.1", 7000)):
        async with open_gateway(config_for(A, B, drain_timeout=100.0), network, serve_nodes=False) as service:
            conn = await service.connect()
            await wait_all_tasks_blocked()

        assert {EndReason.SHUTDOWN: 1} == endings(service)
        assert ("end of stream", 0.0) == await ending(conn)


async def test_two_gateways_in_one_process_do_not_disturb_each_other(autojump_clock: MockClock) -> None:
    """It is a library: two of its gateways share no state, and the end of one is none of the other's business."""
    network = VirtualNetwork()
    elsewhere = tcp_config(QB, listeners=(SECOND_DOOR,))
    async with open_gateway(tcp_config(QA), network=network) as one, open_gateway(elsewhere, network=network) as two:
        (conn,) = await opened(one)
        (other,) = await opened(two, port=SECOND_DOOR.listen.port)
        await one.gateway.disable("node-a")
        one.gateway.stop(0.0)

        assert ("end of stream", 0.0) == await ending(conn)
        assert b"node-b:hi" == await exchange(other)
        assert {} == dict(two.gateway.ledger.endings)
        (new,) = await opened(two, port=SECOND_DOOR.listen.port)
        assert b"node-b:hi" == await exchange(new)


async def test_clients_that_wait_in_the_backlog_are_served_before_the_port_is_given_back(
    autojump_clock: MockClock,
) -> None:
    """They were let in by the kernel: closing the socket would reset them."""
    async with open_gateway(tcp_config(QA, shutdown_grace=5.0)) as service:
        conns = [await service.client.connect_tcp(Address(GATEWAY, TCP_PORT)) for _ in range(3)]
        service.gateway.stop()
        for conn in conns:
            await conn.send_all(b"hi")
            assert b"node-a:hi" == await conn.receive_some(100)
            conn.close()
