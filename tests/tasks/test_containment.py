"""A bug stops at its flow or its task; a bug in the hub stops the gateway, for state is not to be guessed."""

from collections.abc import Callable

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from sniffgate.address import Address
from sniffgate.config.schema import ProbeKind
from sniffgate.errors import CommandRefused, ConnectRefused
from sniffgate.net.ports import Acceptor, Conn
from sniffgate.net.relay import Counters, EndReason, RelayLimits
from sniffgate.net.relay_tasks import TaskRelay
from sniffgate.state.events import Event, OperatorDisabled
from sniffgate.state.model import State, Verdict
from sniffgate.testing import Detour, VirtualGateway, ending, exchange, now, open_gateway
from sniffgate.testing.virtual import VirtualHost, VirtualNetwork
from tests.tasks.configs import GATEWAY, QA, QB, SECOND_DOOR, TCP_DOOR, tcp_config
from tests.tasks.looking import endings, opened


class Bug(Exception):
    """What must not happen, and does here."""


class FragileRelay(TaskRelay):
    """A relay that breaks on the flows that it is told to: before, or when the node says something."""

    def __init__(self) -> None:
        self.breaks_next = False
        self.breaks_late = False

    async def relay(
        self,
        client: Conn,
        node: Conn,
        counters: Counters,
        limits: RelayLimits,
        on_first_byte: Callable[[], None] | None = None,
    ) -> EndReason:
        """See `Relay.relay`, but for the closing."""
        if self.breaks_next:
            self.breaks_next = False
            raise Bug("in the relay")
        if self.breaks_late:
            self.breaks_late = False
            on_first_byte = self._break
        return await super().relay(client, node, counters, limits, on_first_byte)

    def _break(self) -> None:
        raise Bug("in a callback")


@pytest.mark.parametrize("late", [False, True])
async def test_a_crash_in_one_flow_touches_no_other(late: bool, autojump_clock: MockClock) -> None:
    """Its client and its node are let go, it is counted, and everything else goes on."""
    relay = FragileRelay()
    async with open_gateway(tcp_config(QA, QB), relay=relay) as service:
        (other,) = await opened(service)
        relay.breaks_next, relay.breaks_late = not late, late
        conn = await service.connect()
        await conn.send_all(b"hi")

        assert "end of stream" != (await ending(conn))[0]
        await wait_all_tasks_blocked()
        assert {EndReason.CRASHED: 1} == endings(service)
        assert 1 == len(service.nodes["node-a"].conns)
        assert b"node-a:hi" == await exchange(other)
        assert b"node-a:hi" == await service.ask()
        service.expected_crashes = 1


async def test_a_crash_in_the_flow_log_touches_no_flow(autojump_clock: MockClock) -> None:
    """Bookkeeping is the last thing a client should die of."""
    async with open_gateway(tcp_config(QA)) as service:

        def broken(record: object) -> None:
            raise Bug("in the flow log")

        service.gateway.services.write_flow = broken
        (other,) = await opened(service)
        for _ in range(3):
            assert b"node-a:hi" == await service.ask()
        await wait_all_tasks_blocked()

        assert b"node-a:hi" == await exchange(other)
        service.expected_crashes = 3 + 1  # the other's end


class Fragile(Detour):
    """The gateway's network, with a bug that shows itself as often as a test wants."""

    accepts_break = 0
    connects_break = 0

    async def listen_tcp(self, address: Address) -> Acceptor:
        return FragileAcceptor(self, await super().listen_tcp(address))

    async def connect_tcp(self, address: Address, *, user_timeout: float = 0.0) -> Conn:
        if self.connects_break:
            self.connects_break -= 1
            raise Bug("in connect")
        return await super().connect_tcp(address, user_timeout=user_timeout)


class FragileAcceptor:
    """A listening socket with a bug."""

    def __init__(self, network: Fragile, acceptor: Acceptor) -> None:
        self._network = network
        self._acceptor = acceptor

    @property
    def address(self) -> Address:
        return self._acceptor.address

    async def accept(self) -> Conn:
        conn = await self._acceptor.accept()
        if self._network.accepts_break:
            self._network.accepts_break -= 1
            conn.abort()
            raise Bug("in accept")
        return conn

    def accept_nowait(self) -> Conn | None:
        return None

    def close(self) -> None:
        self._acceptor.close()

    def __enter__(self) -> "FragileAcceptor":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@attrs.define(eq=False)
class Breakable:
    """Puts a `Fragile` network under a gateway, and remembers it."""

    network: Fragile | None = None

    def __call__(self, host: VirtualHost) -> Fragile:
        self.network = Fragile(host)
        return self.network

    def breaks(self, **counts: int) -> None:
        """Sets how often what shall break from now on."""
        assert self.network is not None
        for name, count in counts.items():
            setattr(self.network, name, count)


