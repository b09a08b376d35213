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
from sniffgate.state.model import Verdict
from sniffgate.testing import VirtualGateway, ending, exact, has, is_active, now, open_gateway, when
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
    just_after_a_probe,
)
from tests.tasks.configs import A, B, config_for, node_at, with_nodes


def tuned(*nodes: NodeConfig, **changes: Any) -> Config:
    return config_for(*(nodes or (A, B)), **{**TUNING, **changes})


def each(**fields: Any) -> tuple[NodeConfig, ...]:
    return tuple(attrs.evolve(node, **fields) for node in (A, B))


async def switched(service: VirtualGateway, since: float, transport: Transport = TCP, to: str = "node-b") -> float:
    """Seconds from `since` until new traffic goes to node-b."""
    return exact(await when(service, is_active(to, transport)) - since)


# --- a node that refuses --------------------------------------------------------------------------


async def test_the_first_request_after_a_kill_waits_for_nothing(autojump_clock: MockClock) -> None:
    """A refusal is an answer."""
    async with open_gateway(tuned()) as service:
        died = await just_after_a_probe(service)
        service.nodes["node-a"].kill()

        assert b"node-b:hi" == await service.ask()
        assert died == now()


async def test_a_killed_node_is_out_without_traffic(autojump_clock: MockClock) -> None:
    """One interval, then the fast steps."""
    async with open_gateway(tuned()) as service:
        died = await just_after_a_probe(service)
        service.nodes["node-a"].kill()

        assert exact(INTERVAL + 2 * FAST) == await switched(service, died)


@pytest.mark.parametrize(("after_probe", "expected"), [(0.0, 3 * FAST), (INTERVAL / 2, 2 * FAST)])
async def test_a_tripwire_makes_it_the_fast_steps_alone(
    after_probe: float, expected: float, autojump_clock: MockClock
) -> None:
    """The broken connection brings the first probe at once, but never two within the fast interval."""
    async with open_gateway(tuned(*each(tripwire=True))) as service:
        died = await just_after_a_probe(service) + after_probe
        await trio.sleep(after_probe)
        service.nodes["node-a"].kill()

        assert exact(expected) == await switched(service, died)


async def test_a_broken_connection_is_looked_at_twice(autojump_clock: MockClock) -> None:
    """The kernel resets a dying process's connections before it closes the port: a probe in between succeeds."""
    async with open_gateway(tuned(*each(tripwire=True))) as service:
        await just_after_a_probe(service)
        await trio.sleep(INTERVAL / 2)
        died = now()
        service.nodes["node-a"].reset_clients()
        await trio.sleep(FAST / 2)
        service.nodes["node-a"].kill()

        assert exact(3 * FAST) == await switched(service, died)


async def test_one_request_makes_it_the_fast_steps_alone(autojump_clock: MockClock) -> None:
    """The client's own failure is the first step."""
    async with open_gateway(tuned()) as service:
        died = await just_after_a_probe(service)
        service.nodes["node-a"].kill()
        await service.ask()

        assert exact(2 * FAST) == await switched(service, died)


async def test_a_node_that_is_back_has_traffic_again(autojump_clock: MockClock) -> None:
    """One interval, then one fast step."""
    async with open_gateway(tuned()) as service:
        await just_after_a_probe(service)
        service.nodes["node-a"].kill()
        await when(service, is_active("node-b"))
        returned = await after_next_probe(service)
        service.nodes["node-a"].recover()

        assert exact(INTERVAL + FAST) == await switched(service, returned, to="node-a")


@pytest.mark.parametrize("transport", list(Transport))
async def test_a_udp_probe_speaks_for_both_transports(transport: Transport, autojump_clock: MockClock) -> None:
    """ICMP is noticed: a refused datagram is no silence."""
    async with open_gateway(tuned(*each(probe=ProbeKind.UDP))) as service:
        died = await just_after_a_probe(service, UDP)
        service.nodes["node-a"].kill()

        assert exact(INTERVAL + 2 * FAST) == await switched(service, died, transport)


@pytest.mark.parametrize("clients", [1, 2, 3])
async def test_clients_hurry_the_verdict_on_the_transport_that_tcp_probes_speak_for(
    clients: int, autojump_clock: MockClock
) -> None:
    """Refused clients may eject TCP before a probe has failed; UDP, of which they say nothing, must not wait for it."""
    nodes = [attrs.evolve(each, probe=ProbeKind.TCP) for each in (A, B)]
    rules = {**TUNING, "probe_interval": 1.0, "probe_fast_interval": 0.05, "probe_timeout": 0.3}
    async with open_gateway(config_for(*nodes, **rules)) as world:
        began = await just_after_a_probe(world)
        world.nodes["node-a"].kill()
        for _ in range(clients):
            await world.ask()
        await when(world, has("node-a", Verdict.UNHEALTHY, Transport.UDP))
        assert now() - began <= 3 * 0.05


async def test_a_refused_datagram_hurries_the_tcp_probes_that_speak_for_it(autojump_clock: MockClock) -> None:
    """Its failure is the first step, though another transport takes the rest."""
    async with open_gateway(tuned(*each(probe=ProbeKind.TCP))) as service:
        died = await just_after_a_probe(service)
        service.nodes["node-a"].kill()
        with service.datagrams() as conn:
            conn.send_nowait(b"hi")

            assert exact(2 * FAST) == await switched(service, died, UDP)


