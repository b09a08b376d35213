"""A gateway inside a test, without pytest's fixtures."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import attrs
import pytest
import trio
from trio.testing import MockClock

from sniffgate.address import Address
from sniffgate.config.schema import Config, ListenerConfig, NodeConfig, Transport
from sniffgate.errors import PeerReset
from sniffgate.state.model import Endpoint
from sniffgate.state.terms import LeaseKind
from sniffgate.testing import (
    GatewayCrashed,
    GatewayUnderTest,
    UnknownName,
    VirtualNetwork,
    expect_active,
    open_gateway,
    open_real_gateway,
)
from tests.testing.kit import service

TCP = Transport.TCP
FOREVER = float("inf")


def crash(gateway: GatewayUnderTest) -> None:
    """A bug in one flow."""
    with gateway.gateway.services.containing("a flow"):
        raise ZeroDivisionError


async def test_a_gateway_and_its_nodes_are_one_block(autojump_clock: MockClock) -> None:
    """Nothing is left to set up, and nothing is left behind."""
    network = VirtualNetwork()
    async with open_gateway(service(), network) as gateway:
        assert (b"node-a:hi", b"node-a:hi") == (await gateway.ask(), await gateway.query())
        assert {"node-a", "node-b"} == set(gateway.nodes)
    for host in ("10.0.0.254", "10.0.0.1", "10.0.0.2"):
        assert [] == network.host(host).open_sockets()


async def test_nodes_on_one_machine_have_their_own_faults(autojump_clock: MockClock) -> None:
    """Configuration files from a laptop have everything on 127.0.0.1."""
    nodes = tuple(
        NodeConfig(name=name, priority=-number, tcp=Address("127.0.0.1", 7000 + number))
        for number, name in enumerate(("a", "b"))
    )
    listener = ListenerConfig(name="service", protocol=TCP, listen=Address("127.0.0.1", 0))
    async with open_gateway(Config(listeners=(listener,), nodes=nodes)) as gateway:
        assert b"a:hi" == await gateway.ask()
        with gateway.nodes["a"].kill():
            assert b"b:hi" == await gateway.ask()
        await expect_active(gateway, "a", within=5.0)
        assert b"a:hi" == await gateway.ask()


async def test_nodes_may_be_left_to_the_test(autojump_clock: MockClock) -> None:
    """It may have servers of its own."""
    async with open_gateway(service(), serve_nodes=False) as gateway:
        assert {} == gateway.nodes
        with pytest.raises(PeerReset):
            await gateway.ask()


async def test_a_contained_crash_comes_out_at_the_end(autojump_clock: MockClock) -> None:
    """Traffic goes on after it, so nobody else would tell."""
    with pytest.raises(GatewayCrashed, match=r"1 crash") as caught:
        async with open_gateway(service()) as gateway:
            crash(gateway)
    assert pytest.RaisesGroup(ZeroDivisionError, flatten_subgroups=True).matches(caught.value.__cause__)

    async with open_gateway(service()) as gateway:
        crash(gateway)
        gateway.expected_crashes = 1


async def test_leases_are_values(autojump_clock: MockClock) -> None:
    """A test asserts on what it sees, with deadlines on the clock that it reads."""
    await trio.sleep(100.0)  # the gateway's own seconds begin here
    async with open_gateway(service()) as gateway:
        with await gateway.connect() as conn:
            await conn.send_all(b"hi")
            await conn.receive_some(100)
            (lease,) = gateway.leases()
            assert ("tcp", Endpoint("node-a", TCP), 1) == (lease.listener, lease.endpoint, lease.flows)
            assert (LeaseKind.ACTIVE, FOREVER) == (lease.kind, lease.deadline)
            await gateway.switch("node-b")
            await trio.testing.wait_all_tasks_blocked()
            (retiring,) = gateway.leases()
            assert attrs.evolve(lease, kind=LeaseKind.RETIRING, deadline=102.0) == retiring


async def test_a_drain_takes_a_deadline(autojump_clock: MockClock) -> None:
    """A test's own scope says until when."""
    async with open_gateway(service()) as gateway:
        with await gateway.connect() as conn, trio.move_on_after(7.0) as scope:
            await conn.send_all(b"hi")
            await conn.receive_some(100)
            await trio.sleep(1.0)
            await gateway.drain("node-a", deadline=scope.deadline - 0.5)
            assert b"" == await conn.receive_some(100)
            assert 6.5 == trio.current_time()


