"""UDP sessions when routes change: who moves at once, who stays until when, and where late replies go."""

import attrs
import pytest
import trio
from trio.testing import MockClock

from sniffgate.address import Address
from sniffgate.config.schema import Config, FlowLogMode, ProbeKind, Strategy, Transport
from sniffgate.state.model import Mark
from sniffgate.testing import VirtualGateway, VirtualNetwork, exchange, open_gateway, silence
from tests.tasks.configs import GATEWAY, UDP_DOOR, A, B, C, config_for, with_globals, with_nodes
from tests.tasks.udp_looking import got, in_progress, places, ports, sessions, udp_listener, upstream_sockets

QUIET = tuple(attrs.evolve(node, probe=ProbeKind.NONE, tcp=None) for node in (A, B, C))  # nothing but clients speaks


def quiet(*nodes_: object, **settings: object) -> Config:
    """A configuration without probes or TCP."""
    nodes = nodes_ or QUIET[:2]
    return config_for(*nodes, listeners=(UDP_DOOR,), **settings)  # type: ignore[arg-type]


# --- udp_rebind_on_switch ----------------------------------------------------------------------------------


async def test_a_switch_moves_the_sessions_of_the_node_that_left_at_once(autojump_clock: MockClock) -> None:
    """Without a word of the client: its next datagram goes to the new node, and so does no other."""
    async with open_gateway(quiet()) as service:
        with service.datagrams() as conn:
            await exchange(conn, b"1")
            await service.switch("node-b")
            await trio.sleep(0.001)
            assert ["node-b"] == places(service)
            assert b"node-b:2" == await exchange(conn, b"2")

        assert [b"1"] == got(service, "node-a")


async def test_a_switch_leaves_sessions_of_nodes_that_stay_active_alone(autojump_clock: MockClock) -> None:
    """Under round robin one node leaves; the sessions of the others have nothing to do with it."""
    async with open_gateway(quiet(*QUIET, strategy=Strategy.ROUND_ROBIN)) as service:
        conns = [service.datagrams() for _ in range(6)]
        for conn in conns:
            await exchange(conn)
        kept = ports(service, "node-b"), ports(service, "node-c")
        await service.disable("node-a")
        for conn in conns:
            await exchange(conn)

        assert "node-a" not in places(service)
        assert kept[0] < ports(service, "node-b")
        assert kept[1] < ports(service, "node-c")
        assert 2 == len(ports(service, "node-a"))
        assert 3 + 3 == len(ports(service, "node-b")) + len(ports(service, "node-c"))


async def test_a_tcp_switch_leaves_udp_alone_and_the_other_way_round(autojump_clock: MockClock) -> None:
    """Routes are per transport."""
    async with open_gateway(config_for(A, B)) as service:
        with service.datagrams() as conn, await service.connect() as flow:
            await exchange(conn, b"1")
            await flow.send_all(b"1")
            assert b"node-a:1" == await flow.receive_some(100)

            await service.switch("node-b", Transport.TCP)
            await trio.sleep(11)
            assert b"node-a:2" == await exchange(conn, b"2")
            assert 1 == len(ports(service, "node-a"))

            await service.release()
            await service.switch("node-b", Transport.UDP)
            assert b"node-b:3" == await exchange(conn, b"3")
            assert b"node-a:x" == await service.ask(b"x")


@pytest.mark.parametrize(("drain", "hears"), [(9.5, True), (8.5, False)])
async def test_a_late_reply_reaches_the_client_until_the_drain_deadline(
    drain: float, hears: bool, autojump_clock: MockClock
) -> None:
    """The old socket outlives the move for replies under way, and no longer than any other flow of the node."""
    network = VirtualNetwork()
    network.set_latency(5.0, "10.0.0.1")
    async with open_gateway(quiet(drain_timeout=drain), network=network) as service:
        with service.datagrams() as conn:
            conn.send_nowait(b"slow")  # answered at 10.0
            await trio.sleep(1.0)
            await service.switch("node-b")
            await trio.sleep(drain - 0.001)
            assert 2 == upstream_sockets(service)
            await trio.sleep(0.002)
            assert 1 == upstream_sockets(service)

            assert hears is not await silence(conn, 1.0)


