"""Sockets across reloads: what identifies them, and what becomes of them when something goes wrong."""

import contextlib

import attrs
import pytest
import trio
from trio.testing import MockClock

from sniffgate.address import Address
from sniffgate.config.schema import ListenerConfig
from sniffgate.errors import CannotBind, CommandRefused, ConnectRefused
from sniffgate.net.ports import Acceptor
from sniffgate.state.events import ConfigApplied, Event
from sniffgate.state.model import State
from sniffgate.tasks.binding import open_new_sockets, socket_key
from sniffgate.testing import Detour, open_gateway
from sniffgate.testing.embedding import CLIENT
from sniffgate.testing.virtual import VirtualNetwork
from tests.tasks.configs import GATEWAY, TCP_DOOR, UDP, UDP_DOOR, A, config_for, with_listeners
from tests.tasks.looking import held

WIDE = attrs.evolve(TCP_DOOR, listen=Address("", 80))


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (attrs.evolve(TCP_DOOR, name="renamed", pool="p", idle_timeout=1.0, max_connections=1), True),
        (attrs.evolve(TCP_DOOR, protocol=UDP), False),
        (attrs.evolve(TCP_DOOR, listen=Address(GATEWAY, 81)), False),
        (WIDE, False),
    ],
)
def test_a_socket_is_its_protocol_and_address(other: ListenerConfig, same: bool) -> None:
    """Nothing else of a listener needs another socket."""
    assert same == (socket_key(TCP_DOOR) == socket_key(other))


def test_listeners_on_any_port_have_sockets_of_their_own() -> None:
    """Two of them are two ports, and each keeps its own."""
    any_port = attrs.evolve(TCP_DOOR, listen=Address(GATEWAY, 0))

    assert socket_key(any_port) == socket_key(attrs.evolve(any_port, pool="p"))
    assert socket_key(any_port) != socket_key(attrs.evolve(any_port, name="two"))


async def test_all_sockets_are_bound_or_none(autojump_clock: MockClock) -> None:
    """The error says whose it is; the ones bound before it are closed."""
    network = VirtualNetwork()
    host = network.host(GATEWAY)
    with await host.listen_udp(UDP_DOOR.listen):
        with pytest.raises(CannotBind, match=r"listener udp: cannot bind udp 10\.0\.0\.254:53: .*in use"):
            await open_new_sockets(host, {}, config_for(A))

        assert [(UDP, UDP_DOOR.listen)] == host.open_sockets()


async def test_the_new_socket_is_bound_before_the_old_one_closes(autojump_clock: MockClock) -> None:
    """At no moment is there neither; clients that know the old address are served until then."""
    seen: list[tuple[int, ...]] = []

    class Watching(Detour):
        """Notes which ports are open whenever one is bound."""

        async def listen_tcp(self, address: Address) -> Acceptor:
            """Binds."""
            bound = await super().listen_tcp(address)
            seen.append(tuple(sorted(place.port for _, place in self.host.open_sockets() if place.port < 100)))
            return bound

    config = config_for(A, listeners=(TCP_DOOR,))
    moved = attrs.evolve(TCP_DOOR, listen=Address(GATEWAY, 81))
    async with open_gateway(config, through=Watching) as service:
        await service.apply(with_listeners(config, moved))
        await trio.sleep(1.0)

        assert [(80,), (80, 81)] == seen
        assert {81} == {place.port for _, place in held(service) if place.port < 100}


class Thieving(Detour):
    """A network on which somebody takes the address of a socket that made way, and holds it for a while."""

    stolen: Acceptor | None = None

    async def listen_tcp(self, address: Address) -> Acceptor:
        """Binds, unless it is stolen."""
        if address.is_wildcard:
            with contextlib.suppress(CannotBind):  # the first time it is still in use
                self.stolen = await super().listen_tcp(TCP_DOOR.listen)
        return await super().listen_tcp(address)


async def test_a_listener_whose_address_was_taken_meanwhile_is_back_at_the_next_reload(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """The first error is what the operator hears; the second is in the log; neither loses a flow."""
    network = VirtualNetwork()
    thief = Thieving(network.host(GATEWAY))
    config = config_for(A, listeners=(TCP_DOOR,))
    async with open_gateway(config, network=network, through=lambda _: thief) as service:
        with await service.connect() as conn:
            await conn.send_all(b"1")
            assert b"node-a:1" == await conn.receive_some(100)
            with pytest.raises(CannotBind):
                await service.apply(with_listeners(config, WIDE))
            assert 1 == sum("takes no clients until a reload" in each for each in caplog.messages)
            with pytest.raises(CannotBind):
                await service.apply(with_listeners(config, attrs.evolve(TCP_DOOR, name="x")))
            assert thief.stolen is not None
            thief.stolen.close()
            with pytest.raises(ConnectRefused):
                await network.host(CLIENT).connect_tcp(TCP_DOOR.listen)
            await service.apply(config)

            assert b"node-a:hi" == await service.ask()
            await conn.send_all(b"2")
            assert b"node-a:2" == await conn.receive_some(100)


async def test_a_crash_of_the_hub_in_a_reload_ends_the_gateway(autojump_clock: MockClock) -> None:
    """What the state is must not be guessed; and who waits for the reload must not keep the gateway from ending."""

    def crash(before: State, event: Event, after: State) -> None:
        if isinstance(event, ConfigApplied):
            raise ValueError("a bug in the hub")

    refused: list[str] = []
    with trio.fail_after(10.0):
        with pytest.RaisesGroup(pytest.RaisesExc(ValueError, match="a bug in the hub"), flatten_subgroups=True):
            async with open_gateway(config_for(A), observers=(crash,)) as service:
                try:
                    await service.apply(config_for(A, drain_timeout=1.0))
                except CommandRefused as error:
                    refused.append(str(error))
                await trio.sleep(5.0)

    assert ["the gateway has crashed"] == refused
    assert 0.0 == trio.current_time()
