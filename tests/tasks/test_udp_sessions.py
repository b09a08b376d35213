"""UDP sessions through a running gateway, while nothing fails."""

import attrs
import pytest
import trio
from trio.testing import MockClock

from sniffgate.address import Address
from sniffgate.config.schema import FlowLogMode, ListenerConfig, Strategy
from sniffgate.testing import VirtualNetwork, exchange, open_gateway, silence
from sniffgate.testing.embedding import CLIENT
from tests.tasks.configs import GATEWAY, UDP, UDP_PORT, A, B, config_for, node_at
from tests.tasks.udp_looking import got, ports, sessions, upstream_sockets

SIZES = (0, 1, 512, 519, 520, 521, 1183, 1184, 1472, 1473, 2048, 8192, 9000, 16384, 65506, 65507)
NAMED = attrs.evolve(A, udp=Address("a.test", 7000))


def udp_door(host: str) -> ListenerConfig:
    """A UDP listener on `host`."""
    return ListenerConfig(name="udp", protocol=UDP, listen=Address(host, UDP_PORT))


async def test_a_client_is_answered_through_one_port_kept_for_its_life(autojump_clock: MockClock) -> None:
    """A node knows a client by its source address: a port that changes is another client to it."""
    async with open_gateway(config_for(A, B)) as service:
        with service.datagrams() as conn:
            for number in range(1000):
                assert b"node-a:%d" % number == await exchange(conn, b"%d" % number)

        assert 1 == len(ports(service, "node-a"))
        assert [] == got(service, "node-b")


async def test_each_port_of_a_client_is_a_session(autojump_clock: MockClock) -> None:
    """Two sockets of one machine are two clients."""
    async with open_gateway(config_for(A)) as service:
        with service.datagrams() as one, service.datagrams() as two:
            await exchange(one, b"1")
            await exchange(two, b"2")
            await exchange(one, b"3")

        assert 2 == len(ports(service, "node-a"))
        assert 2 == len(sessions(service))


async def test_a_reply_leaves_from_the_address_the_client_wrote_to(autojump_clock: MockClock) -> None:
    """On a wildcard address one client may write to two of ours; a connected socket hears only the one it wrote to."""
    network = VirtualNetwork()
    network.host(GATEWAY, "10.0.0.253")
    async with open_gateway(config_for(A, listeners=(udp_door(""),)), network=network, host=GATEWAY) as service:
        with await service.client.listen_udp(Address(CLIENT, 5555)) as port:
            for front in (GATEWAY, "10.0.0.253", GATEWAY):
                port.send_nowait(b"hi", Address(front, UDP_PORT), Address(CLIENT, 5555))
                assert Address(front, UDP_PORT) == (await port.receive()).client

        assert 2 == len(sessions(service))
        assert 2 == len(ports(service, "node-a"))


async def test_a_session_ends_exactly_its_timeout_after_the_last_datagram(autojump_clock: MockClock) -> None:
    """Neither early, or slow reporters break, nor late, or sockets run out."""
    config = config_for(A, udp_session_timeout=2.0, flow_log=FlowLogMode.ALL)
    async with open_gateway(config) as service:
        service.nodes["node-a"].reply = lambda data: None
        with service.datagrams() as conn:
            conn.send_nowait(b"1")
            await trio.sleep(1.25)
            conn.send_nowait(b"2")
            await trio.sleep(1.999)
            assert 1 == upstream_sockets(service)
            await trio.sleep(0.002)

        assert 0 == upstream_sockets(service)
        assert 1 == len(service.flow_log)
        assert service.flow_log[0].endswith("up=2 down=0 ms=3250.0 reason=idle")


async def test_replies_keep_a_session_alive(autojump_clock: MockClock) -> None:
    """A client that only listens is a client too."""
    config = config_for(NAMED, udp_session_timeout=2.0, flow_log=FlowLogMode.ALL)
    network = VirtualNetwork()
    network.names["a.test"] = ("10.0.1.1",)
    with await network.host("10.0.1.1").listen_udp(Address("10.0.1.1", 7000)) as port:
        async with open_gateway(config, network=network) as service:
            with service.datagrams() as conn:
                conn.send_nowait(b"subscribe")
                asked = await port.receive()
                for number in range(3):
                    await trio.sleep(1.5)
                    port.send_nowait(b"%d" % number, asked.client, asked.local)
                    with trio.fail_after(1):
                        assert b"%d" % number == await conn.receive()
                await trio.sleep(2.001)

            assert service.flow_log[0].endswith("up=9 down=3 ms=6500.0 reason=idle")