async def test_an_old_socket_ends_its_idle_time_after_its_last_reply(autojump_clock: MockClock) -> None:
    """Long drains do not keep sockets that nobody answers on."""
    config = quiet(drain_timeout=100.0, udp_session_timeout=4.0, flow_log=FlowLogMode.ALL)
    network = VirtualNetwork()
    network.set_latency(1.0, "10.0.0.1")
    async with open_gateway(config, network=network) as service:
        with service.datagrams() as conn:
            conn.send_nowait(b"1")
            await trio.sleep(0.5)
            await service.switch("node-b")
            assert b"node-a:1" == await conn.receive()  # at 2.0
            for _ in range(5):
                await exchange(conn)
                await trio.sleep(1.0)

        assert [line for line in service.flow_log if "node=node-a" in line and "ms=6000.0 reason=moved" in line]
        assert ["node-b"] == places(service)


async def test_without_rebinding_sessions_stay_until_the_drain_deadline(autojump_clock: MockClock) -> None:
    """Then their next datagram picks anew."""
    config = quiet(udp_rebind_on_switch=False, drain_timeout=3.0, flow_log=FlowLogMode.ALL)
    async with open_gateway(config) as service:
        with service.datagrams() as conn:
            await exchange(conn)
            await service.switch("node-b")
            await trio.sleep(2.999)
            assert b"node-a:hi" == await exchange(conn)
            assert 1 == len(ports(service, "node-a"))
            await trio.sleep(0.002)
            assert [] == sessions(service)
            assert 1 == len(service.flow_log)
            assert "ms=3000.0 reason=drained" in service.flow_log[0]
            assert b"node-b:hi" == await exchange(conn)

        assert 1 == udp_listener(service)._slots.held == in_progress(service)


async def test_a_session_that_comes_back_in_time_keeps_its_port(autojump_clock: MockClock) -> None:
    """Without rebinding a switch and its undoing leave no trace on a session."""
    async with open_gateway(quiet(udp_rebind_on_switch=False, drain_timeout=3.0)) as service:
        with service.datagrams() as conn:
            await exchange(conn)
            await service.switch("node-b")
            await trio.sleep(2.0)
            await service.release()
            await trio.sleep(5.0)
            await exchange(conn)

        assert 1 == len(ports(service, "node-a"))


async def test_at_the_drain_deadline_itself_no_datagram_is_lost(autojump_clock: MockClock) -> None:
    """Whichever of the two tasks comes first at that instant, the one that is cut or the one that forwards."""
    async with open_gateway(quiet(udp_rebind_on_switch=False, drain_timeout=3.0)) as service:
        with service.datagrams() as conn:
            for number in range(20):  # Trio runs the two in any order
                await exchange(conn)
                await service.switch("node-a" if number % 2 else "node-b")
                await trio.sleep(2.5)
                conn.send_nowait(b"now")
                autojump_clock.jump(0.5)
                with trio.fail_after(1):
                    await conn.receive()


async def test_a_drain_of_no_time_cuts_old_sockets_and_no_session(autojump_clock: MockClock) -> None:
    """The client goes on at the new node."""
    async with open_gateway(quiet(drain_timeout=0.0)) as service:
        with service.datagrams() as conn:
            await exchange(conn)
            await service.switch("node-b")
            await trio.sleep(0.001)
            assert 1 == upstream_sockets(service)
            assert b"node-b:hi" == await exchange(conn)


# --- nodes that go -----------------------------------------------------------------------------------------


async def disable(service: VirtualGateway) -> None:
    """The operator's way."""
    await service.disable("node-a")


async def remove(service: VirtualGateway) -> None:
    """A reload's."""
    await service.apply(with_nodes(service.state.config, *service.state.config.nodes[1:]))


async def take_udp_away(service: VirtualGateway) -> None:
    """The node stays, its UDP address goes."""
    config = service.state.config
    await service.apply(with_nodes(config, attrs.evolve(A, udp=None, probe=ProbeKind.NONE), *config.nodes[1:]))


async def mark_down(service: VirtualGateway) -> None:
    """The operator knows better than the probes."""
    await service.mark("node-a", Mark.DOWN)


@pytest.mark.parametrize("leave", [disable, remove, take_udp_away, mark_down])
@pytest.mark.parametrize("rebind", [True, False])
async def test_the_sessions_of_a_node_that_may_not_be_used_go_on_elsewhere(
    leave: object, rebind: bool, autojump_clock: MockClock
) -> None:
    """At once, or at the drain deadline; never glued to what is gone, however busy the client."""
    assert callable(leave)
    async with open_gateway(quiet(udp_rebind_on_switch=rebind, drain_timeout=3.0)) as service:
        with service.datagrams() as conn:
            await exchange(conn)
            await leave(service)
            await trio.sleep(0.001)
            assert (b"node-b:1" if rebind else b"node-a:1") == await exchange(conn, b"1")
            await trio.sleep(3.0)
            assert b"node-b:2" == await exchange(conn, b"2")

        assert 1 == upstream_sockets(service) == in_progress(service)


