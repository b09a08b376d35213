"""TCP on the kernel: what only a kernel does, beyond the contract that every network keeps."""

import errno
import os
import resource
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest
import trio
import trio.testing

from sniffgate.address import Address
from sniffgate.errors import CannotBind, ConnectRefused, ConnectTimedOut, LocalShortage, PeerReset, Side, Unreachable
from sniffgate.net.errno_map import bind_failure, connect_failure
from sniffgate.net.ports import Network
from sniffgate.net.sockets import SocketNetwork
from sniffgate.net.tcp_sockets import SocketConn

from .contract import ANY_PORT, HOST, HOST6, receive_to_end, until
from .namespace import run_isolated

pytestmark = pytest.mark.realnet
LIMIT = 5.0
KEEPALIVE = ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT")


@asynccontextmanager
async def pair() -> AsyncIterator[tuple[SocketConn, SocketConn]]:
    """A connection, as the kernel's own class: the end that connected and the end that accepted."""
    network = SocketNetwork()
    with (
        trio.fail_after(LIMIT),
        await network.listen_tcp(ANY_PORT) as acceptor,
        await network.connect_tcp(acceptor.address) as client,
        await acceptor.accept() as server,
    ):
        yield client, server


def option(conn: SocketConn, name: str) -> int:
    level = socket.SOL_SOCKET if name.startswith("SO_") else socket.IPPROTO_TCP
    with socket.socket(fileno=os.dup(conn.fileno())) as sock:
        return sock.getsockopt(level, getattr(socket, name))


@contextmanager
def no_descriptor_left() -> Iterator[None]:
    """Every descriptor below the limit is in use."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.dup(0)
    os.close(lowest_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_real_network_is_a_network() -> None:
    """The type checker compares it with the protocol here."""
    network: Network = SocketNetwork()
    assert isinstance(network, SocketNetwork)


async def test_small_writes_go_out_at_once_and_vanished_peers_are_found() -> None:
    """Both ends need the options; the accepted one has them from its listener."""
    async with pair() as conns:
        for conn in conns:
            assert 1 == option(conn, "TCP_NODELAY")
            assert 1 == option(conn, "SO_KEEPALIVE")
            assert (30, 10, 3) == tuple(option(conn, name) for name in KEEPALIVE)


async def test_the_user_timeout_is_set_on_both_kinds_of_connection() -> None:
    """Accepted connections get their listener's, opened ones the caller's; a reload may change it."""
    network = SocketNetwork()
    with (  # noqa: ASYNC100  # the awaits are in the items themselves
        trio.fail_after(LIMIT),
        await network.listen_tcp(ANY_PORT) as acceptor,
        await network.connect_tcp(acceptor.address, user_timeout=1.5) as client,
        await acceptor.accept() as server,
    ):
        assert (1500, 0) == (option(client, "TCP_USER_TIMEOUT"), option(server, "TCP_USER_TIMEOUT"))
        server.set_user_timeout(120)
        client.set_user_timeout(0)
        assert (0, 120000) == (option(client, "TCP_USER_TIMEOUT"), option(server, "TCP_USER_TIMEOUT"))
        server.set_user_timeout(0.0001)
        assert 1 == option(server, "TCP_USER_TIMEOUT")  # 0 would mean the system's
        server.close()
        server.set_user_timeout(1)


async def test_a_peer_that_acknowledges_nothing_within_the_user_timeout_counts_as_reset() -> None:
    """A full window counts too: without the bound the kernel would wait for a quarter of an hour."""
    async with pair() as (client, _server):
        client.set_user_timeout(0.3)
        with pytest.raises(PeerReset) as reset:  # noqa: PT012  # until the kernel says so
            while True:
                await client.send_all(bytes(1_000_000))
        assert (Side.UPSTREAM, "Connection timed out") == (reset.value.side, str(reset.value))
        with pytest.raises(PeerReset):
            await client.receive_some(1)


async def test_an_end_of_stream_that_came_before_the_reset_is_received_after_a_failed_send() -> None:
    """A complete answer stays complete, though its node resets what the client goes on sending."""
    async with pair() as (client, server):
        await server.send_all(b"answer")
        await server.send_eof()
        server.close()
        with pytest.raises(PeerReset):  # noqa: PT012  # the kernel takes some bytes before the reset is there
            while True:
                await client.send_all(b"more")
                await trio.sleep(0.001)

        assert b"answer" == await receive_to_end(client)
        assert b"" == await client.receive_some(1)


async def test_half_close_leaves_the_other_direction_open() -> None:
    """Requests end before their answers begin."""
    async with pair() as (client, server):
        await client.send_all(b"question")
        await client.send_eof()
        assert b"question" == await receive_to_end(server)
        await server.send_all(b"answer")
        server.close()
        assert b"answer" == await receive_to_end(client)
        with pytest.raises(trio.ClosedResourceError):
            await client.send_all(b"after the end")


async def test_unsent_counts_what_the_peer_does_not_have_and_nothing_else() -> None:
    """An end of stream is no byte, and after a reset nothing is on its way, whatever the kernel's counter says."""
    async with pair() as (client, server):
        assert 0 == client.unsent()
        await client.send_eof()
        assert 0 == client.unsent()
        with trio.move_on_after(0.2):
            while True:
                await server.send_all(bytes(1_000_000))
        assert server.unsent() > 0
        client.abort()
        await until(lambda: server.unsent() == 0)
        server.close()
        assert 0 == server.unsent()