async def test_a_slow_client_keeps_its_port(autojump_clock: MockClock) -> None:
    """A datagram every 1.5 s with a timeout of 2 s is one session for ever."""
    async with open_gateway(config_for(A, udp_session_timeout=2.0)) as service:
        with service.datagrams() as conn:
            for _ in range(20):
                await exchange(conn)
                await trio.sleep(1.5)

        assert 1 == len(ports(service, "node-a"))


async def test_a_client_that_was_idle_for_too_long_is_a_new_one(autojump_clock: MockClock) -> None:
    """What ended does not come back: a new session chooses anew."""
    async with open_gateway(config_for(A, udp_session_timeout=2.0)) as service:
        with service.datagrams() as conn:
            await exchange(conn)
            await trio.sleep(2.001)
            await exchange(conn)

        assert 2 == len(ports(service, "node-a"))


@pytest.mark.parametrize("size", SIZES)
async def test_datagrams_of_every_size_pass_whole_both_ways(size: int, autojump_clock: MockClock) -> None:
    """Never cut, never split, and the next one is fine."""
    payload = bytes((number * 7 + 1) % 251 for number in range(size))
    async with open_gateway(config_for(A)) as service:
        service.nodes["node-a"].reply = lambda data: data
        with service.datagrams() as conn:
            assert payload == await exchange(conn, payload)
            assert b"next" == await exchange(conn, b"next")

        assert [payload, b"next"] == got(service, "node-a")


async def test_an_answer_that_comes_in_pieces_keeps_its_order(autojump_clock: MockClock) -> None:
    """UDP promises no order, but the gateway is no reason to lose it."""
    async with open_gateway(config_for(A)) as service:
        with service.datagrams() as conn:
            await exchange(conn, b"first")
            for number in range(200):
                conn.send_nowait(b"%d" % number)
            answers = [await conn.receive() for _ in range(200)]

        assert [b"node-a:%d" % number for number in range(200)] == answers


async def test_a_burst_from_a_new_port_arrives_whole_and_in_order(autojump_clock: MockClock) -> None:
    """Datagrams that come while the session is being set up must neither vanish nor mix."""
    burst = [bytes([number + 1]) * (number * 97 + 1) for number in range(10)]
    async with open_gateway(config_for(A)) as service:
        with service.datagrams() as conn:
            for payload in burst:
                conn.send_nowait(payload)
            await trio.sleep(0.001)

        assert burst == got(service, "node-a")
        assert 1 == len(ports(service, "node-a"))


async def test_many_new_clients_at_once_are_not_mixed_up(autojump_clock: MockClock) -> None:
    """Each has its own port, and each its own datagrams."""
    async with open_gateway(config_for(A)) as service:
        conns = [service.datagrams() for _ in range(100)]
        for round_ in range(2):
            for number, conn in enumerate(conns):
                conn.send_nowait(b"%d/%d" % (number, round_))
        for number, conn in enumerate(conns):
            with trio.fail_after(1):
                assert [b"node-a:%d/0" % number, b"node-a:%d/1" % number] == [await conn.receive() for _ in range(2)]

        assert 100 == len(ports(service, "node-a"))


async def test_a_burst_waits_for_the_node_s_name(autojump_clock: MockClock) -> None:
    """The look-up takes its time; what came meanwhile goes out at its end, in order, from one port."""
    network = VirtualNetwork()
    network.names["a.test"] = ("10.0.1.1",)
    network.names.delay = 0.3
    burst = [b"%d" % number for number in range(10)]
    with await network.host("10.0.1.1").listen_udp(Address("10.0.1.1", 7000)) as port:
        async with open_gateway(config_for(NAMED), network=network) as service:
            with service.datagrams() as conn:
                for payload in burst:
                    conn.send_nowait(payload)
                received = [await port.receive() for _ in burst]

            assert 0.3 == trio.current_time()
            assert burst == [each.data for each in received]
            assert 1 == len({each.client for each in received})


async def test_what_waits_for_a_name_is_bounded_and_the_rest_counted(autojump_clock: MockClock) -> None:
    """Sixty-four datagrams wait; more are dropped, the newest first."""
    network = VirtualNetwork()
    network.names["a.test"] = ("10.0.1.1",)
    network.names.delay = 0.3
    with await network.host("10.0.1.1").listen_udp(Address("10.0.1.1", 7000)) as port:
        async with open_gateway(config_for(NAMED), network=network) as service:
            with service.datagrams() as conn:
                for number in range(100):
                    conn.send_nowait(b"%d" % number)
                assert [b"%d" % number for number in range(64)] == [(await port.receive()).data for _ in range(64)]

            assert {"waiting": 36} == service.gateway.ledger.dropped_datagrams