async def test_a_node_that_is_readdressed_is_reached_at_its_new_address(autojump_clock: MockClock) -> None:
    """The old one is a removed endpoint."""
    network = VirtualNetwork()
    with await network.host("10.0.0.7").listen_udp(Address("10.0.0.7", 7000)) as port:
        async with open_gateway(quiet(), network=network) as service:
            with service.datagrams() as conn:
                await exchange(conn)
                moved = attrs.evolve(QUIET[0], udp=Address("10.0.0.7", 7000))
                await service.apply(with_nodes(service.state.config, moved, QUIET[1]))
                await trio.sleep(0.001)
                conn.send_nowait(b"2")
                with trio.fail_after(1):
                    assert b"2" == (await port.receive()).data


# --- while a name is looked up -------------------------------------------------------------------------------


async def test_a_choice_that_no_longer_stands_after_the_look_up_is_made_anew(autojump_clock: MockClock) -> None:
    """Else the session would stay at a node that left before it came, and nothing would ever move it."""
    network = VirtualNetwork()
    network.names["a.test"] = ("10.0.1.1",)
    network.names.delay = 0.3
    named = attrs.evolve(QUIET[0], udp=Address("a.test", 7000))
    with await network.host("10.0.1.1").listen_udp(Address("10.0.1.1", 7000)) as port:
        async with open_gateway(quiet(named, QUIET[1]), network=network) as service:
            with service.datagrams() as conn:
                conn.send_nowait(b"1")
                await trio.sleep(0.1)
                await service.switch("node-b")

                with trio.fail_after(1):
                    assert b"node-b:1" == await conn.receive()
            with trio.move_on_after(0.1) as patience:
                await port.receive()

            assert patience.cancelled_caught
            assert 1 == in_progress(service)


async def test_a_session_that_is_evicted_while_it_waits_counts_what_waited(autojump_clock: MockClock) -> None:
    """Its datagrams go nowhere, and that is told."""
    network = VirtualNetwork()
    network.names["a.test"] = ("10.0.1.1",)
    network.names.delay = 0.3
    named = attrs.evolve(QUIET[0], udp=Address("a.test", 7000))
    async with open_gateway(quiet(named, QUIET[1], udp_max_sessions=1), network=network) as service:
        with service.datagrams() as one, service.datagrams() as two:
            one.send_nowait(b"1")
            await trio.sleep(0.1)
            two.send_nowait(b"2")
            await trio.sleep(1.5)

        assert {"evicted": 1} == service.gateway.ledger.dropped_datagrams
        assert 1 == len(sessions(service)) == in_progress(service) == udp_listener(service)._slots.held


# --- nothing usable ----------------------------------------------------------------------------------------


async def test_with_nothing_usable_datagrams_are_dropped_until_something_is(autojump_clock: MockClock) -> None:
    """Closed means closed, and open again means with the very next datagram."""
    async with open_gateway(quiet(fail_open=False)) as service:
        await service.disable("node-a")
        await service.disable("node-b")
        with service.datagrams() as conn:
            for _ in range(3):
                conn.send_nowait(b"lost")
                await trio.sleep(0.001)
            assert {"no_node": 3} == service.gateway.ledger.dropped_datagrams
            assert [] == sessions(service)

            await service.enable("node-b")
            assert b"node-b:hi" == await exchange(conn)


async def test_a_session_that_began_while_nothing_was_usable_moves_the_moment_something_is(
    autojump_clock: MockClock,
) -> None:
    """Without a datagram: the client may be waiting for what the node says."""
    async with open_gateway(quiet()) as service:
        for name in ("node-a", "node-b"):
            await service.mark(name, Mark.DOWN)
        service.nodes["node-a"].black_hole()
        with service.datagrams() as conn:
            conn.send_nowait(b"1")
            await trio.sleep(1.0)
            assert ["node-a"] == places(service)

            await service.mark("node-b", None)
            await trio.sleep(0.001)
            assert ["node-b"] == places(service)