async def test_a_crashed_forwarder_is_started_again_later_each_time(autojump_clock: MockClock) -> None:
    """The socket stays, so clients wait in the backlog; established flows notice nothing."""
    fragile = Breakable()
    async with open_gateway(tcp_config(QA), through=fragile) as service:
        (old,) = await opened(service)
        fragile.breaks(accepts_break=3)
        for pause in (0.1, 0.2, 0.4):
            began = now()
            assert ("reset", began) == await ending(await service.connect())
            waiting = await service.connect()
            await waiting.send_all(b"hi")
            if pause == 0.4:
                assert b"node-a:hi" == await waiting.receive_some(1000)
                assert 0.7 == pytest.approx(trio.current_time())
            else:
                waiting.abort()
                await trio.sleep(pause)
                await wait_all_tasks_blocked()

        assert b"node-a:hi" == await exchange(old)
        service.expected_crashes = 3


async def test_a_crash_of_the_forwarder_leaves_leases_and_the_drain(autojump_clock: MockClock) -> None:
    """Flows that began before the crash drain as if nothing had been."""
    fragile = Breakable()
    async with open_gateway(tcp_config(QA, QB, drain_timeout=5.0), through=fragile) as service:
        (old,) = await opened(service)
        fragile.breaks(accepts_break=1)
        await service.connect()
        await trio.sleep(1.0)
        await service.disable("node-a")

        assert ("end of stream", 6.0) == await ending(old)
        service.expected_crashes = 1


async def test_a_stop_during_the_back_off_does_not_wait_for_it(autojump_clock: MockClock) -> None:
    """The end of a gateway is not up to its crashed forwarder."""
    fragile = Breakable()
    async with open_gateway(tcp_config(QA), through=fragile) as service:
        (old,) = await opened(service)
        fragile.breaks(accepts_break=8)
        for _ in range(8):
            await service.connect()
        await trio.sleep(15.0)
        service.gateway.stop(100.0)
        await wait_all_tasks_blocked()

        with pytest.raises(ConnectRefused):
            await service.connect()
        assert b"node-a:hi" == await exchange(old)
        service.expected_crashes = 8


async def test_a_crash_while_a_client_waits_for_its_node_resets_that_client(autojump_clock: MockClock) -> None:
    """Whatever broke, its slot is free again and the next client is served."""
    fragile = Breakable()
    listener = attrs.evolve(TCP_DOOR, max_connections=1)
    async with open_gateway(tcp_config(QA, listeners=(listener,)), through=fragile) as service:
        fragile.breaks(connects_break=1)

        assert ("reset", 0.0) == await ending(await service.connect())
        assert {EndReason.CRASHED: 1} == endings(service)
        assert b"node-a:hi" == await service.ask()
        service.expected_crashes = 1


async def test_a_crashed_prober_is_started_again(autojump_clock: MockClock) -> None:
    """The verdict must not stand still for ever because a probe met a bug."""
    fragile = Breakable()
    node = attrs.evolve(QA, probe=ProbeKind.TCP)
    async with open_gateway(tcp_config(node, QB), through=fragile) as service:
        await trio.sleep(3.5)
        assert Verdict.HEALTHY is service.health("node-a").verdict
        fragile.breaks(connects_break=1)
        await trio.sleep(1.0)
        service.nodes["node-a"].kill()
        await trio.sleep(3.0)

        assert Verdict.UNHEALTHY is service.health("node-a").verdict
        service.expected_crashes = 1


async def test_a_crash_of_one_listener_is_none_of_anothers(autojump_clock: MockClock) -> None:
    """Each listener restarts alone."""
    fragile = Breakable()
    config = tcp_config(QA, listeners=(TCP_DOOR, SECOND_DOOR))
    async with open_gateway(config, through=fragile) as service:
        fragile.breaks(accepts_break=1)
        await ending(await service.connect())
        (other,) = await opened(service, 1, SECOND_DOOR.listen.port)

        assert b"node-a:hi" == await exchange(other)
        assert 0.0 == trio.current_time()
        service.expected_crashes = 1


async def test_a_crash_in_the_hub_comes_out_of_the_gateway(autojump_clock: MockClock) -> None:
    """No flow is served by a gateway that does not know its own state; and nobody waits for it for ever."""
    network = VirtualNetwork()

    def broken(before: State, event: Event, after: State) -> None:
        if isinstance(event, OperatorDisabled):
            raise Bug("in the hub")

    refused: list[str] = []

    async def ask(service: VirtualGateway) -> None:
        try:
            await service.disable("node-a")
        except CommandRefused as error:
            refused.append(str(error))

    async with trio.open_nursery() as outside:
        with pytest.RaisesGroup(Bug, flatten_subgroups=True):
            async with open_gateway(tcp_config(QA), network=network, observers=(broken,)) as service:
                (conn,) = await opened(service)
                outside.start_soon(ask, service)
                outside.start_soon(ask, service)
                await trio.sleep_forever()
        assert "reset" != (await ending(conn))[0]

    assert 2 == len(refused)
    assert [] == network.host(GATEWAY).open_sockets()
