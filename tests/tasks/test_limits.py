"""Bounds: connections per listener and for the whole gateway, and the time that a flow may say nothing."""

import attrs
import pytest
import trio
from trio.testing import MockClock

from sniffgate.net.relay import EndReason
from sniffgate.tasks.services import Slots
from tests.tasks.tcp_world import (
    QA,
    SECOND_LISTENER,
    TCP_LISTENER,
    echo,
    ending,
    endings,
    gateway_tasks,
    opened,
    served,
    settled,
    tcp_config,
)
from tests.tasks.world import running


async def test_clients_beyond_max_connections_wait_in_the_backlog_and_are_served_later(
    autojump_clock: MockClock,
) -> None:
    """They are late, not lost: what they said is there when their turn comes."""
    listener = attrs.evolve(TCP_LISTENER, max_connections=2)
    async with running(tcp_config(QA, listeners=(listener,))) as world:
        first, _, third = await opened(world, 3)
        await third.send_all(b"waiting")
        await trio.sleep(5.0)
        assert 2 == served(world)["node-a"]
        assert not [task for task in gateway_tasks() if "welcome" in task.name]  # nobody more has been accepted

        first.abort()
        assert b"node-a:waiting" == await third.receive_some(1000)
        assert 5.0 == trio.current_time()


async def test_a_reload_may_raise_and_lower_max_connections(autojump_clock: MockClock) -> None:
    """Those who wait come in at once; those inside stay."""
    listener = attrs.evolve(TCP_LISTENER, max_connections=1)
    config = tcp_config(QA, listeners=(listener,))
    async with running(config) as world:
        conns = await opened(world, 3)
        assert 1 == served(world)["node-a"]
        await world.gateway.apply(attrs.evolve(config, listeners=(attrs.evolve(listener, max_connections=None),)))
        await settled()
        assert 3 == served(world)["node-a"]

        await world.gateway.apply(config)
        await opened(world)
        for conn in conns:
            assert b"node-a:hi" == await echo(conn)
        conns[0].abort()
        await settled()
        assert 3 == served(world)["node-a"]


async def test_max_flows_is_shared_by_all_listeners(autojump_clock: MockClock) -> None:
    """Descriptors are the process's: any listener may use them all, and none may go beyond."""
    config = tcp_config(QA, listeners=(TCP_LISTENER, SECOND_LISTENER))
    async with running(config, max_flows=2) as world:
        first, second = await opened(world, 2)
        (third,) = await opened(world, 1, SECOND_LISTENER.listen.port)
        (fourth,) = await opened(world, 1)
        await settled()
        assert 2 == served(world)["node-a"]

        first.abort()
        second.abort()
        await settled()
        assert 4 == served(world)["node-a"]
        assert (b"node-a:hi", b"node-a:hi") == (await echo(third), await echo(fourth))


async def test_listeners_that_meet_at_the_last_slot_do_not_exceed_the_bound(autojump_clock: MockClock) -> None:
    """Both may have accepted a client by then: one of them waits."""
    config = tcp_config(QA, listeners=(TCP_LISTENER, SECOND_LISTENER))
    async with running(config, max_flows=1) as world:
        async with trio.open_nursery() as nursery:
            conns = []

            async def enter(port: int) -> None:
                conns.extend(await opened(world, 1, port))

            for listener in (TCP_LISTENER, SECOND_LISTENER):
                nursery.start_soon(enter, listener.listen.port)
        await settled()
        assert 1 == served(world)["node-a"]

        for conn in conns:
            conn.abort()
        await settled()
        assert b"node-a:hi" == await world.ask()


async def test_clients_without_a_node_hold_a_slot_and_give_it_back(autojump_clock: MockClock) -> None:
    """A storm of clients against dead nodes must neither break the bound nor use it up."""
    listener = attrs.evolve(TCP_LISTENER, max_connections=1)
    async with running(tcp_config(QA, listeners=(listener,), connect_timeout=1.0)) as world:
        world.nodes["node-a"].black_hole()
        first, second = await opened(world, 2)
        assert ("reset", 1.0) == await ending(first)
        assert ("reset", 2.0) == await ending(second)
        world.nodes["node-a"].recover()

        assert b"node-a:hi" == await world.ask()


async def test_an_idle_flow_ends_at_the_idle_timeout(autojump_clock: MockClock) -> None:
    """Counted from the last byte of either side."""
    listener = attrs.evolve(TCP_LISTENER, idle_timeout=4.0)
    async with running(tcp_config(QA, listeners=(listener,))) as world:
        (conn,) = await opened(world)
        await trio.sleep(3.0)
        await echo(conn)

        assert ("end of stream", 7.0) == await ending(conn)
        assert {EndReason.IDLE: 1} == endings(world)


@pytest.mark.parametrize("timeout", [1.0, 300.0])
async def test_a_half_closed_flow_ends_at_the_half_close_timeout(timeout: float, autojump_clock: MockClock) -> None:
    """A client that left by FIN and a node that never answers must not stay for ever."""
    listener = attrs.evolve(TCP_LISTENER, half_close_timeout=timeout)
    async with running(tcp_config(QA, listeners=(listener,))) as world:
        world.nodes["node-a"].freeze()
        conn = await world.connect()
        await trio.sleep(2.0)
        await conn.send_eof()

        assert ("end of stream", 2.0 + timeout) == await ending(conn)
        await settled()
        assert {EndReason.HALF_CLOSE_TIMEOUT: 1} == endings(world)


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