async def test_a_datagram_that_died_with_its_server_holds_nothing_up(autojump_clock: MockClock) -> None:
    """Its probe has no answer and no refusal; those after it have one, and theirs is the newer news."""
    async with open_gateway(tuned(*each(probe=ProbeKind.UDP))) as service:
        await just_after_a_probe(service, UDP)
        service.nodes["node-a"].reply = lambda _: None
        await trio.sleep(INTERVAL + FAST / 2)  # one is taken in that time, and not answered any more
        died = now()
        service.nodes["node-a"].kill()

        assert exact(FAST / 2 + 2 * FAST) == await switched(service, died)


# --- a node that is silent ------------------------------------------------------------------------


async def test_the_first_request_to_a_black_hole_waits_for_the_hedge_delay(autojump_clock: MockClock) -> None:
    """And not for the connect timeout."""
    async with open_gateway(tuned()) as service:
        died = await just_after_a_probe(service)
        service.nodes["node-a"].black_hole()

        assert b"node-b:hi" == await service.ask()
        assert exact(died + HEDGE) == now()


@pytest.mark.parametrize("with_request", [False, True])
async def test_a_black_hole_is_out_after_one_timeout(with_request: bool, autojump_clock: MockClock) -> None:
    """Probes overlap; a client that hangs changes nothing."""
    async with open_gateway(tuned()) as service:
        died = await just_after_a_probe(service)
        service.nodes["node-a"].black_hole()
        if with_request:
            await service.ask()

        assert exact(INTERVAL + 2 * FAST + TIMEOUT) == await switched(service, died)


@pytest.mark.parametrize("transport", list(Transport))
async def test_a_frozen_node_is_out_after_one_timeout(transport: Transport, autojump_clock: MockClock) -> None:
    """Its kernel answers and its process does not: only words tell."""
    async with open_gateway(tuned(*each(**WORDS))) as service:
        died = await just_after_a_probe(service, transport)
        service.nodes["node-a"].freeze()

        assert exact(INTERVAL + 2 * FAST + TIMEOUT) == await switched(service, died, transport)


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
    async with open_gateway(tuned()) as service, trio.open_nursery():
        await just_after_a_probe(service)
        strike = {count // 4: lambda: service.nodes["node-a"].kill(transport)}
        with service.datagrams() as conn:
            seen = await replies(conn, count, pause, lambda number: strike.get(number, lambda: None)())

        assert [b"node-a"] * (count // 4) + [b"node-b"] * (count - count // 4) == seen


async def test_a_stream_loses_nothing_to_a_switch(autojump_clock: MockClock) -> None:
    """Sessions move, datagrams do not wait."""
    async with open_gateway(tuned()) as service:
        strike = {100: lambda: service.switch("node-b")}
        with service.datagrams() as conn:
            seen = await replies(conn, 200, 0.001, lambda number: strike.get(number, lambda: None)())

        assert [b"node-a"] * 100 + [b"node-b"] * 100 == seen


# --- no probes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("threshold", [1, 2])
async def test_without_probes_the_nth_failure_ejects_and_nothing_flaps(
    threshold: int, autojump_clock: MockClock
) -> None:
    """Not probing is no success; the trial after the ejection fails without anybody noticing."""
    config = tuned(*each(probe=ProbeKind.NONE), passive_eject_threshold=threshold)
    async with open_gateway(config) as service:
        before = len(service.state.switches)
        service.nodes["node-a"].kill()
        moved = []
        for number in range(30):
            assert b"node-b:hi" == await service.ask()
            if is_active("node-b")(service.state):
                moved.append(number + 1)
            await trio.sleep(0.05)

        assert list(range(threshold, 31)) == moved
        assert 1 == len(service.state.switches) - before


# --- draining and reloading -----------------------------------------------------------------------


@pytest.mark.parametrize(("timeout", "transport"), [(1.0, None), (1.0, TCP), (0.0, None)])
async def test_a_drained_connection_is_closed_at_its_deadline(
    timeout: float, transport: Transport | None, autojump_clock: MockClock
) -> None:
    """Over both transports or over TCP alone; zero means at once."""
    async with open_gateway(tuned(drain_timeout=timeout)) as service:
        began = await just_after_a_probe(service)
        with await service.connect() as conn:
            await conn.send_all(b"hi")
            await conn.receive_some(100)
            await service.switch("node-b", transport)

            how, ended = await ending(conn)
            assert ("end of stream", exact(timeout)) == (how, exact(ended - began))


async def test_a_new_primary_takes_over_after_its_first_good_probes(autojump_clock: MockClock) -> None:
    """Which follow each other at the fast interval."""
    better = node_at("node-c", "10.0.0.3", 90)
    async with open_gateway(tuned(A, B, better)) as service:
        await service.apply(with_nodes(service.state.config, A, B))
        await just_after_a_probe(service)
        added = now()
        await service.apply(with_nodes(service.state.config, A, B, better))

        assert FAST == await switched(service, added, to="node-c")