async def test_the_first_datagrams_go_out_however_short_the_idle_time(autojump_clock: MockClock) -> None:
    """Waiting for a name is not the client's idleness."""
    network = VirtualNetwork()
    network.names["a.test"] = ("10.0.1.1",)
    network.names.delay = 0.3
    with await network.host("10.0.1.1").listen_udp(Address("10.0.1.1", 7000)) as port:
        async with open_gateway(config_for(NAMED, udp_session_timeout=0.05), network=network) as service:
            with service.datagrams() as conn:
                conn.send_nowait(b"first")
                with trio.fail_after(1):
                    assert b"first" == (await port.receive()).data
            await trio.sleep(0.051)

            assert 0 == len(sessions(service))


async def test_the_idle_time_counts_from_when_the_datagrams_went_out(autojump_clock: MockClock) -> None:
    """The node has all of it to answer in."""
    network = VirtualNetwork()
    network.names["a.test"] = ("10.0.1.1",)
    network.names.delay = 0.3
    config = config_for(NAMED, udp_session_timeout=0.5, flow_log=FlowLogMode.ALL)
    with await network.host("10.0.1.1").listen_udp(Address("10.0.1.1", 7000)):
        async with open_gateway(config, network=network) as service:
            with service.datagrams() as conn:
                conn.send_nowait(b"first")
                await trio.sleep(1.0)

            assert service.flow_log[0].endswith("up=5 down=0 ms=500.0 reason=idle")


async def test_an_ipv6_client_is_served_by_an_ipv4_node(autojump_clock: MockClock) -> None:
    """The socket to the node has nothing to do with the client's family."""
    network = VirtualNetwork()
    network.host(GATEWAY, "fd00::254")
    async with open_gateway(config_for(A, listeners=(udp_door("fd00::254"),)), network=network):
        with network.host("fd00::9").connect_udp(Address("fd00::254", UDP_PORT)) as conn:
            assert b"node-a:hi" == await exchange(conn)


async def test_an_ipv4_client_is_served_by_an_ipv6_node(autojump_clock: MockClock) -> None:
    """And the other way round."""
    network = VirtualNetwork()
    network.host(GATEWAY, "fd00::254")
    async with open_gateway(config_for(node_at("node-a", "fd00::1")), network=network) as service:
        with service.datagrams() as conn:
            assert b"node-a:hi" == await exchange(conn)


async def test_equal_nodes_share_sessions_evenly_even_when_they_begin_together(autojump_clock: MockClock) -> None:
    """A session that is being set up counts already, or a hundred at once would all go to one node."""
    async with open_gateway(config_for(A, attrs.evolve(B, priority=A.priority))) as service:
        conns = [service.datagrams() for _ in range(100)]
        for conn in conns:
            conn.send_nowait(b"hi")
        for conn in conns:
            await conn.receive()

        assert [50, 50] == [len(ports(service, name)) for name in ("node-a", "node-b")]


async def test_round_robin_balances_sessions_and_not_datagrams(autojump_clock: MockClock) -> None:
    """The unit is the client's socket."""
    async with open_gateway(config_for(A, B, strategy=Strategy.ROUND_ROBIN)) as service:
        with service.datagrams() as one, service.datagrams() as two, service.datagrams() as three:
            assert [b"node-a:hi"] * 3 == [await exchange(one) for _ in range(3)]
            assert [b"node-b:hi"] * 3 == [await exchange(two) for _ in range(3)]
            assert [b"node-a:hi"] * 3 == [await exchange(three) for _ in range(3)]


async def test_a_reply_after_the_session_s_end_reaches_nobody(autojump_clock: MockClock) -> None:
    """Its socket is closed: the node is told by a refusal, the client hears nothing, and nothing crashes."""
    network = VirtualNetwork()
    network.set_latency(1.0, "10.0.0.1")
    async with open_gateway(config_for(A, udp_session_timeout=1.5), network=network) as service:
        with service.datagrams() as conn:
            conn.send_nowait(b"hi")  # there at 1.0, answered at 2.0
            assert await silence(conn, 5.0)

        assert [b"hi"] == got(service, "node-a")
