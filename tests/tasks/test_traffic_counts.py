"""What is counted of a node's traffic: exact, live, and no longer than it is of use."""

import contextlib

import attrs
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from sniffgate.config.schema import Transport
from sniffgate.errors import PeerReset
from sniffgate.state.model import Endpoint
from sniffgate.tasks.ledger import Traffic
from sniffgate.testing import VirtualGateway, open_gateway
from tests.tasks.configs import TCP, UDP, A, B, config_for, with_globals, with_nodes


def counts(traffic: Traffic) -> tuple[int, int, int, int, int]:
    """Total, failed, active, bytes to the node, bytes from it."""
    return traffic.total, traffic.failed, traffic.active, traffic.bytes_tx, traffic.bytes_rx


def of(service: VirtualGateway, node: str, transport: Transport = TCP) -> tuple[int, int, int, int, int]:
    """The counts of an endpoint."""
    return counts(service.gateway.ledger.traffic.get(Endpoint(node, transport), Traffic()))


async def test_a_tcp_flow_is_counted_while_it_lives_and_after(autojump_clock: MockClock) -> None:
    """Bytes are those of the operator's view: to the node, and from it."""
    async with open_gateway(config_for(A)) as service:
        with await service.connect() as conn:
            await conn.send_all(b"12345")
            assert b"node-a:12345" == await conn.receive_some(100)
            assert (1, 0, 1, 5, 12) == of(service, "node-a")
            await conn.send_all(b"678")
            await conn.receive_some(100)
            assert (1, 0, 1, 8, 22) == of(service, "node-a")
        await wait_all_tasks_blocked()

        assert (1, 0, 0, 8, 22) == of(service, "node-a")
        await service.ask(b"x")
        await wait_all_tasks_blocked()
        assert (2, 0, 0, 9, 30) == of(service, "node-a")


async def test_a_udp_session_is_counted_while_it_lives_and_after(autojump_clock: MockClock) -> None:
    """One session, however many datagrams."""
    async with open_gateway(config_for(A, udp_session_timeout=10.0)) as service:
        with service.datagrams() as client:
            for text in (b"12345", b"", b"678"):
                client.send_nowait(text)
                assert b"node-a:" + text == await client.receive()
            assert (1, 0, 1, 8, 29) == of(service, "node-a", UDP)
            await trio.sleep(10.5)

        assert (1, 0, 0, 8, 29) == of(service, "node-a", UDP)


async def test_failed_connects_are_counted_where_they_failed(autojump_clock: MockClock) -> None:
    """And the flow where it was served."""
    async with open_gateway(config_for(A, B, probe_interval=3600.0)) as service:
        await trio.sleep_until(1.0)
        service.nodes["node-a"].refuse()
        assert b"node-b:hi" == await service.ask()
        await wait_all_tasks_blocked()

        assert (0, 1, 0, 0, 0) == of(service, "node-a")
        assert (1, 0, 0, 2, 9) == of(service, "node-b")


async def test_a_refused_udp_session_is_one_failure_there_and_one_session_here(autojump_clock: MockClock) -> None:
    """Its datagram was sent twice, and answered once."""
    async with open_gateway(config_for(A, B)) as service:
        await trio.sleep_until(1.0)
        service.nodes["node-a"].refuse()
        with service.datagrams() as client:
            client.send_nowait(b"hi")
            assert b"node-b:hi" == await client.receive()

            assert 1 == of(service, "node-a", UDP)[1]
            assert (1, 0, 1, 2, 9) == of(service, "node-b", UDP)


async def test_many_flows_at_once_add_up(autojump_clock: MockClock) -> None:
    """Active counts go up and down by one each, whatever the order and the ending."""
    async with open_gateway(config_for(A)) as service:
        conns = [await service.connect() for _ in range(50)]
        for number, conn in enumerate(conns):
            await conn.send_all(b"x" * number)
        await wait_all_tasks_blocked()
        sent = sum(range(50))
        assert (50, 0, 50, sent) == of(service, "node-a")[:4]
        for conn in conns[:20]:
            conn.close()
        for conn in conns[20:30]:
            conn.abort()
        await wait_all_tasks_blocked()
        assert (50, 0, 20, sent) == of(service, "node-a")[:4]
        service.nodes["node-a"].reset_clients()
        for conn in conns[30:]:
            with contextlib.suppress(PeerReset):
                while await conn.receive_some(1000):
                    pass
            conn.close()
        await wait_all_tasks_blocked()

        assert (50, 0, 0, sent) == of(service, "node-a")[:4]
        assert 0 == service.gateway.ledger.flows(TCP)


async def test_counts_survive_reloads(autojump_clock: MockClock) -> None:
    """A graph that falls to zero at each reload is of no use."""
    config = config_for(A, B)
    async with open_gateway(config) as service:
        await service.ask()
        with await service.connect() as conn:
            await conn.send_all(b"abc")
            await conn.receive_some(100)
            for round_ in range(20):
                changed = with_globals(config, drain_timeout=20.0 + round_)
                await service.apply(with_nodes(changed, attrs.evolve(A, weight=round_), B))

            assert (2, 0, 1, 5, 19) == of(service, "node-a")


async def test_a_removed_node_is_forgotten_when_its_last_flow_has_ended(autojump_clock: MockClock) -> None:
    """Not before, or the drain would be invisible; and not at the next reload only, which may never come."""
    config = config_for(A, B, drain_timeout=5.0)
    gone = Endpoint("node-a", TCP)
    async with open_gateway(config) as service:
        await service.ask()
        with await service.connect() as conn:
            await conn.send_all(b"abc")
            await conn.receive_some(100)
            await service.apply(with_nodes(config, B))
            await trio.sleep(4.9)
            assert (2, 0, 1, 5, 19) == of(service, "node-a")
            await trio.sleep(0.2)

            assert gone not in service.gateway.ledger.traffic
        assert b"node-b:hi" == await service.ask()


async def test_a_removed_node_without_flows_is_forgotten_at_once(autojump_clock: MockClock) -> None:
    """And begins at zero when it comes again."""
    config = config_for(A, B)
    async with open_gateway(config) as service:
        await service.ask()
        await wait_all_tasks_blocked()
        await service.apply(with_nodes(config, B))
        assert Endpoint("node-a", TCP) not in service.gateway.ledger.traffic
        await service.apply(config)
        await trio.sleep_until(1.0)
        await service.ask()
        await wait_all_tasks_blocked()

        assert (1, 0, 0, 2, 9) == of(service, "node-a")


async def test_a_node_back_before_its_last_flow_ended_keeps_its_counts(autojump_clock: MockClock) -> None:
    """The flow that is still there belongs to it."""
    config = config_for(A, B)
    async with open_gateway(config) as service:
        with await service.connect() as conn:
            await conn.send_all(b"abc")
            await conn.receive_some(100)
            await service.apply(with_nodes(config, B))
            await service.apply(config)
        await trio.sleep_until(30.0)

        assert (1, 0, 0, 3, 10) == of(service, "node-a")
