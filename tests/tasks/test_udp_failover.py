"""UDP sessions whose node refuses: what was refused goes to the next one, and who is to blame is told once."""

import attrs
import pytest
import trio
from trio.testing import MockClock

from sniffgate.address import Address
from sniffgate.config.schema import ListenerConfig, ProbeKind, Transport
from sniffgate.state.model import Endpoint, Verdict
from sniffgate.state.verdict import is_usable
from sniffgate.testing import VirtualNetwork, exchange, has, open_gateway, silence, when
from tests.tasks.configs import GATEWAY, UDP, UDP_DOOR, UDP_PORT, A, B, C, config_for, node_at
from tests.tasks.udp_looking import Failures, got, in_progress, places, sessions, upstream_sockets

UNPROBED = tuple(attrs.evolve(node, probe=ProbeKind.NONE, tcp=None) for node in (A, B, C))


async def test_a_refused_datagram_reaches_the_standby_at_once(autojump_clock: MockClock) -> None:
    """The client notices nothing: same socket, no loss, no time."""
    async with open_gateway(config_for(A, B)) as service:
        with service.datagrams() as conn:
            await exchange(conn, b"1")
            service.nodes["node-a"].kill(UDP)
            assert b"node-b:2" == await exchange(conn, b"2")

        assert 0.0 == trio.current_time()
        assert [[b"1"], [b"2"]] == [got(service, name) for name in ("node-a", "node-b")]
        assert not service.gateway.ledger.dropped_datagrams


@pytest.mark.parametrize("latency", [0.0, 0.001, 0.021])
async def test_a_steady_stream_loses_nothing_when_its_node_dies(latency: float, autojump_clock: MockClock) -> None:
    """Every datagram that the dead node refused is served once, those on their way at its death included."""
    network = VirtualNetwork()
    network.set_latency(latency, GATEWAY)
    async with open_gateway(config_for(A, B), network=network) as service:
        with service.datagrams() as conn:
            for number in range(200):
                if number == 100:
                    service.nodes["node-a"].kill(UDP)
                conn.send_nowait(b"%d" % number)
                await trio.sleep(0.005)
            await trio.sleep(1)

        before, after = got(service, "node-a"), got(service, "node-b")
        assert sorted(b"%d" % number for number in range(200)) == sorted(before + after)
        assert 100 <= len(after)  # the death, and those on their way at it


@pytest.mark.parametrize(
    ("host", "size"),
    [("10.0.0.1", size) for size in (0, 519, 520, 521, 4000, 65507)]
    + [("fd00::1", size) for size in (0, 1183, 1184, 1185, 4000, 65507)],
)
async def test_a_refused_datagram_of_any_size_is_sent_again_whole(
    host: str, size: int, autojump_clock: MockClock
) -> None:
    """The kernel quotes 520 bytes over IPv4 and 1184 over IPv6; what is longer comes from the copy that was kept."""
    network = VirtualNetwork()
    network.host(GATEWAY, "fd00::254")
    payload = bytes((number * 7 + 1) % 251 for number in range(size))
    async with open_gateway(config_for(node_at("node-a", host, 9), B), network=network) as service:
        service.nodes["node-b"].reply = lambda data: data
        service.nodes["node-a"].kill(UDP)
        with service.datagrams() as conn:
            assert payload == await exchange(conn, payload)

        assert [payload] == got(service, "node-b")


async def test_long_datagrams_on_their_way_at_a_node_s_death_are_all_sent_again(autojump_clock: MockClock) -> None:
    """An answer to an earlier one, which crosses them, does not make them answered."""
    network = VirtualNetwork()
    network.set_latency(0.018, "10.0.0.1")
    payloads = [bytes([number + 1]) * 600 for number in range(10)]
    async with open_gateway(config_for(A, B), network=network) as service:
        with service.datagrams() as conn:
            for number, payload in enumerate(payloads):
                if number == 5:
                    service.nodes["node-a"].kill(UDP)
                conn.send_nowait(payload)
                await trio.sleep(0.005)
            await trio.sleep(1)

        assert set(payloads) == set(got(service, "node-a") + got(service, "node-b"))
        assert 10 == len(got(service, "node-a") + got(service, "node-b"))


async def test_a_datagram_refused_twice_is_dropped_and_counted(autojump_clock: MockClock) -> None:
    """Once more, not for ever: the client may send again, and then the third node serves it."""
    async with open_gateway(config_for(A, B, C)) as service:
        for name in ("node-a", "node-b"):
            service.nodes[name].kill(UDP)
        with service.datagrams() as conn:
            conn.send_nowait(b"1")
            assert await silence(conn)
            assert {"refused": 1} == service.gateway.ledger.dropped_datagrams
            assert b"node-c:2" == await exchange(conn, b"2")

        assert [b"2"] == got(service, "node-c")


