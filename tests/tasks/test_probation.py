"""Ejection by live traffic, and the one flow by which an unprobed node may prove itself."""

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from sniffgate.address import Address
from sniffgate.config.schema import ProbeKind
from sniffgate.state.model import Verdict
from sniffgate.testing import VirtualGateway, ending, exchange, open_gateway
from tests.tasks.configs import GATEWAY, QA, QB, SECOND_DOOR, TCP_DOOR, tcp_config
from tests.tasks.looking import opened, served, tries

EAGER: dict[str, object] = {"passive_eject_threshold": 2, "failure_threshold": 9, "eject_time": 1.0}


async def eject(service: VirtualGateway) -> None:
    """Two refused clients, both served by the standby; node-a serves again afterwards."""
    service.nodes["node-a"].kill()
    for _ in range(2):
        assert b"node-b:hi" == await service.ask()
    await wait_all_tasks_blocked()
    assert Verdict.UNHEALTHY is service.health("node-a").verdict
    service.nodes["node-a"].recover()


@pytest.mark.parametrize("threshold", [1, 2, 3])
async def test_enough_refusals_eject_at_once(threshold: int, autojump_clock: MockClock) -> None:
    """The failing client itself is the news; nobody waits for a probe."""
    config = tcp_config(QA, QB, **{**EAGER, "passive_eject_threshold": threshold})
    async with open_gateway(config) as service:
        service.nodes["node-a"].kill()
        for number in range(1, 6):
            assert b"node-b:hi" == await service.ask()
            await wait_all_tasks_blocked()
            assert (number >= threshold) == (Verdict.UNHEALTHY is service.health("node-a").verdict)

        assert threshold == tries(service, "node-a")
        assert 0.0 == service.health("node-a").since


async def test_failures_apart_by_more_than_the_window_do_not_eject(autojump_clock: MockClock) -> None:
    """A rare failure is no state of a node."""
    config = tcp_config(QA, QB, passive_eject_window=5.0, **EAGER)
    async with open_gateway(config) as service:
        service.nodes["node-a"].kill()
        for _ in range(4):
            await service.ask()
            await trio.sleep(5.0)

        assert Verdict.UNKNOWN is service.health("node-a").verdict


async def test_without_probes_a_node_does_not_rise_by_itself(autojump_clock: MockClock) -> None:
    """Not probing is never a success, however long it lasts."""
    async with open_gateway(tcp_config(QA, QB, **EAGER)) as service:
        await eject(service)
        await trio.sleep(0.999)
        assert Verdict.UNHEALTHY is service.health("node-a").verdict
        await trio.sleep(1000.0)

        assert Verdict.PROBATION is service.health("node-a").verdict
        assert 1.0 == service.health("node-a").since


async def test_exactly_one_flow_goes_on_trial(autojump_clock: MockClock) -> None:
    """Nobody else is risked; a second without a reset is proof, though the node has said nothing."""
    async with open_gateway(tcp_config(QA, QB, **EAGER)) as service:
        await eject(service)
        await trio.sleep(2.0)
        before = served(service)
        conns = [await service.connect() for _ in range(5)]
        await wait_all_tasks_blocked()
        after = served(service)
        assert (1, 4) == (after["node-a"] - before["node-a"], after["node-b"] - before["node-b"])
        assert Verdict.PROBATION is service.health("node-a").verdict

        await trio.sleep(2.0)
        assert Verdict.HEALTHY is service.health("node-a").verdict
        assert 3.0 == service.health("node-a").since
        assert b"node-a:hi" == await service.ask()
        assert b"node-a:hi" == await exchange(conns[0])


async def test_the_first_byte_of_the_node_is_proof(autojump_clock: MockClock) -> None:
    """An answer is worth more than a second."""
    async with open_gateway(tcp_config(QA, QB, **EAGER)) as service:
        await eject(service)
        await trio.sleep(2.0)
        (conn,) = await opened(service)
        await trio.sleep(0.5)
        assert b"node-a:hi" == await exchange(conn)
        await wait_all_tasks_blocked()

        assert (Verdict.HEALTHY, 2.5) == (service.health("node-a").verdict, service.health("node-a").since)


async def test_a_failed_trial_ejects_for_longer_each_time(autojump_clock: MockClock) -> None:
    """And costs its client nothing: the standby has it."""
    async with open_gateway(tcp_config(QA, QB, eject_time_max=5.0, **EAGER)) as service:
        await eject(service)
        service.nodes["node-a"].kill()
        for expected in (2.0, 4.0, 5.0, 5.0):
            until = service.health("node-a").ejected_until
            assert until is not None
            await trio.sleep_until(until)
            await wait_all_tasks_blocked()
            assert Verdict.PROBATION is service.health("node-a").verdict
            assert b"node-b:hi" == await service.ask()
            await wait_all_tasks_blocked()
            assert trio.current_time() + expected == service.health("node-a").ejected_until


