"""What listening, connecting and looking names up promise."""

import pytest
import trio

from sniffgate.address import Address, is_ip
from sniffgate.errors import CannotBind, ConnectRefused, NameUnresolved, PeerReset
from sniffgate.net.ports import Acceptor, Conn, Network

from .contract import (
    ANY_PORT,
    ANY_PORT6,
    HOST,
    HOST6,
    QUIET,
    connect_to,
    promise,
    receive_exactly,
    unserved,
)

NOT_OURS = Address("192.0.2.1", 0)  # a documentation address (RFC 5737)


@promise
async def both_ends_know_both_addresses(network: Network) -> None:
    """Logs and sessions are keyed by them."""
    for address in (ANY_PORT, ANY_PORT6):
        with await network.listen_tcp(address) as acceptor:
            client, server = await connect_to(network, acceptor)
            with client, server:
                assert acceptor.address == client.peer == server.local
                assert client.local == server.peer
                assert address.host == client.local.host
                assert client.local.port not in (0, acceptor.address.port)


@promise
async def port_zero_becomes_a_real_port(network: Network) -> None:
    """Tests and embedders ask for any port and read which."""
    with await network.listen_tcp(ANY_PORT) as acceptor:
        assert HOST == acceptor.address.host
        assert 0 < acceptor.address.port


@promise
async def the_empty_host_is_every_address_of_both_families(network: Network) -> None:
    """`:port` in a configuration means what it says, and an IPv4 client has one name."""
    with await network.listen_tcp(Address("", 0)) as acceptor:
        assert acceptor.address.is_wildcard
        for host in (HOST, HOST6):
            with (
                await network.connect_tcp(Address(host, acceptor.address.port)) as client,
                await acceptor.accept() as server,
            ):
                assert client.local == server.peer
                assert Address(host, acceptor.address.port) == server.local == client.peer


@promise
async def a_name_binds_its_first_address(network: Network) -> None:
    """Configurations may say localhost."""
    first = (await network.look_up("localhost"))[0]
    with (
        await network.listen_tcp(Address("localhost", 0)) as acceptor,
        await network.listen_udp(Address("localhost", 0)) as port,
    ):
        assert (first, first) == (acceptor.address.host, port.address.host)


@promise
async def a_second_bind_of_a_port_fails(network: Network) -> None:
    """A second instance must fail, not take half of the traffic."""
    with await network.listen_tcp(ANY_PORT) as acceptor, await network.listen_udp(ANY_PORT) as port:
        with pytest.raises(CannotBind, match=str(acceptor.address)):
            await network.listen_tcp(acceptor.address)
        with pytest.raises(CannotBind, match=str(port.address)):
            await network.listen_udp(port.address)


@promise
async def the_transports_do_not_share_ports(network: Network) -> None:
    """A listener pair for TCP and UDP usually has one number."""
    with await network.listen_tcp(ANY_PORT) as acceptor, await network.listen_udp(acceptor.address) as port:
        assert acceptor.address == port.address


@promise
async def an_address_that_is_not_ours_cannot_be_bound(network: Network) -> None:
    """The error names the address."""
    with pytest.raises(CannotBind, match=NOT_OURS.host):
        await network.listen_tcp(NOT_OURS)
    with pytest.raises(CannotBind, match=NOT_OURS.host):
        await network.listen_udp(NOT_OURS)


@promise
async def a_port_can_be_bound_again_after_its_server_closed_first(network: Network) -> None:
    """A restart works although the old connections linger."""
    with await network.listen_tcp(ANY_PORT) as acceptor:
        client, server = await connect_to(network, acceptor)
        server.close()
        assert b"" == await client.receive_some(10)
        client.close()
    with await network.listen_tcp(acceptor.address) as again:
        assert acceptor.address == again.address


@promise
async def closing_a_listener_leaves_its_connections_alone(network: Network) -> None:
    """A listener that goes must let its flows finish."""
    with await network.listen_tcp(ANY_PORT) as acceptor:
        client, server = await connect_to(network, acceptor)
    with client, server:
        await client.send_all(b"still here")
        assert b"still here" == await receive_exactly(server, 10)