async def test_every_operation_is_a_checkpoint_even_when_it_need_not_wait() -> None:
    """A busy connection must not starve the others, and a cancelled task must notice."""
    async with pair() as (client, server):
        await server.send_all(b"xyz")
        for operation in (
            lambda: client.send_all(b"x"),
            lambda: client.receive_some(1),
            lambda: client.send_eof(),
        ):
            with trio.testing.assert_checkpoints():
                await operation()
        await server.send_eof()
        await receive_to_end(client)
        with trio.testing.assert_checkpoints():
            await client.receive_some(1)


async def test_a_cancelled_receive_takes_no_data() -> None:
    """What is taken from the kernel is returned."""
    async with pair() as (client, server):
        await server.send_all(b"kept")
        await until(lambda: server.unsent() == 0)
        with trio.CancelScope() as scope:
            scope.cancel()
            await client.receive_some(10)
        assert scope.cancelled_caught
        assert b"kept" == await client.receive_some(10)


async def test_a_burst_of_clients_waits_in_the_backlog() -> None:
    """Clients that come while accepting pauses are not turned away."""
    network = SocketNetwork()
    with trio.fail_after(LIMIT), await network.listen_tcp(ANY_PORT) as acceptor:
        clients = [await network.connect_tcp(acceptor.address) for _ in range(300)]
        servers = [await acceptor.accept() for _ in clients]
        assert {client.local for client in clients} == {server.peer for server in servers}
        for conn in clients + servers:
            conn.close()


async def test_running_out_of_descriptors_is_our_own_shortage() -> None:
    """It says nothing about a node, and the waiting client is served once there is one again."""
    network = SocketNetwork()
    with (
        trio.fail_after(LIMIT),
        await network.listen_tcp(ANY_PORT) as acceptor,
        await network.connect_tcp(acceptor.address) as client,
    ):
        with no_descriptor_left():
            with pytest.raises(LocalShortage):
                await acceptor.accept()
            with pytest.raises(LocalShortage):
                await network.connect_tcp(acceptor.address)
            with pytest.raises(LocalShortage):
                network.connect_udp(acceptor.address)
            with pytest.raises(CannotBind, match="no file descriptor is left"):
                await network.listen_tcp(ANY_PORT)
        with await acceptor.accept() as server:
            assert client.local == server.peer