async def test_a_text_that_was_sent_again_may_be_refused_later(autojump_clock: MockClock) -> None:
    """Clients repeat themselves: once the node has answered, an equal datagram is another one."""
    async with open_gateway(config_for(A, B, C)) as service:
        service.nodes["node-a"].kill(UDP)
        with service.datagrams() as conn:
            assert b"node-b:ping" == await exchange(conn, b"ping")
            await when(service, has("node-a", Verdict.UNHEALTHY, UDP))
            service.nodes["node-b"].kill(UDP)
            assert b"node-c:ping" == await exchange(conn, b"ping")


async def test_with_nobody_left_a_refused_datagram_is_dropped_and_counted(autojump_clock: MockClock) -> None:
    """The session ends; nothing is kept for a node that may never come."""
    async with open_gateway(config_for(A)) as service:
        service.nodes["node-a"].kill(UDP)
        with service.datagrams() as conn:
            conn.send_nowait(b"1")
            assert await silence(conn, 1.5)

            assert {"no_node": 1} == service.gateway.ledger.dropped_datagrams
            assert [] == sessions(service)
            assert 0 == upstream_sockets(service) == in_progress(service)


async def test_a_flood_to_dead_nodes_holds_few_sockets(autojump_clock: MockClock) -> None:
    """Every datagram tries every node and ends a session: what is left of that must not use up the ports."""
    async with open_gateway(config_for(*UNPROBED, listeners=(UDP_DOOR,))) as service:
        for name in service.nodes:
            service.nodes[name].kill()
        most = 0
        with service.datagrams() as conn:
            for _ in range(300):
                conn.send_nowait(b"lost")
                await trio.sleep(0.001)
                most = max(most, upstream_sockets(service))
            await trio.sleep(0.051)

        assert most <= 3 * 52
        assert 0 == upstream_sockets(service) == in_progress(service)
        assert 300 == sum(service.gateway.ledger.dropped_datagrams.values())


async def test_a_session_blames_a_node_once(autojump_clock: MockClock) -> None:
    """One chatty client must not eject a node alone."""
    failures = Failures()
    async with open_gateway(config_for(*UNPROBED[:2], listeners=(UDP_DOOR,)), observers=(failures,)) as service:
        a, b = service.nodes["node-a"], service.nodes["node-b"]
        with service.datagrams() as conn:
            for _ in range(5):
                a.kill()
                await exchange(conn)
                b.kill()
                a.recover()
                await exchange(conn)
                b.recover()

        assert ["node-a", "node-b"] == failures.nodes


async def test_three_sessions_refusals_move_all_the_others(autojump_clock: MockClock) -> None:
    """Below the threshold each moves for itself; at it the node is out, and who has sent nothing moves as well."""
    async with open_gateway(config_for(*UNPROBED[:2], listeners=(UDP_DOOR,))) as service:
        conns = [service.datagrams() for _ in range(6)]
        for conn in conns:
            await exchange(conn)
        service.nodes["node-a"].kill()

        for conn in conns[:2]:
            assert b"node-b:hi" == await exchange(conn)
        assert 4 == places(service).count("node-a")
        assert b"node-b:hi" == await exchange(conns[2])
        await trio.sleep(0.001)

        assert ["node-b"] * 6 == places(service)
        assert 6 == len({each.client for each in sessions(service)})


async def test_the_next_address_of_a_name_comes_before_the_next_node(autojump_clock: MockClock) -> None:
    """Several addresses are one node: it is to blame only when none of them serves."""
    network, failures = VirtualNetwork(), Failures()
    network.names["a.test"] = ("10.0.1.1", "10.0.1.2")
    named = attrs.evolve(UNPROBED[0], udp=Address("a.test", 7000))
    config = config_for(named, UNPROBED[1], listeners=(UDP_DOOR,))
    with await network.host("10.0.1.2").listen_udp(Address("10.0.1.2", 7000)) as port:
        async with open_gateway(config, network=network, observers=(failures,)) as service:
            with service.datagrams() as conn:
                conn.send_nowait(b"1")
                assert b"1" == (await port.receive()).data
                assert [] == failures.nodes

                network.kill("10.0.1.2")
                assert b"node-b:2" == await exchange(conn, b"2")
                assert ["node-a"] == failures.nodes