async def test_under_fail_open_a_session_keeps_its_node_and_port(autojump_clock: MockClock) -> None:
    """All are down by the evidence, and yet it answers: nothing is gained by moving or cutting."""
    config = quiet(drain_timeout=3.0)
    async with open_gateway(config) as service:
        with service.datagrams() as conn:
            await exchange(conn)
            for name in ("node-b", "node-a"):
                await service.mark(name, Mark.DOWN)
            for _ in range(10):
                assert b"node-a:hi" == await exchange(conn)
                await trio.sleep(1.0)
            await service.apply(with_globals(config, udp_session_timeout=50.0))  # has everybody look again
            await trio.sleep(0.001)
            await exchange(conn)

        assert 2 == len(ports(service, "node-a"))  # the one it had, and one in a lease that nobody ends


# --- probation ---------------------------------------------------------------------------------------------


async def ejected_and_back(service: VirtualGateway) -> None:
    """Lets three clients eject node-a, and waits until it is in probation. Their sessions end."""
    service.nodes["node-a"].kill()
    for _ in range(3):
        with service.datagrams() as conn:
            assert b"node-b:hi" == await exchange(conn)
    await trio.sleep(1.001)
    assert "node-a" == next(iter(service.state.routes.values())).trial


async def test_one_session_proves_a_node_in_probation_by_a_reply(autojump_clock: MockClock) -> None:
    """One new session, not all: its success brings the others back."""
    async with open_gateway(quiet()) as service:
        await ejected_and_back(service)
        service.nodes["node-a"].recover()
        with service.datagrams() as conn:
            assert b"node-a:proof" == await exchange(conn, b"proof")
            await trio.sleep(0.001)

        assert ["node-a"] * 4 == places(service)


async def test_a_refusal_fails_the_trial_and_the_standby_serves(autojump_clock: MockClock) -> None:
    """The client that was the test is served all the same."""
    async with open_gateway(quiet()) as service:
        await ejected_and_back(service)
        with service.datagrams() as conn:
            assert b"node-b:proof" == await exchange(conn, b"proof")
            await trio.sleep(0.001)

        assert next(iter(service.state.routes.values())).trial is None
        assert ["node-b"] * 4 == places(service)


async def test_silence_gives_the_token_back_and_the_client_to_the_active_node(autojump_clock: MockClock) -> None:
    """It proves nothing; the next new session may try, and this one has waited long enough."""
    async with open_gateway(quiet()) as service:
        await ejected_and_back(service)
        service.nodes["node-a"].black_hole()
        with service.datagrams() as conn, service.datagrams() as second, service.datagrams() as third:
            conn.send_nowait(b"1")
            await trio.sleep(0.1)
            assert b"node-b:2" == await exchange(second, b"2")  # the token is out
            await trio.sleep(0.701)
            assert b"node-b:3" == await exchange(conn, b"3")
            assert b"node-b:4" == await exchange(conn, b"4")

            service.nodes["node-a"].recover()
            assert b"node-a:5" == await exchange(third, b"5")


async def test_a_late_end_of_a_silent_trial_does_not_take_another_s_token(autojump_clock: MockClock) -> None:
    """One token, one session at a time."""
    async with open_gateway(quiet(udp_session_timeout=0.9)) as service:
        await ejected_and_back(service)
        service.nodes["node-a"].black_hole()
        with service.datagrams() as one, service.datagrams() as two, service.datagrams() as three:
            one.send_nowait(b"1")
            await trio.sleep(0.85)
            two.send_nowait(b"2")  # holds the token until 1.65
            await trio.sleep(0.1)  # the first one's session has ended by now
            assert b"node-b:3" == await exchange(three, b"3")


async def test_a_trial_that_could_not_begin_gives_the_token_back(autojump_clock: MockClock) -> None:
    """Our own shortage proves nothing: the next new session may try at once."""
    network = VirtualNetwork(ports=range(40000, 40006))
    async with open_gateway(quiet(), network=network) as service:
        await ejected_and_back(service)
        service.nodes["node-a"].recover()
        hogs = [network.host(GATEWAY).connect_udp(Address("10.0.0.2", 7000)) for _ in range(3)]
        with service.datagrams() as unlucky, service.datagrams() as next_one:
            unlucky.send_nowait(b"lost")
            assert await silence(unlucky)
            for hog in hogs:
                hog.close()
            assert b"node-a:proof" == await exchange(next_one, b"proof")