async def test_a_reset_within_the_second_fails_the_trial(autojump_clock: MockClock) -> None:
    """A node that accepts and breaks off is not back."""
    async with open_gateway(tcp_config(QA, QB, **EAGER)) as service:
        await eject(service)
        await trio.sleep(2.0)
        (conn,) = await opened(service)
        await trio.sleep(0.9)
        service.nodes["node-a"].reset_clients()

        assert ("reset", 2.9) == await ending(conn)
        await wait_all_tasks_blocked()
        assert (Verdict.UNHEALTHY, 4.9) == (service.health("node-a").verdict, service.health("node-a").ejected_until)


async def test_a_trial_that_hangs_fails_at_the_connect_timeout(autojump_clock: MockClock) -> None:
    """Meanwhile the token is out, and everybody else is with the standby."""
    async with open_gateway(tcp_config(QA, QB, connect_timeout=3.0, **EAGER)) as service:
        await eject(service)
        service.nodes["node-a"].black_hole()
        await trio.sleep(2.0)
        async with trio.open_nursery() as nursery:
            answers = []

            async def ask(pause: float) -> None:
                await trio.sleep(pause)
                answers.append((await service.ask(), trio.current_time()))

            for pause in (0.0, 1.0, 2.0):
                nursery.start_soon(ask, pause)

        assert [(b"node-b:hi", 3.0), (b"node-b:hi", 4.0), (b"node-b:hi", 5.0)] == answers
        assert 7.0 == service.health("node-a").ejected_until


async def test_a_client_that_leaves_gives_the_token_back(autojump_clock: MockClock) -> None:
    """It has proved nothing, and the next one may."""
    async with open_gateway(tcp_config(QA, QB, **EAGER)) as service:
        await eject(service)
        await trio.sleep(2.0)
        (conn,) = await opened(service)
        await trio.sleep(0.5)
        conn.abort()
        await wait_all_tasks_blocked()
        assert Verdict.PROBATION is service.health("node-a").verdict

        assert b"node-a:hi" == await service.ask()
        assert Verdict.HEALTHY is service.health("node-a").verdict


async def test_a_client_that_leaves_while_its_trial_connects_gives_the_token_back(autojump_clock: MockClock) -> None:
    """Established or not, the token must not stay with the dead."""
    async with open_gateway(tcp_config(QA, QB, **EAGER)) as service:
        await eject(service)
        await trio.sleep(2.0)
        service.network.set_latency(0.2, "10.0.0.1")
        conn = await service.connect()
        await trio.sleep(0.1)
        conn.abort()
        await trio.sleep(0.5)
        assert Verdict.PROBATION is service.health("node-a").verdict

        assert b"node-a:hi" == await service.ask()


async def test_two_listeners_share_one_token(autojump_clock: MockClock) -> None:
    """The endpoint is on trial, not the listener."""
    config = tcp_config(QA, QB, listeners=(TCP_DOOR, SECOND_DOOR), **EAGER)
    async with open_gateway(config) as service:
        await eject(service)
        await trio.sleep(2.0)
        before = served(service)
        for listener in (TCP_DOOR, SECOND_DOOR):
            await opened(service, 2, listener.listen.port)
        after = served(service)

        assert (1, 3) == (after["node-a"] - before["node-a"], after["node-b"] - before["node-b"])


async def test_a_probed_node_returns_by_its_probes_after_the_ejection(autojump_clock: MockClock) -> None:
    """Good probes inside the ejection do not shorten it: traffic knew better."""
    nodes = (attrs.evolve(QA, probe=ProbeKind.TCP), QB)
    config = tcp_config(*nodes, **{**EAGER, "eject_time": 4.0})
    async with open_gateway(config) as service:
        await trio.sleep(3.5)
        service.network.refuse(Address("10.0.0.1", 7000))
        for _ in range(2):
            await service.ask()
        service.network.recover(Address("10.0.0.1", 7000))
        await wait_all_tasks_blocked()
        assert 7.5 == service.health("node-a").ejected_until
        await trio.sleep_until(7.499)
        assert Verdict.UNHEALTHY is service.health("node-a").verdict
        await trio.sleep_until(7.501)

        assert (Verdict.HEALTHY, 7.5) == (service.health("node-a").verdict, service.health("node-a").since)
        assert b"node-a:hi" == await service.ask()


async def test_the_flows_before_an_ejection_do_not_end_with_a_flow_on_trial(autojump_clock: MockClock) -> None:
    """A flow on trial has a lease of its own, without the deadline of those that drain; success lifts theirs too."""
    async with open_gateway(tcp_config(QA, QB, drain_timeout=3.5, **EAGER)) as service:
        (old,) = await opened(service)
        service.nodes["node-a"].refuse()
        for _ in range(2):
            await service.ask()
        service.nodes["node-a"].recover()
        await trio.sleep(3.0)
        (on_trial,) = await opened(service)
        assert ("end of stream", 3.5) == await ending(old)
        await trio.sleep(5.0)

        assert b"node-a:hi" == await exchange(on_trial)
        assert GATEWAY == on_trial.peer.host
