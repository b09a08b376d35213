"""UDP sessions at their limits: room, local ports, and the end of the gateway."""

import attrs
import pytest
import trio
from trio.testing import MockClock

from sniffgate.config.schema import FlowLogMode, ProbeKind
from sniffgate.net.relay import EndReason
from sniffgate.state.model import Endpoint, Verdict
from sniffgate.testing import VirtualGateway, VirtualNetwork, exchange, open_gateway, silence
from tests.tasks.configs import GATEWAY, UDP, UDP_DOOR, A, B, config_for, with_globals
from tests.tasks.udp_looking import Failures, got, in_progress, ports, sessions, udp_listener, upstream_sockets

QUIET = attrs.evolve(A, probe=ProbeKind.NONE, tcp=None)
STANDBY = attrs.evolve(B, probe=ProbeKind.NONE, tcp=None)


async def test_at_the_limit_the_longest_idle_session_makes_room(autojump_clock: MockClock) -> None:
    """A new client is served, and of the old ones only the one that matters least is not."""
    async with open_gateway(config_for(QUIET, listeners=(UDP_DOOR,), udp_max_sessions=3)) as service:
        conns = [service.datagrams() for _ in range(4)]
        for conn in conns[:3]:
            await exchange(conn)
            await trio.sleep(0.1)
        await exchange(conns[0])  # now the second one is idle for longest
        await exchange(conns[3])
        for number in (0, 2, 3):
            await exchange(conns[number])

        assert 4 == len(ports(service, "node-a"))
        assert {conns[0].local, conns[2].local, conns[3].local} == {each.client for each in sessions(service)}
        assert 1 == service.gateway.ledger.endings[EndReason.EVICTED]
        assert 3 == upstream_sockets(service)


async def test_a_smaller_limit_holds_from_the_next_client_on(autojump_clock: MockClock) -> None:
    """At most so many means at most so many, also after a reload."""
    config = config_for(QUIET, listeners=(UDP_DOOR,), udp_max_sessions=10)
    async with open_gateway(config) as service:
        for _ in range(10):
            await exchange(service.datagrams())
        await service.apply(with_globals(config, udp_max_sessions=4))
        await exchange(service.datagrams())

        assert 4 == len(sessions(service)) == udp_listener(service)._slots.held


async def test_where_tcp_holds_every_slot_new_clients_are_dropped_and_counted(autojump_clock: MockClock) -> None:
    """Descriptors are shared: nothing of UDP's own could make room."""
    async with open_gateway(config_for(A), max_flows=1) as service:
        with await service.connect() as flow:
            await flow.send_all(b"hi")
            await flow.receive_some(100)
            with service.datagrams() as conn:
                conn.send_nowait(b"lost")
                assert await silence(conn)
        await trio.sleep(0.001)

        assert {"no_slot": 1} == service.gateway.ledger.dropped_datagrams
        assert b"node-a:hi" == await exchange(service.datagrams())


async def all_at_once(service: VirtualGateway, clients: int) -> None:
    """So many new clients ask once and are answered."""
    conns = [service.datagrams() for _ in range(clients)]
    for conn in conns:
        conn.send_nowait(b"hi")
    with trio.fail_after(1):
        for conn in conns:
            with conn:
                await conn.receive()


async def test_every_socket_is_given_back(autojump_clock: MockClock) -> None:
    """DNS-like traffic opens a port per question: none may stay."""
    config = config_for(QUIET, listeners=(UDP_DOOR,), udp_session_timeout=2.0)
    async with open_gateway(config) as service:
        steady = service.datagrams()
        for _ in range(10):
            await all_at_once(service, 100)
            await exchange(steady)
            await trio.sleep(0.01)
        assert 1001 == upstream_sockets(service)
        await exchange(steady)
        await trio.sleep(1.999)
        await exchange(steady)
        await trio.sleep(0.002)

        assert 1 == upstream_sockets(service) == in_progress(service) == udp_listener(service)._slots.held
        await trio.sleep(2.0)
        assert 0 == upstream_sockets(service) == in_progress(service) == udp_listener(service)._slots.held
        assert 1001 == len(ports(service, "node-a"))


