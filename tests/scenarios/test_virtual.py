"""The failover table on virtual time: what the rules make of each scenario when machine and network cost nothing.

Every figure is exact, and taken in the worst case: the failure strikes just after a probe. What real processes
measure (`python -m tests.scenarios`) is this, less the luck of the moment and plus what the machine costs.
"""

import inspect
from collections.abc import Callable
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from sniffgate.config.schema import Config, NodeConfig, ProbeKind, Transport
from sniffgate.net.ports import DatagramConn
from tests.scenarios.tuning import (
    FAST,
    HEDGE,
    INTERVAL,
    TCP,
    TIMEOUT,
    TUNING,
    UDP,
    WORDS,
    after_next_probe,
    is_active,
    just_after_a_probe,
)
from tests.tasks.looking import exact, now, when, with_nodes
from tests.tasks.tcp_world import ending
from tests.tasks.world import A, B, World, config_for, node_at, running


def tuned(*nodes: NodeConfig, **changes: Any) -> Config:
    return config_for(*(nodes or (A, B)), **{**TUNING, **changes})


def each(**fields: Any) -> tuple[NodeConfig, ...]:
    return tuple(attrs.evolve(node, **fields) for node in (A, B))


async def switched(world: World, since: float, transport: Transport = TCP, to: str = "node-b") -> float:
    """Seconds from `since` until new traffic goes to node-b."""
    return exact(await when(world, is_active(to, transport)) - since)


# --- a node that refuses --------------------------------------------------------------------------


async def test_the_first_request_after_a_kill_waits_for_nothing(autojump_clock: MockClock) -> None:
    """A refusal is an answer."""
    async with running(tuned()) as world:
        died = await just_after_a_probe(world)
        world.nodes["node-a"].kill()

        assert b"node-b:hi" == await world.ask()
        assert died == now()


async def test_a_killed_node_is_out_without_traffic(autojump_clock: MockClock) -> None:
    """One interval, then the fast steps."""
    async with running(tuned()) as world:
        died = await just_after_a_probe(world)
        world.nodes["node-a"].kill()

        assert exact(INTERVAL + 2 * FAST) == await switched(world, died)


@pytest.mark.parametrize(("after_probe", "expected"), [(0.0, 3 * FAST), (INTERVAL / 2, 2 * FAST)])
async def test_a_tripwire_makes_it_the_fast_steps_alone(
    after_probe: float, expected: float, autojump_clock: MockClock
) -> None:
    """The broken connection brings the first probe at once, but never two within the fast interval."""
    async with running(tuned(*each(tripwire=True))) as world:
        died = await just_after_a_probe(world) + after_probe
        await trio.sleep(after_probe)
        world.nodes["node-a"].kill()

        assert exact(expected) == await switched(world, died)


async def test_a_broken_connection_is_looked_at_twice(autojump_clock: MockClock) -> None:
    """The kernel resets a dying process's connections before it closes the port: a probe in between succeeds."""
    async with running(tuned(*each(tripwire=True))) as world:
        await just_after_a_probe(world)
        await trio.sleep(INTERVAL / 2)
        died = now()
        world.nodes["node-a"].reset_clients()
        await trio.sleep(FAST / 2)
        world.nodes["node-a"].kill()

        assert exact(3 * FAST) == await switched(world, died)


async def test_one_request_makes_it_the_fast_steps_alone(autojump_clock: MockClock) -> None:
    """The client's own failure is the first step."""
    async with running(tuned()) as world:
        died = await just_after_a_probe(world)
        world.nodes["node-a"].kill()
        await world.ask()

        assert exact(2 * FAST) == await switched(world, died)


async def test_a_node_that_is_back_has_traffic_again(autojump_clock: MockClock) -> None:
    """One interval, then one fast step."""
    async with running(tuned()) as world:
        await just_after_a_probe(world)
        world.nodes["node-a"].kill()
        await when(world, is_active("node-b"))
        returned = await after_next_probe(world)
        world.nodes["node-a"].recover()

        assert exact(INTERVAL + FAST) == await switched(world, returned, to="node-a")


@pytest.mark.parametrize("transport", list(Transport))
async def test_a_udp_probe_speaks_for_both_transports(transport: Transport, autojump_clock: MockClock) -> None:
    """ICMP is noticed: a refused datagram is no silence."""
    async with running(tuned(*each(probe=ProbeKind.UDP))) as world:
        died = await just_after_a_probe(world, UDP)
        world.nodes["node-a"].kill()

        assert exact(INTERVAL + 2 * FAST) == await switched(world, died, transport)


async def test_a_refused_datagram_hurries_the_tcp_probes_that_speak_for_it(autojump_clock: MockClock) -> None:
    """Its failure is the first step, though another transport takes the rest."""
    async with running(tuned(*each(probe=ProbeKind.TCP))) as world:
        died = await just_after_a_probe(world)
        world.nodes["node-a"].kill()
        with world.datagrams() as conn:
            conn.send_nowait(b"hi")

            assert exact(2 * FAST) == await switched(world, died, UDP)


async def test_a_datagram_that_died_with_its_server_holds_nothing_up(autojump_clock: MockClock) -> None:
    """Its probe has no answer and no refusal; those after it have one, and theirs is the newer news."""
    async with running(tuned(*each(probe=ProbeKind.UDP))) as world:
        await just_after_a_probe(world, UDP)
        world.nodes["node-a"].reply = lambda _: None
        await trio.sleep(INTERVAL + FAST / 2)  # one is taken in that time, and not answered any more
        died = now()
        world.nodes["node-a"].kill()

        assert exact(FAST / 2 + 2 * FAST) == await switched(world, died)