async def test_cancelling_a_connect_closes_its_socket() -> None:
    """A hedge's loser must not linger. A full backlog makes a black hole without privileges."""
    with trio.fail_after(LIMIT), socket.socket() as hole, socket.socket() as filler:
        hole.bind((HOST, 0))
        hole.listen(0)
        filler.connect(hole.getsockname())
        before = os.listdir("/proc/self/fd")
        with trio.move_on_after(0.1) as patience:
            await SocketNetwork().connect_tcp(Address(*hole.getsockname()))
        assert patience.cancelled_caught
        assert len(before) == len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("transport", ["tcp", "udp"])
async def test_both_wildcards_stand_on_one_port_each_for_its_family(transport: str) -> None:
    """`0.0.0.0:P` and `[::]:P` are two listeners; `:P` is both in one, so it collides with either."""
    network = SocketNetwork()
    listen = network.listen_tcp if transport == "tcp" else network.listen_udp
    with trio.fail_after(LIMIT), await listen(Address("::", 0)) as six:
        port = six.address.port
        assert Address("::", port) == six.address
        if transport == "tcp":
            with pytest.raises(ConnectRefused):
                await network.connect_tcp(Address(HOST, port))
        with await listen(Address("0.0.0.0", port)) as four:
            assert Address("0.0.0.0", port) == four.address
            if transport == "tcp":
                (await network.connect_tcp(Address(HOST, port))).close()
                (await network.connect_tcp(Address(HOST6, port))).close()
        with pytest.raises(CannotBind):
            await listen(Address("", port))


@pytest.mark.parametrize("transport", ["tcp", "udp"])
async def test_an_address_in_use_is_named_with_transport_and_reason(transport: str) -> None:
    """The operator reads this line and nothing else."""
    network = SocketNetwork()
    listen = network.listen_tcp if transport == "tcp" else network.listen_udp
    with trio.fail_after(LIMIT), await listen(ANY_PORT) as first, pytest.raises(CannotBind) as refused:
        await listen(first.address)
    assert f"cannot bind {transport} {first.address}: address already in use" == str(refused.value)


async def test_a_name_that_cannot_be_bound_is_named_as_it_was_written() -> None:
    """The operator wrote a name, not an address."""
    with trio.fail_after(LIMIT), pytest.raises(CannotBind, match=r"cannot bind tcp no-such-host\.invalid:80: "):
        await SocketNetwork().listen_tcp(Address("no-such-host.invalid", 80))


@pytest.mark.parametrize(
    ("number", "host", "port", "reason"),
    [
        (errno.EACCES, HOST, 80, "permission denied: ports below 1024 need CAP_NET_BIND_SERVICE"),
        (errno.EACCES, HOST, 8080, "permission denied"),
        (errno.EADDRNOTAVAIL, "192.0.2.9", 8080, "no such address on this machine"),
        (errno.EINVAL, "fe80::1", 8080, "a link-local address needs its interface: fe80::1%eth0"),
        (errno.ENODEV, "fe80::1%eth9", 8080, "no such interface: eth9"),
        (errno.EAFNOSUPPORT, "::1", 8080, "this machine does not have that address family"),
        (errno.EIO, HOST, 8080, "Input/output error"),
    ],
)
def test_the_reason_of_a_failed_bind_is_plain(number: int, host: str, port: int, reason: str) -> None:
    """An errno alone does not say what to do."""
    address = Address(host, port)
    error = bind_failure(OSError(number, os.strerror(number)), "tcp", address)
    assert f"cannot bind tcp {address}: {reason}" == str(error)


@pytest.mark.parametrize(
    ("kind", "numbers"),
    [
        (ConnectRefused, (errno.ECONNREFUSED, errno.ECONNRESET)),
        (Unreachable, (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN, errno.EINVAL)),
        (ConnectTimedOut, (errno.ETIMEDOUT,)),
        (
            LocalShortage,
            (errno.EMFILE, errno.ENFILE, errno.EADDRNOTAVAIL, errno.EAGAIN, errno.ENOBUFS, errno.ENOMEM),
        ),
    ],
)
def test_every_errno_of_connect_has_its_side(kind: type[Exception], numbers: tuple[int, ...]) -> None:
    """Our own shortage must never eject a node."""
    assert {kind} == {type(connect_failure(number, ANY_PORT)) for number in numbers}


