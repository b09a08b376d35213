"""The tripwire: an idle connection whose breaking is the first sign of a death."""

import attrs
import trio
from trio.testing import MockClock

from sniffgate.config.schema import Transport
from sniffgate.state.model import Endpoint, Verdict
from sniffgate.testing import VirtualGateway, exact, has, now, open_gateway, when
from tests.tasks.configs import A, B, config_for
from tests.tasks.looking import syns

WIRED = attrs.evolve(A, tripwire=True)
TCP_A = Endpoint("node-a", Transport.TCP)


async def settle(service: VirtualGateway) -> None:
    """Lets node-a become healthy and the tripwire be set: five seconds are ages."""
    await service.wait_for(has("node-a", Verdict.HEALTHY))
    await trio.sleep(5.0 - now())


async def test_a_killed_node_is_found_without_traffic_long_before_its_next_probe(autojump_clock: MockClock) -> None:
    """The kernel of a dying process says so at once; only somebody has to listen."""
    async with open_gateway(config_for(WIRED, B, probe_interval=10.0)) as service:
        await settle(service)
        service.nodes["node-a"].kill()

        # the reset brings a probe at once, and two more failures come at the fast interval
        assert exact(5.1) == await when(service, has("node-a", Verdict.UNHEALTHY))


async def test_without_a_tripwire_the_same_takes_until_the_next_probe(autojump_clock: MockClock) -> None:
    """What the test above would show if the tripwire did nothing."""
    async with open_gateway(config_for(A, B, probe_interval=10.0)) as service:
        await settle(service)
        service.nodes["node-a"].kill()

        assert exact(10.15) <= await when(service, has("node-a", Verdict.UNHEALTHY))


async def test_a_server_that_closes_idle_connections_is_never_ejected(autojump_clock: MockClock) -> None:
    """Closing what says nothing is a server's right."""
    async with open_gateway(config_for(WIRED, B)) as service:
        await settle(service)
        for _ in range(30):
            for conn in list(service.nodes["node-a"].conns):
                conn.close()
            await trio.sleep(1.0)

        health = service.state.health[TCP_A]
        assert (Verdict.HEALTHY, 0, 0) == (health.verdict, health.bad_streak, health.passive_ejects)


async def test_a_server_that_closes_idle_connections_is_not_stormed(autojump_clock: MockClock) -> None:
    """At most one extra probe in a probe interval, and the wire is set again ever more rarely."""
    async with open_gateway(config_for(attrs.evolve(WIRED, udp=None), probe_interval=10.0)) as service:
        await settle(service)
        before, began = len(syns(service, "10.0.0.1")), now()

        async def close_at_once() -> None:
            while True:
                for conn in list(service.nodes["node-a"].conns):
                    conn.close()
                await trio.sleep(0.05)

        service.nursery.start_soon(close_at_once)
        await trio.sleep(100.0)

        lasted = now() - began
        # regular probes, one extra each interval, and the wire itself after 1, 2, 4, 8, 16, 32, 60 s
        assert len(syns(service, "10.0.0.1")) - before <= 2 * lasted / 10.0 + 7


async def test_a_node_with_a_tripwire_loses_one_connection_slot_and_no_more(autojump_clock: MockClock) -> None:
    """Servers with a connection limit count it."""
    async with open_gateway(config_for(WIRED, B)) as service:
        await settle(service)
        await trio.sleep(60.0)

        assert 1 == len(service.nodes["node-a"].conns)


async def test_a_server_that_speaks_first_keeps_its_tripwire(autojump_clock: MockClock) -> None:
    """What it says is read and discarded."""
    async with open_gateway(config_for(WIRED, B)) as service:
        service.nodes["node-a"].banner = b"220 ready" * 100
        await settle(service)
        await trio.sleep(60.0)

        assert 1 == len(service.nodes["node-a"].conns)
        assert Verdict.HEALTHY is service.state.health[TCP_A].verdict


async def test_an_unhealthy_node_has_no_tripwire(autojump_clock: MockClock) -> None:
    """It is set again once the node is healthy."""
    async with open_gateway(config_for(WIRED, B)) as service:
        await settle(service)
        service.nodes["node-a"].kill()
        await service.wait_for(has("node-a", Verdict.UNHEALTHY))
        service.nodes["node-a"].recover()
        await service.wait_for(has("node-a", Verdict.HEALTHY))
        await trio.sleep(3.0)

        assert 1 == len(service.nodes["node-a"].conns)


async def test_a_node_without_the_setting_is_left_alone(autojump_clock: MockClock) -> None:
    """Nobody is connected to who did not ask for it."""
    async with open_gateway(config_for(A, B)) as service:
        await settle(service)

        assert [] == service.nodes["node-a"].conns


async def test_established_flows_that_the_node_resets_are_the_same_suspicion(autojump_clock: MockClock) -> None:
    """A killed node resets its clients; that is a tripwire that costs nothing."""
    async with open_gateway(config_for(A, B, probe_interval=10.0)) as service:
        await settle(service)
        with await service.connect() as conn:
            await conn.send_all(b"hi")
            assert b"node-a:hi" == await conn.receive_some(100)
            service.nodes["node-a"].kill()

            assert exact(5.1) == await when(service, has("node-a", Verdict.UNHEALTHY))


async def test_a_wire_to_a_node_that_is_removed_is_taken_down(autojump_clock: MockClock) -> None:
    """Nothing of a node outlives its configuration but its draining flows."""
    async with open_gateway(config_for(WIRED, B)) as service:
        await settle(service)
        await service.apply(config_for(B))
        await trio.sleep(1.0)

        assert [] == service.nodes["node-a"].conns