async def test_the_shorter_of_two_limits_holds(autojump_clock: MockClock) -> None:
    """Nobody who gives two means the longer."""
    async with open_gateway(service()) as gateway:
        with await gateway.connect() as conn:
            await conn.send_all(b"hi")
            await conn.receive_some(100)
            await gateway.drain("node-a", 3.0, deadline=50.0)
            assert (b"", 3.0) == (await conn.receive_some(100), trio.current_time())


@pytest.mark.parametrize(("cancel_at", "ends_at"), [(None, 8.0), (3.0, 3.0)])
async def test_the_gateway_stops_within_a_scope(
    cancel_at: float | None, ends_at: float, autojump_clock: MockClock
) -> None:
    """Its flows live as long as the scope does, to the instant, however that ends."""
    scope = trio.CancelScope(deadline=8.0)
    async with open_gateway(service()) as gateway, trio.open_nursery() as nursery:
        with await gateway.connect() as conn:
            await conn.send_all(b"hi")
            await conn.receive_some(100)

            async def cancel() -> None:
                if cancel_at is not None:
                    await trio.sleep_until(cancel_at)
                    scope.cancel()

            nursery.start_soon(cancel)
            nursery.start_soon(gateway.stop_within, scope)
            assert b"" == await conn.receive_some(100)
            await gateway.ended.wait()
            assert ends_at == trio.current_time()


async def test_a_gateway_without_flows_stops_at_once(autojump_clock: MockClock) -> None:
    """There is nothing to wait for."""
    async with open_gateway(service()) as gateway:
        with trio.CancelScope(deadline=50.0) as outer:
            await gateway.stop_within(trio.CancelScope(deadline=40.0))
        assert not outer.cancelled_caught
        assert trio.current_time() <= 1.0


async def test_a_listener_is_found_by_name_or_transport(autojump_clock: MockClock) -> None:
    """A mistake in a test is told as one."""
    async with open_gateway(service()) as gateway:
        assert gateway.addresses["udp"] == gateway.address(transport=Transport.UDP)
        assert gateway.addresses["tcp"] == gateway.address("tcp")
        with pytest.raises(LookupError, match="no tcp listener udp"):
            await gateway.connect("udp")


@pytest.mark.parametrize("opened", [open_gateway, open_real_gateway])
@pytest.mark.parametrize(
    ("scripts", "sentence"),
    [
        (
            {"node-a": "lnes"},
            "scripts, node-a: no script 'lnes'; there are echo, request, lines, greeting, slow-reader, dns; "
            "did you mean 'lines'?",
        ),
        ({"nodea": "lines"}, "scripts: no node 'nodea'; there are node-a, node-b; did you mean 'node-a'?"),
        ({"zzz": "lines"}, "scripts: no node 'zzz'; there are node-a, node-b"),
    ],
)
async def test_a_script_or_a_node_that_is_not_there_is_one_sentence(
    opened: Callable[..., AbstractAsyncContextManager[GatewayUnderTest]], scripts: dict[str, str], sentence: str
) -> None:
    """With the names that are, and the nearest; before anything is started, on either network."""
    with pytest.raises(UnknownName) as caught:
        async with opened(service(), scripts=scripts):
            raise AssertionError("it was not noticed")

    assert sentence == str(caught.value)


async def test_a_node_that_is_not_there_is_one_sentence(autojump_clock: MockClock) -> None:
    """A name mistyped in a test is not to be looked for in a traceback."""
    async with open_gateway(service()) as gateway:
        with pytest.raises(UnknownName) as caught:
            gateway.nodes["node-x"].kill()
        assert "no node 'node-x'; there are node-a, node-b; did you mean 'node-b'?" == str(caught.value)
    async with open_gateway(service(), serve_nodes=False) as gateway:
        with pytest.raises(KeyError) as missing:
            gateway.nodes["node-a"].kill()
        assert "no node 'node-a'; there are none" == str(missing.value)


@pytest.mark.parametrize(
    ("timeout", "deadline", "cut_at"), [(3, None, 13.0), (None, 13.5, 13.5), (3, 12.0, 12.0), (None, 9.0, 10.0)]
)
async def test_a_drain_takes_seconds_from_now_and_a_deadline_on_the_clock(
    timeout: float | None, deadline: float | None, cut_at: float, autojump_clock: MockClock
) -> None:
    """Two units, two arguments; of both the sooner."""
    async with open_gateway(service()) as gateway:
        with await gateway.connect() as conn:
            await conn.send_all(b"hi")
            await conn.receive_some(100)
            await trio.sleep_until(10)
            await gateway.drain("node-a", timeout, deadline=deadline)
            assert (b"", cut_at) == (await conn.receive_some(100), trio.current_time())