async def test_a_flood_of_new_ports_leaves_a_steady_client_its_own(autojump_clock: MockClock) -> None:
    """A flood evicts itself: whoever goes on talking is never the longest idle."""
    config = config_for(QUIET, listeners=(UDP_DOOR,), udp_max_sessions=100)
    async with open_gateway(config) as service:
        steady = service.datagrams()
        for _ in range(40):
            await exchange(steady, b"steady")
            await all_at_once(service, 50)
        received = service.nodes["node-a"].received

        assert 1 == len({each.peer for each in received if each.data == b"steady"})
        assert 100 == len(sessions(service)) == upstream_sockets(service)


async def test_without_a_local_port_a_client_is_refused_and_nobody_is_blamed(
    caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    """Our own shortage: the others go on, no node is suspected, and room makes it well again."""
    network, failures = VirtualNetwork(ports=range(40000, 40004)), Failures()
    config = config_for(QUIET, STANDBY, listeners=(UDP_DOOR,), udp_session_timeout=5.0, flow_log=FlowLogMode.ALL)
    async with open_gateway(config, network=network, observers=(failures,)) as service:
        conns = [network.host(f"10.0.1.{number}").connect_udp(UDP_DOOR.listen) for number in range(8)]
        for conn in conns[:4]:
            await exchange(conn)
        for conn in conns[4:]:
            conn.send_nowait(b"lost")
        for conn in conns[4:]:
            assert await silence(conn)

        assert 4 == service.gateway.ledger.shortages["connect"]
        assert {"local_shortage": 4} == service.gateway.ledger.dropped_datagrams
        assert 4 == service.gateway.ledger.endings[EndReason.LOCAL_SHORTAGE]
        assert 1 == sum("cannot open a UDP session" in line for line in caplog.messages)  # not one for each client
        assert [] == failures.nodes
        assert Verdict.UNHEALTHY is not service.state.health[Endpoint("node-a", UDP)].verdict
        assert 4 == len(sessions(service)) == udp_listener(service)._slots.held == in_progress(service)
        for conn in conns[:4]:
            await exchange(conn)

        await trio.sleep(5.001)
        assert b"node-a:hi" == await exchange(conns[4])


# --- the end -----------------------------------------------------------------------------------------------


async def test_at_the_end_open_questions_are_answered_and_the_port_is_free(autojump_clock: MockClock) -> None:
    """A session that waits for a reply gets it; the others end at once; then nothing is left."""
    network = VirtualNetwork()
    network.set_latency(0.2, "10.0.0.1")
    config = config_for(QUIET, listeners=(UDP_DOOR,), flow_log=FlowLogMode.ALL)
    async with open_gateway(config, network=network) as service:
        with service.datagrams() as quiet, service.datagrams() as asking:
            await exchange(quiet)
            asking.send_nowait(b"last")
            await trio.sleep(0.1)
            service.gateway.stop()
            await trio.sleep(0.001)
            assert [asking.local] == [each.client for each in sessions(service)]
            with trio.fail_after(1):
                assert b"node-a:last" == await asking.receive()
            await trio.sleep(0.001)

            assert [] == network.host(GATEWAY).open_sockets()
            assert 2 == len(service.flow_log)
            assert all("reason=shutdown" in line for line in service.flow_log)


async def test_at_the_end_a_question_that_nobody_answers_is_waited_for_no_longer_than_a_probe(
    autojump_clock: MockClock,
) -> None:
    """Syslog never answers: a stop must not take the whole grace for that."""
    config = config_for(QUIET, listeners=(UDP_DOOR,), shutdown_grace=5.0, probe_timeout=0.8)
    async with open_gateway(config) as service:
        service.nodes["node-a"].reply = lambda data: None
        with service.datagrams() as conn:
            conn.send_nowait(b"log line")
            await trio.sleep(0.1)
            service.gateway.stop()
            await trio.sleep(0.799)
            assert 2 == len(network_sockets(service.network))
            await trio.sleep(0.002)

        assert [] == network_sockets(service.network)


def network_sockets(network: VirtualNetwork) -> list[object]:
    """Every open socket of the gateway."""
    return list(network.host(GATEWAY).open_sockets())


async def test_a_question_refused_at_the_end_goes_to_the_standby_still(autojump_clock: MockClock) -> None:
    """Stopping is no reason to lose what was asked before."""
    network = VirtualNetwork()
    network.set_latency(0.1, "10.0.0.1")
    async with open_gateway(config_for(QUIET, STANDBY, listeners=(UDP_DOOR,)), network=network) as service:
        with service.datagrams() as conn:
            conn.send_nowait(b"last")
            await trio.sleep(0.05)
            service.nodes["node-a"].kill()
            service.gateway.stop()
            with trio.fail_after(1):
                assert b"node-b:last" == await conn.receive()
            await trio.sleep(0.001)

        assert [] == network_sockets(network)


async def test_an_answered_session_that_moved_does_not_hold_the_end_up(autojump_clock: MockClock) -> None:
    """Neither itself nor the socket it has left."""
    async with open_gateway(config_for(QUIET, STANDBY, listeners=(UDP_DOOR,))) as service:
        with service.datagrams() as conn:
            await exchange(conn)
            await service.switch("node-b")
            await trio.sleep(0.1)
            assert 2 == upstream_sockets(service)
            service.gateway.stop()
            await trio.sleep(0.001)

        assert [] == network_sockets(service.network)


async def test_the_old_socket_of_a_session_that_is_over_does_not_hold_the_end_up(autojump_clock: MockClock) -> None:
    """It moved, found nobody, and ended; a late reply was still possible."""
    async with open_gateway(config_for(QUIET, listeners=(UDP_DOOR,), fail_open=False)) as service:
        with service.datagrams() as conn:
            await exchange(conn)
            await service.disable("node-a")
            await trio.sleep(0.1)
            assert [] == sessions(service)
            assert 1 == upstream_sockets(service)
            service.gateway.stop()
            await trio.sleep(0.001)

        assert [] == network_sockets(service.network)


@pytest.mark.parametrize("moment", [0.0, 0.1, 0.25])
async def test_cancelling_leaves_nothing(moment: float, autojump_clock: MockClock) -> None:
    """Whatever its sessions were doing."""
    network = VirtualNetwork()
    network.set_latency(0.2, "10.0.0.1")
    async with trio.open_nursery() as nursery:

        async def house() -> None:
            async with open_gateway(config_for(A, B), network=network) as service:
                for _ in range(5):
                    service.datagrams().send_nowait(b"hi")
                await trio.sleep_forever()

        nursery.start_soon(house)
        await trio.sleep(moment)
        nursery.cancel_scope.cancel()

    assert [] == network_sockets(network)


async def test_replies_while_the_listener_s_socket_is_away_are_dropped_and_counted(autojump_clock: MockClock) -> None:
    """A reload that binds in its place may fail: the sessions have to live through it."""
    network = VirtualNetwork()
    network.set_latency(0.2, "10.0.0.1")
    async with open_gateway(config_for(QUIET, listeners=(UDP_DOOR,)), network=network) as service:
        with service.datagrams() as conn:
            conn.send_nowait(b"1")
            await trio.sleep(0.1)
            listener = udp_listener(service)
            await listener.suspend()
            await trio.sleep(0.5)
            assert {"reply": 1} == service.gateway.ledger.dropped_datagrams

            listener.resume(await network.host(GATEWAY).listen_udp(UDP_DOOR.listen))
            await trio.sleep(0.001)
            assert b"node-a:2" == await exchange(conn, b"2")
            assert 1 == len(ports(service, "node-a"))


async def test_a_reply_that_fits_no_datagram_to_the_client_is_dropped_and_counted(autojump_clock: MockClock) -> None:
    """IPv6 nodes may send twenty bytes more than an IPv4 client can be told: whole or not at all."""
    network = VirtualNetwork()
    network.host(GATEWAY, "fd00::254")
    six = attrs.evolve(QUIET, udp=attrs.evolve(UDP_DOOR.listen, host="fd00::1", port=7000))
    async with open_gateway(config_for(six, listeners=(UDP_DOOR,)), network=network) as service:
        service.nodes["node-a"].reply = lambda data: b"x" * 65527 if data == b"long" else data
        with service.datagrams() as conn:
            conn.send_nowait(b"long")
            assert b"next" == await exchange(conn, b"next")

        assert {"reply": 1} == service.gateway.ledger.dropped_datagrams
        assert [b"long", b"next"] == got(service, "node-a")
