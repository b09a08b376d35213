"""Incidents on virtual time: how long the outage was, and who felt it."""

import attrs
import trio
from trio.testing import MockClock

from sniffgate.config.schema import ProbeKind, Transport
from sniffgate.state.model import Verdict
from sniffgate.tasks.incidents import Incident, in_words
from sniffgate.testing import VirtualGateway, exact, has, open_gateway
from tests.tasks.configs import A, B, config_for

TCP = Transport.TCP


def of(service: VirtualGateway, transport: Transport = TCP) -> list[Incident]:
    """The incidents of the default pool's route."""
    return [each for each in service.gateway.services.incidents if each.route.transport is transport]


async def test_a_killed_node_with_one_client_is_one_record(autojump_clock: MockClock) -> None:
    """First evidence, verdict, switch, first good byte, drain end, and the client that was slow: all to the moment."""
    async with open_gateway(config_for(A, B, probe_interval=10.0, drain_timeout=2.0)) as service:
        await service.wait_for(has("node-a", Verdict.HEALTHY))
        await trio.sleep_until(5.0)
        service.nodes["node-a"].kill()
        assert b"node-b:hi" == await service.ask()
        await service.wait_for(has("node-a", Verdict.UNHEALTHY))
        assert b"node-b:hi" == await service.ask()

        (incident,) = of(service)
        assert ("node-a", "traffic: refused", ("node-b",)) == (incident.node, incident.evidence, incident.after)
        assert 5.0 == incident.evidence_at
        assert exact(5.05) == exact(incident.verdict_at or 0)
        assert incident.verdict_at == incident.switched_at == incident.good_at == incident.drained_at
        assert (1, 0) == (incident.slow, incident.lost)
        assert exact(0.05) == exact(incident.outage or 0)
        assert incident.is_over


async def test_doubt_that_passes_leaves_no_record(autojump_clock: MockClock) -> None:
    """One refused connect of a node that is well is no outage."""
    async with open_gateway(config_for(A, B, passive_eject_window=1.0)) as service:
        await service.wait_for(has("node-a", Verdict.HEALTHY))
        service.nodes["node-a"].refuse()
        await service.ask()
        service.nodes["node-a"].recover()
        await trio.sleep(30.0)

        assert [] == of(service)


async def test_an_operators_switch_is_no_incident(autojump_clock: MockClock) -> None:
    """Nobody failed."""
    async with open_gateway(config_for(A, B)) as service:
        await service.switch("node-b")
        assert b"node-b:hi" == await service.ask()

        assert [] == of(service)


async def test_the_flows_that_the_dead_node_broke_off_are_lost(autojump_clock: MockClock) -> None:
    """They are what users complain about."""
    async with open_gateway(config_for(A, B)) as service:
        await service.wait_for(has("node-a", Verdict.HEALTHY))
        conns = [await service.connect() for _ in range(3)]
        for conn in conns:
            await conn.send_all(b"hi")
            await conn.receive_some(100)
        service.nodes["node-a"].kill()
        await service.wait_for(has("node-a", Verdict.UNHEALTHY))
        await service.ask()

        (incident,) = of(service)
        assert (0, 3) == (incident.slow, incident.lost)
        assert "connection broken by the node" == incident.evidence


async def test_clients_without_any_node_are_lost(autojump_clock: MockClock) -> None:
    """The outage lasts until a node answers again."""
    unprobed = attrs.evolve(A, probe=ProbeKind.NONE)
    async with open_gateway(config_for(unprobed, passive_eject_threshold=1, fail_open=False)) as service:
        service.nodes["node-a"].kill()
        for _ in range(2):
            with await service.connect() as conn:
                await trio.sleep(0.1)
                assert conn.is_broken()

        (incident,) = of(service)
        assert (2, None, ()) == (incident.lost, incident.good_at, incident.after)


async def test_the_drain_of_the_failed_node_ends_the_record(autojump_clock: MockClock) -> None:
    """A frozen node keeps its flows until their deadline."""
    async with open_gateway(config_for(A, B, drain_timeout=4.0)) as service:
        await service.wait_for(has("node-a", Verdict.HEALTHY))
        with await service.connect() as conn:
            await conn.send_all(b"hi")
            await conn.receive_some(100)
            service.nodes["node-a"].black_hole()
            await service.wait_for(has("node-a", Verdict.UNHEALTHY))
            await service.ask()
            (incident,) = of(service)
            switched_at = incident.switched_at
            assert not incident.is_over
            await trio.sleep(10.0)

        assert switched_at is not None
        assert incident.drained_at is not None
        assert exact(4.0) == exact(incident.drained_at - switched_at)


async def test_udp_has_records_of_its_own(autojump_clock: MockClock) -> None:
    """A follower's incident is its sibling's evidence."""
    async with open_gateway(config_for(A, B)) as service:
        await service.wait_for(has("node-a", Verdict.HEALTHY))
        with service.datagrams() as port:
            port.send_nowait(b"1")
            assert b"node-a:1" == await port.receive()
            service.nodes["node-a"].kill()
            port.send_nowait(b"2")
            assert b"node-b:2" == await port.receive()
            await service.wait_for(has("node-a", Verdict.UNHEALTHY, Transport.UDP))
            port.send_nowait(b"3")
            assert b"node-b:3" == await port.receive()

        (incident,) = of(service, Transport.UDP)
        assert (1, 0) == (incident.slow, incident.lost)


async def test_the_record_is_one_line_for_people(autojump_clock: MockClock) -> None:
    """What goes to the log."""
    async with open_gateway(config_for(A, B, probe_interval=10.0)) as service:
        await service.wait_for(has("node-a", Verdict.HEALTHY))
        await trio.sleep_until(5.0)
        service.nodes["node-a"].kill()
        await service.ask()
        await service.wait_for(has("node-a", Verdict.UNHEALTHY))
        await service.ask()

        (incident,) = of(service)
        assert (
            "incident: default/tcp node-a: traffic: refused, unhealthy after 50 ms, switched to node-b after 50 ms, "
            "first good byte after 50 ms, drained after 50 ms, 1 slow, 0 lost"
        ) == in_words(incident)
