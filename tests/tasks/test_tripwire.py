"""The tripwire: an idle connection whose breaking is the first sign of a death."""

import attrs
import trio
from trio.testing import MockClock

from sniffgate.config.schema import Transport
from sniffgate.state.model import Endpoint, Verdict
from tests.tasks.looking import exact, has, now, syns, when
from tests.tasks.world import A, B, World, config_for, running

WIRED = attrs.evolve(A, tripwire=True)
TCP_A = Endpoint("node-a", Transport.TCP)


async def settle(world: World) -> None:
    """Lets node-a become healthy and the tripwire be set: five seconds are ages."""
    await world.gateway.wait_for(has("node-a", Verdict.HEALTHY))
    await trio.sleep(5.0 - now())


async def test_a_killed_node_is_found_without_traffic_long_before_its_next_probe(autojump_clock: MockClock) -> None:
    """The kernel of a dying process says so at once; only somebody has to listen."""
    async with running(config_for(WIRED, B, probe_interval=10.0)) as world:
        await settle(world)
        world.nodes["node-a"].kill()

        # the reset brings a probe at once, and two more failures come at the fast interval
        assert exact(5.1) == await when(world, has("node-a", Verdict.UNHEALTHY))


async def test_without_a_tripwire_the_same_takes_until_the_next_probe(autojump_clock: MockClock) -> None:
    """What the test above would show if the tripwire did nothing."""
    async with running(config_for(A, B, probe_interval=10.0)) as world:
        await settle(world)
        world.nodes["node-a"].kill()

        assert exact(10.15) <= await when(world, has("node-a", Verdict.UNHEALTHY))


async def test_a_server_that_closes_idle_connections_is_never_ejected(autojump_clock: MockClock) -> None:
    """Closing what says nothing is a server's right."""
    async with running(config_for(WIRED, B)) as world:
        await settle(world)
        for _ in range(30):
            for conn in list(world.nodes["node-a"].conns):
                conn.close()
            await trio.sleep(1.0)

        health = world.gateway.state.health[TCP_A]
        assert (Verdict.HEALTHY, 0, 0) == (health.verdict, health.bad_streak, health.passive_ejects)


async def test_a_server_that_closes_idle_connections_is_not_stormed(autojump_clock: MockClock) -> None:
    """At most one extra probe in a probe interval, and the wire is set again ever more rarely."""
    async with running(config_for(attrs.evolve(WIRED, udp=None), probe_interval=10.0)) as world:
        await settle(world)
        before, began = len(syns(world, "10.0.0.1")), now()

        async def close_at_once() -> None:
            while True:
                for conn in list(world.nodes["node-a"].conns):
                    conn.close()
                await trio.sleep(0.05)

        world.nursery.start_soon(close_at_once)
        await trio.sleep(100.0)

        lasted = now() - began
        # regular probes, one extra each interval, and the wire itself after 1, 2, 4, 8, 16, 32, 60 s
        assert len(syns(world, "10.0.0.1")) - before <= 2 * lasted / 10.0 + 7


async def test_a_node_with_a_tripwire_loses_one_connection_slot_and_no_more(autojump_clock: MockClock) -> None:
    """Servers with a connection limit count it."""
    async with running(config_for(WIRED, B)) as world:
        await settle(world)
        await trio.sleep(60.0)

        assert 1 == len(world.nodes["node-a"].conns)


async def test_a_server_that_speaks_first_keeps_its_tripwire(autojump_clock: MockClock) -> None:
    """What it says is read and discarded."""
    async with running(config_for(WIRED, B)) as world:
        world.nodes["node-a"].banner = b"220 ready" * 100
        await settle(world)
        await trio.sleep(60.0)

        assert 1 == len(world.nodes["node-a"].conns)
        assert Verdict.HEALTHY is world.gateway.state.health[TCP_A].verdict


async def test_an_unhealthy_node_has_no_tripwire(autojump_clock: MockClock) -> None:
    """It is set again once the node is healthy."""
    async with running(config_for(WIRED, B)) as world:
        await settle(world)
        world.nodes["node-a"].kill()
        await world.gateway.wait_for(has("node-a", Verdict.UNHEALTHY))
        world.nodes["node-a"].recover()
        await world.gateway.wait_for(has("node-a", Verdict.HEALTHY))
        await trio.sleep(3.0)

        assert 1 == len(world.nodes["node-a"].conns)


async def test_a_node_without_the_setting_is_left_alone(autojump_clock: MockClock) -> None:
    """Nobody is connected to who did not ask for it."""
    async with running(config_for(A, B)) as world:
        await settle(world)

        assert [] == world.nodes["node-a"].conns


async def test_established_flows_that_the_node_resets_are_the_same_suspicion(autojump_clock: MockClock) -> None:
    """A killed node resets its clients; that is a tripwire that costs nothing."""
    async with running(config_for(A, B, probe_interval=10.0)) as world:
        await settle(world)
        with await world.connect() as conn:
            await conn.send_all(b"hi")
            assert b"node-a:hi" == await conn.receive_some(100)
            world.nodes["node-a"].kill()

            assert exact(5.1) == await when(world, has("node-a", Verdict.UNHEALTHY))


async def test_a_wire_to_a_node_that_is_removed_is_taken_down(autojump_clock: MockClock) -> None:
    """Nothing of a node outlives its configuration but its draining flows."""
    async with running(config_for(WIRED, B)) as world:
        await settle(world)
        await world.gateway.apply(config_for(B))
        await trio.sleep(1.0)

        assert [] == world.nodes["node-a"].conns