async def test_a_follower_s_closed_port_is_found_by_one_client_and_opens_by_itself(autojump_clock: MockClock) -> None:
    """The sibling's TCP port is fine and says nothing of this one: the first refusal has it looked at."""
    async with open_gateway(config_for(A, B)) as service:
        with service.datagrams() as conn, service.datagrams() as idle:
            await exchange(conn)
            await exchange(idle)
            await trio.sleep(10)
            assert not [each for each in service.nodes["node-a"].received if each.data == b"\0"]

            service.nodes["node-a"].kill(UDP)
            assert b"node-b:hi" == await exchange(conn)
            fell = await when(service, has("node-a", Verdict.UNHEALTHY, UDP))
            await trio.sleep(0.001)
            assert ["node-b", "node-b"] == places(service)
            assert fell - 10 < 0.11  # the refusal, and two probes at the fast pace

            assert Verdict.HEALTHY is service.state.health[Endpoint("node-a", Transport.TCP)].verdict
            service.nodes["node-a"].reply = lambda data: None
            service.nodes["node-a"].recover(UDP)
            await when(service, lambda state: is_usable(state, A, Endpoint("node-a", UDP)))
            await trio.sleep(0.001)

            assert ["node-a", "node-a"] == places(service)
            assert trio.current_time() - fell < 1.0 + 0.8 + 0.1 + 0.8  # one interval, and two probes' silence


async def test_a_dead_tcp_sibling_moves_the_udp_sessions_that_follow_it(autojump_clock: MockClock) -> None:
    """A frozen machine refuses nothing; its TCP probes are what tells."""
    async with open_gateway(config_for(A, B)) as service:
        with service.datagrams() as conn:
            await exchange(conn, b"1")
            service.nodes["node-a"].power_off()
            await when(service, has("node-a", Verdict.UNHEALTHY))
            await trio.sleep(0.001)
            found = trio.current_time()

            assert ["node-b"] == places(service)
            assert found < 3.0
            assert b"node-b:2" == await exchange(conn, b"2")
            service.nodes["node-a"].recover()

        assert [b"1"] == got(service, "node-a")


@pytest.mark.parametrize("stop", ["freeze", "power_off"])
async def test_nothing_goes_to_a_stopped_node_after_its_verdict(stop: str, autojump_clock: MockClock) -> None:
    """A client that sends all the time never idles out: it has to be moved, or it is glued to the dead."""
    asked = attrs.evolve(A, udp_probe_payload=b"\0", udp_probe_expect=b"node-a")
    async with open_gateway(config_for(asked, B)) as service:
        with service.datagrams() as conn:
            for number in range(50):
                if number == 10:
                    getattr(service.nodes["node-a"], stop)()
                conn.send_nowait(b"%d" % number)
                await trio.sleep(0.2)
            fell = next(switch.at for switch in service.state.switches if switch.after == ("node-b",))
            service.nodes["node-a"].recover()
            await trio.sleep(0.001)

        assert fell - 2.0 < 1.0 + 0.8 + 0.3
        late = [b"%d" % number for number in range(50) if number * 0.2 > fell]
        assert late == [data for data in got(service, "node-b") if data in late]
        assert not set(late) & set(got(service, "node-a"))


async def test_a_node_without_a_way_to_it_is_left_at_once(autojump_clock: MockClock) -> None:
    """Routers' answers are refusals too."""
    async with open_gateway(config_for(A, B)) as service:
        service.nodes["node-a"].unreachable()
        with service.datagrams() as conn:
            assert b"node-b:hi" == await exchange(conn)


async def test_a_family_that_we_do_not_speak_is_the_node_s_failure(autojump_clock: MockClock) -> None:
    """No route to it, so the next node serves."""
    failures = Failures()
    away = attrs.evolve(UNPROBED[0], udp=Address("fd00::1", 7000))
    door = ListenerConfig(name="udp", protocol=UDP, listen=Address(GATEWAY, UDP_PORT))
    async with open_gateway(config_for(away, UNPROBED[1], listeners=(door,)), observers=(failures,)) as service:
        with service.datagrams() as conn:
            assert b"node-b:hi" == await exchange(conn)

    assert ["node-a"] == failures.nodes


async def test_a_name_without_an_answer_is_no_evidence_and_the_next_node_serves(autojump_clock: MockClock) -> None:
    """DNS being down says nothing about a node."""
    failures = Failures()
    named = attrs.evolve(UNPROBED[0], udp=Address("nowhere.test", 7000))
    async with open_gateway(config_for(named, UNPROBED[1], listeners=(UDP_DOOR,)), observers=(failures,)) as service:
        with service.datagrams() as conn:
            assert b"node-b:hi" == await exchange(conn)

    assert [] == failures.nodes