@promise
async def closing_a_listener_resets_those_not_yet_accepted(network: Network) -> None:
    """A client in the backlog must hear that nobody will come."""
    with await network.listen_tcp(ANY_PORT) as acceptor:
        client = await network.connect_tcp(acceptor.address)
    with client, pytest.raises(PeerReset):
        await client.receive_some(10)


@promise
async def connecting_where_nobody_listens_is_refused(network: Network) -> None:
    """The fastest sign that a node is down."""
    with pytest.raises(ConnectRefused):
        await network.connect_tcp(await unserved(network))
    with pytest.raises(ConnectRefused):
        await network.connect_tcp(await unserved(network, ANY_PORT6))


@promise
async def a_client_that_left_before_it_was_accepted_does_not_stop_the_next(network: Network) -> None:
    """A kernel may hand such a client out or not; if it does, the client is seen as reset."""
    with await network.listen_tcp(ANY_PORT) as acceptor:
        (await network.connect_tcp(acceptor.address)).abort()
        with await network.connect_tcp(acceptor.address) as living:
            while True:
                with await acceptor.accept() as server:
                    if server.peer == living.local:
                        break
                    with pytest.raises(PeerReset):
                        await server.receive_some(10)


@promise
async def what_a_client_sent_before_it_was_accepted_is_kept(network: Network) -> None:
    """A short client may be gone before the server looks."""
    with await network.listen_tcp(ANY_PORT) as acceptor:
        with await network.connect_tcp(acceptor.address) as client:
            await client.send_all(b"hello and goodbye")
        with await acceptor.accept() as server:
            assert b"hello and goodbye" == await receive_exactly(server, 100)
            assert b"" == await server.receive_some(10)


@promise
async def a_cancelled_accept_loses_no_client(network: Network) -> None:
    """Whether the client came before or after the cancellation, the next accept or this one has it."""
    with await network.listen_tcp(ANY_PORT) as acceptor:
        for _ in range(20):
            got: list[Conn] = []
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_accept_into, acceptor, got)
                await trio.lowlevel.checkpoint()
                client = await network.connect_tcp(acceptor.address)
                nursery.cancel_scope.cancel()
            server = got[0] if got else await acceptor.accept()
            with client, server:
                assert client.local == server.peer


async def _accept_into(acceptor: Acceptor, got: list[Conn]) -> None:
    got.append(await acceptor.accept())


@promise
async def closing_a_listener_wakes_its_waiter_and_does_nothing_twice(network: Network) -> None:
    """Listeners are closed from outside when a reload removes them."""
    acceptor = await network.listen_tcp(ANY_PORT)
    async with trio.open_nursery() as nursery:

        async def accept() -> None:
            with pytest.raises(trio.ClosedResourceError):
                await acceptor.accept()

        nursery.start_soon(accept)
        await trio.sleep(QUIET)
        acceptor.close()
    acceptor.close()
    with acceptor:
        pass
    with pytest.raises(trio.ClosedResourceError):
        await acceptor.accept()


@promise
async def a_name_is_looked_up_to_literal_addresses_each_once(network: Network) -> None:
    """What is connected to is always a literal address."""
    addresses = await network.look_up("localhost")

    assert addresses
    assert len(addresses) == len(set(addresses))
    assert all(map(is_ip, addresses))
    assert {HOST, HOST6} >= set(addresses)


@promise
async def a_literal_address_is_its_own_look_up(network: Network) -> None:
    """Callers need not tell the two apart."""
    assert (HOST,) == await network.look_up(HOST)
    assert (HOST6,) == await network.look_up(HOST6)


@promise
async def a_name_without_an_address_is_unresolved(network: Network) -> None:
    """One error for whatever a resolver may say (the name is reserved by RFC 6761)."""
    with pytest.raises(NameUnresolved, match=r"no-such-host\.invalid"):
        await network.look_up("no-such-host.invalid")