# --- a node that is silent ------------------------------------------------------------------------


async def test_the_first_request_to_a_black_hole_waits_for_the_hedge_delay(autojump_clock: MockClock) -> None:
    """And not for the connect timeout."""
    async with running(tuned()) as world:
        died = await just_after_a_probe(world)
        world.nodes["node-a"].black_hole()

        assert b"node-b:hi" == await world.ask()
        assert exact(died + HEDGE) == now()


@pytest.mark.parametrize("with_request", [False, True])
async def test_a_black_hole_is_out_after_one_timeout(with_request: bool, autojump_clock: MockClock) -> None:
    """Probes overlap; a client that hangs changes nothing."""
    async with running(tuned()) as world:
        died = await just_after_a_probe(world)
        world.nodes["node-a"].black_hole()
        if with_request:
            await world.ask()

        assert exact(INTERVAL + 2 * FAST + TIMEOUT) == await switched(world, died)


@pytest.mark.parametrize("transport", list(Transport))
async def test_a_frozen_node_is_out_after_one_timeout(transport: Transport, autojump_clock: MockClock) -> None:
    """Its kernel answers and its process does not: only words tell."""
    async with running(tuned(*each(**WORDS))) as world:
        died = await just_after_a_probe(world, transport)
        world.nodes["node-a"].freeze()

        assert exact(INTERVAL + 2 * FAST + TIMEOUT) == await switched(world, died, transport)


# --- UDP ------------------------------------------------------------------------------------------


async def replies(conn: DatagramConn, count: int, pause: float, strike: Callable[[int], Any]) -> list[bytes]:
    """Sends `count` numbered datagrams; who answered each, in their order. `strike(n)` comes before the n-th."""
    got: dict[bytes, bytes] = {}

    async def read() -> None:
        while True:
            node, _, number = (await conn.receive()).partition(b":")
            got.setdefault(number, node)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        for number in range(count):
            result = strike(number)
            if inspect.isawaitable(result):
                await result
            conn.send_nowait(b"%d" % number)
            await trio.sleep(pause)
        await trio.sleep(1)
        nursery.cancel_scope.cancel()
    return [got[number] for number in (b"%d" % each for each in range(count)) if number in got]


@pytest.mark.parametrize(
    ("count", "pause", "transport"), [(100, 0.033, UDP), (200, 0.005, None)], ids=["udp port closed", "process killed"]
)
async def test_a_stream_loses_nothing_to_a_death(
    count: int, pause: float, transport: Transport | None, autojump_clock: MockClock
) -> None:
    """What is refused is sent once more, there."""
    async with running(tuned()) as world, trio.open_nursery():
        await just_after_a_probe(world)
        strike = {count // 4: lambda: world.nodes["node-a"].kill(transport)}
        with world.datagrams() as conn:
            seen = await replies(conn, count, pause, lambda number: strike.get(number, lambda: None)())

        assert [b"node-a"] * (count // 4) + [b"node-b"] * (count - count // 4) == seen


async def test_a_stream_loses_nothing_to_a_switch(autojump_clock: MockClock) -> None:
    """Sessions move, datagrams do not wait."""
    async with running(tuned()) as world:
        strike = {100: lambda: world.gateway.switch("node-b")}
        with world.datagrams() as conn:
            seen = await replies(conn, 200, 0.001, lambda number: strike.get(number, lambda: None)())

        assert [b"node-a"] * 100 + [b"node-b"] * 100 == seen


# --- no probes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("threshold", [1, 2])
async def test_without_probes_the_nth_failure_ejects_and_nothing_flaps(
    threshold: int, autojump_clock: MockClock
) -> None:
    """Not probing is no success; the trial after the ejection fails without anybody noticing."""
    config = tuned(*each(probe=ProbeKind.NONE), passive_eject_threshold=threshold)
    async with running(config) as world:
        before = len(world.gateway.state.switches)
        world.nodes["node-a"].kill()
        moved = []
        for number in range(30):
            assert b"node-b:hi" == await world.ask()
            if is_active("node-b")(world.gateway.state):
                moved.append(number + 1)
            await trio.sleep(0.05)

        assert list(range(threshold, 31)) == moved
        assert 1 == len(world.gateway.state.switches) - before


# --- draining and reloading -----------------------------------------------------------------------


@pytest.mark.parametrize(("timeout", "transport"), [(1.0, None), (1.0, TCP), (0.0, None)])
async def test_a_drained_connection_is_closed_at_its_deadline(
    timeout: float, transport: Transport | None, autojump_clock: MockClock
) -> None:
    """Over both transports or over TCP alone; zero means at once."""
    async with running(tuned(drain_timeout=timeout)) as world:
        began = await just_after_a_probe(world)
        with await world.connect() as conn:
            await conn.send_all(b"hi")
            await conn.receive_some(100)
            await world.gateway.switch("node-b", transport)

            how, ended = await ending(conn)
            assert ("end of stream", exact(timeout)) == (how, exact(ended - began))


async def test_a_new_primary_takes_over_after_its_first_good_probes(autojump_clock: MockClock) -> None:
    """Which follow each other at the fast interval."""
    better = node_at("node-c", "10.0.0.3", 90)
    async with running(tuned(A, B, better)) as world:
        await world.gateway.apply(with_nodes(world.gateway.state.config, A, B))
        await just_after_a_probe(world)
        added = now()
        await world.gateway.apply(with_nodes(world.gateway.state.config, A, B, better))

        assert FAST == await switched(world, added, to="node-c")