async def ports_run_out() -> None:
    """Child: four local ports in all."""
    network = SocketNetwork()
    with await network.listen_tcp(Address(HOST, 100)) as acceptor:
        held = [await network.connect_tcp(acceptor.address) for _ in range(4)]
        with pytest.raises(LocalShortage):
            await network.connect_tcp(acceptor.address)
        held[0].abort()
        with await network.connect_tcp(acceptor.address):
            pass
        for conn in held:
            conn.close()


def test_a_shortage_of_local_ports_is_no_evidence_about_the_node() -> None:
    """The node never heard of the attempt."""
    run_isolated(ports_run_out, "echo 40000 40003 > /proc/sys/net/ipv4/ip_local_port_range")


async def connecting_meets_itself() -> None:
    """Child: the only local port there is, is the one connected to."""
    for host in (HOST, HOST6):
        for _ in range(3):
            with pytest.raises(ConnectRefused, match="met itself"):
                await SocketNetwork().connect_tcp(Address(host, 40000))
        with await SocketNetwork().listen_tcp(Address(host, 40000)):
            pass  # and nothing of the attempts stands in the way of the node that comes back


def test_a_connect_that_meets_itself_is_refused() -> None:
    """A dead node on an ephemeral port of this machine would otherwise look alive now and then."""
    run_isolated(connecting_meets_itself, "echo 40000 40000 > /proc/sys/net/ipv4/ip_local_port_range")


async def link_local_needs_its_zone() -> None:
    """Child: fe80::1 on lo."""
    network = SocketNetwork()
    with await network.listen_tcp(Address("fe80::1%lo", 0)) as acceptor:
        assert "fe80::1%lo" == acceptor.address.host
        with await network.connect_tcp(acceptor.address) as client, await acceptor.accept() as server:
            assert (client.local, client.peer) == (server.peer, server.local)
        with pytest.raises(Unreachable):
            await network.connect_tcp(Address("fe80::1", acceptor.address.port))
        with pytest.raises(Unreachable):
            await network.connect_tcp(Address("fe80::1%nowhere", acceptor.address.port))
    with pytest.raises(CannotBind, match="needs its interface"):
        await network.listen_tcp(Address("fe80::1", 0))
    for wildcard in ("", "::"):
        with (
            await network.listen_udp(Address(wildcard, 0)) as port,
            network.connect_udp(Address("fe80::1%lo", port.address.port)) as conn,
        ):
            conn.send_nowait(b"question")
            datagram = await port.receive()
            assert (conn.local, conn.peer) == (datagram.client, datagram.local)
            port.send_nowait(b"answer", datagram.client, datagram.local)
            assert b"answer" == await conn.receive()


def test_link_local_addresses_work_with_their_zone() -> None:
    """The zone survives resolution, connecting and answering; without one the fault is plain."""
    run_isolated(link_local_needs_its_zone, "ip addr add fe80::1/64 dev lo nodad")


async def there_is_no_ipv6() -> None:
    """Child: IPv6 is switched off."""
    network = SocketNetwork()
    with await network.listen_tcp(Address("", 0)) as acceptor, await network.listen_udp(Address("", 0)) as port:
        assert ("", "") == (acceptor.address.host, port.address.host)
        with (
            await network.connect_tcp(Address(HOST, acceptor.address.port)) as client,
            await acceptor.accept() as server,
        ):
            assert (client.local, client.peer) == (server.peer, server.local)
        with network.connect_udp(Address("127.0.0.2", port.address.port)) as conn:
            conn.send_nowait(b"question")
            datagram = await port.receive()
            port.send_nowait(b"answer", datagram.client, datagram.local)
            assert b"answer" == await conn.receive()
        with pytest.raises(Unreachable):
            await network.connect_tcp(Address(HOST6, acceptor.address.port))


def test_without_ipv6_the_empty_host_is_ipv4_alone() -> None:
    """Many containers have none, and a name's IPv6 address there is unreachable, not a shortage of ours."""
    run_isolated(there_is_no_ipv6, "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6")
