"""Bounds: connections per listener and for the whole gateway, and the time that a flow may say nothing."""

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from sniffgate.net.relay import EndReason
from sniffgate.tasks.services import Slots
from sniffgate.testing import ending, exchange, open_gateway
from tests.tasks.configs import QA, SECOND_DOOR, TCP_DOOR, tcp_config
from tests.tasks.looking import endings, gateway_tasks, opened, served


async def test_clients_beyond_max_connections_wait_in_the_backlog_and_are_served_later(
    autojump_clock: MockClock,
) -> None:
    """They are late, not lost: what they said is there when their turn comes."""
    listener = attrs.evolve(TCP_DOOR, max_connections=2)
    async with open_gateway(tcp_config(QA, listeners=(listener,))) as service:
        first, _, third = await opened(service, 3)
        await third.send_all(b"waiting")
        await trio.sleep(5.0)
        assert 2 == served(service)["node-a"]
        assert not [task for task in gateway_tasks() if "welcome" in task.name]  # nobody more has been accepted

        first.abort()
        assert b"node-a:waiting" == await third.receive_some(1000)
        assert 5.0 == trio.current_time()


async def test_a_reload_may_raise_and_lower_max_connections(autojump_clock: MockClock) -> None:
    """Those who wait come in at once; those inside stay."""
    listener = attrs.evolve(TCP_DOOR, max_connections=1)
    config = tcp_config(QA, listeners=(listener,))
    async with open_gateway(config) as service:
        conns = await opened(service, 3)
        assert 1 == served(service)["node-a"]
        await service.apply(attrs.evolve(config, listeners=(attrs.evolve(listener, max_connections=None),)))
        await wait_all_tasks_blocked()
        assert 3 == served(service)["node-a"]

        await service.apply(config)
        await opened(service)
        for conn in conns:
            assert b"node-a:hi" == await exchange(conn)
        conns[0].abort()
        await wait_all_tasks_blocked()
        assert 3 == served(service)["node-a"]


async def test_max_flows_is_shared_by_all_listeners(autojump_clock: MockClock) -> None:
    """Descriptors are the process's: any listener may use them all, and none may go beyond."""
    config = tcp_config(QA, listeners=(TCP_DOOR, SECOND_DOOR))
    async with open_gateway(config, max_flows=2) as service:
        first, second = await opened(service, 2)
        (third,) = await opened(service, 1, SECOND_DOOR.listen.port)
        (fourth,) = await opened(service, 1)
        await wait_all_tasks_blocked()
        assert 2 == served(service)["node-a"]

        first.abort()
        second.abort()
        await wait_all_tasks_blocked()
        assert 4 == served(service)["node-a"]
        assert (b"node-a:hi", b"node-a:hi") == (await exchange(third), await exchange(fourth))


async def test_listeners_that_meet_at_the_last_slot_do_not_exceed_the_bound(autojump_clock: MockClock) -> None:
    """Both may have accepted a client by then: one of them waits."""
    config = tcp_config(QA, listeners=(TCP_DOOR, SECOND_DOOR))
    async with open_gateway(config, max_flows=1) as service:
        async with trio.open_nursery() as nursery:
            conns = []

            async def enter(port: int) -> None:
                conns.extend(await opened(service, 1, port))

            for listener in (TCP_DOOR, SECOND_DOOR):
                nursery.start_soon(enter, listener.listen.port)
        await wait_all_tasks_blocked()
        assert 1 == served(service)["node-a"]

        for conn in conns:
            conn.abort()
        await wait_all_tasks_blocked()
        assert b"node-a:hi" == await service.ask()


async def test_clients_without_a_node_hold_a_slot_and_give_it_back(autojump_clock: MockClock) -> None:
    """A storm of clients against dead nodes must neither break the bound nor use it up."""
    listener = attrs.evolve(TCP_DOOR, max_connections=1)
    async with open_gateway(tcp_config(QA, listeners=(listener,), connect_timeout=1.0)) as service:
        service.nodes["node-a"].black_hole()
        first, second = await opened(service, 2)
        assert ("reset", 1.0) == await ending(first)
        assert ("reset", 2.0) == await ending(second)
        service.nodes["node-a"].recover()

        assert b"node-a:hi" == await service.ask()


async def test_an_idle_flow_ends_at_the_idle_timeout(autojump_clock: MockClock) -> None:
    """Counted from the last byte of either side."""
    listener = attrs.evolve(TCP_DOOR, idle_timeout=4.0)
    async with open_gateway(tcp_config(QA, listeners=(listener,))) as service:
        (conn,) = await opened(service)
        await trio.sleep(3.0)
        await exchange(conn)

        assert ("end of stream", 7.0) == await ending(conn)
        assert {EndReason.IDLE: 1} == endings(service)


@pytest.mark.parametrize("timeout", [1.0, 300.0])
async def test_a_half_closed_flow_ends_at_the_half_close_timeout(timeout: float, autojump_clock: MockClock) -> None:
    """A client that left by FIN and a node that never answers must not stay for ever."""
    listener = attrs.evolve(TCP_DOOR, half_close_timeout=timeout)
    async with open_gateway(tcp_config(QA, listeners=(listener,))) as service:
        service.nodes["node-a"].freeze()
        conn = await service.connect()
        await trio.sleep(2.0)
        await conn.send_eof()

        assert ("end of stream", 2.0 + timeout) == await ending(conn)
        await wait_all_tasks_blocked()
        assert {EndReason.HALF_CLOSE_TIMEOUT: 1} == endings(service)


async def test_a_part_of_a_full_whole_takes_nothing(autojump_clock: MockClock) -> None:
    """Otherwise slots would leak at each refusal."""
    whole = Slots(1)
    one, two = Slots(5, whole), Slots(None, whole)
    assert one.take_nowait()
    assert not two.take_nowait()
    assert not one.take_nowait()
    assert (1, 0, 1) == (one.held, two.held, whole.held)

    with trio.move_on_after(1.0) as scope:
        await two.take()
    assert scope.cancelled_caught
    one.give_back()
    await two.take()
    assert (0, 1, 1) == (one.held, two.held, whole.held)
