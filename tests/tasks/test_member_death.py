"""One member of a round-robin set falls silent: its flows go, and those of the others feel nothing.

Where only a change of *the* active node starts a drain, a member of a set of several dies unnoticed.
"""

import attrs
import pytest
import trio
from trio.testing import MockClock

from sniffgate.address import Address
from sniffgate.config.schema import NodeConfig, ProbeKind, Strategy
from sniffgate.state.model import Endpoint, Verdict
from sniffgate.testing import VirtualGateway, exchange, open_gateway
from tests.tasks.configs import TCP, UDP, UDP_DOOR, A, B, C, config_for, tcp_config
from tests.tasks.looking import Endings, opened
from tests.tasks.udp_looking import sessions


def asked(node: NodeConfig, **settings: object) -> NodeConfig:
    """The node with probes that silence fails."""
    words = {"probe_payload": b"ping", "probe_expect": b"ping", "priority": 0, **settings}
    return attrs.evolve(node, **words)  # type: ignore[arg-type]  # NodeConfig's own


async def fallen(service: VirtualGateway, endpoint: Endpoint) -> float:
    """Freezes a node and waits for the verdict; the time of it."""
    service.nodes[endpoint.node].freeze()
    with trio.fail_after(60):
        await service.wait_for(lambda state: state.health[endpoint].verdict is Verdict.UNHEALTHY)
    return trio.current_time()


async def test_the_tcp_flows_of_a_member_that_falls_drain(autojump_clock: MockClock) -> None:
    """To the second, though the set stays in use and no other node takes its place."""
    nodes = [asked(node, udp=None, probe=ProbeKind.TCP) for node in (A, B, C)]
    config = tcp_config(*nodes, drain_timeout=2.0, strategy=Strategy.ROUND_ROBIN)
    async with open_gateway(config) as service, trio.open_nursery() as nursery:
        seen = Endings()
        for number, conn in enumerate(await opened(service, 6)):
            nursery.start_soon(seen.watch, f"{'abc'[number % 3]}{number}", conn)
        verdict = await fallen(service, Endpoint("node-b", TCP))
        await trio.sleep(60.0)

        assert {"b1", "b4"} == seen.seen.keys()
        assert [pytest.approx(verdict + 2.0)] * 2 == [at for _, at in seen.seen.values()]
        nursery.cancel_scope.cancel()


async def test_the_udp_sessions_of_a_member_that_falls_move(autojump_clock: MockClock) -> None:
    """At the verdict; the sessions of the healthy members keep their nodes and ports."""
    nodes = [asked(node, tcp=None, probe=ProbeKind.UDP) for node in (A, B, C)]
    config = config_for(*nodes, listeners=(UDP_DOOR,), strategy=Strategy.ROUND_ROBIN, udp_session_timeout=600.0)
    async with open_gateway(config) as service:
        for name in service.nodes:
            service.nodes[name].reply = lambda data: data
        conns = [service.datagrams() for _ in range(6)]
        for conn in conns:
            assert b"hi" == await exchange(conn)
        before = legs(service)
        await fallen(service, Endpoint("node-b", UDP))
        await trio.sleep(0.001)

        after = legs(service)
        assert [2, 2, 2] == [count(before, name) for name in service.nodes]
        assert [3, 0, 3] == [count(after, name) for name in service.nodes]
        assert {each for each in before if before[each][0] != "node-b"} == {
            each for each in before if before[each] == after[each]
        }
        for conn in conns:
            assert b"hi" == await exchange(conn)


def legs(service: VirtualGateway) -> dict[Address, tuple[str, Address]]:
    """By client, its node and the port that it is reached from."""
    return {
        each.client: (each.leg.endpoint.node, each.leg.conn.local) for each in sessions(service) if each.leg is not None
    }


def count(found: dict[Address, tuple[str, Address]], name: str) -> int:
    """How many clients are at a node."""
    return sum(node == name for node, _ in found.values())
