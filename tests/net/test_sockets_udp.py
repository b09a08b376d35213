"""UDP on the kernel: what only a kernel does, beyond the contract that every network keeps."""

import errno
import os
import socket
import subprocess
import time
from pathlib import Path

import pytest
import trio
import trio.testing

from sniffgate.address import Address
from sniffgate.errors import DatagramRefused, DatagramTooLong, LocalShortage, Unreachable
from sniffgate.net.errno_map import shortage
from sniffgate.net.ports import DatagramConn
from sniffgate.net.sockets import SocketNetwork
from sniffgate.net.udp_listener import LISTENER_BUFFER

from .contract import ANY_PORT, ANY_PORT6, HOST, HOST6, unserved_udp
from .namespace import run_isolated

pytestmark = pytest.mark.realnet
LIMIT = 5.0
RMEM_MAX = Path("/proc/sys/net/core/rmem_max")


async def heard(conn: DatagramConn, count: int) -> list[tuple[str, bytes | None]]:
    """The next datagrams and refusals, each marked as what it is."""
    got: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        try:
            got.append(("arrived", await conn.receive()))
        except DatagramRefused as refusal:
            got.append(("refused", refusal.quote))
    return got


@pytest.mark.parametrize("wildcard", ["", "0.0.0.0"])
async def test_answers_leave_from_the_address_written_to(wildcard: str) -> None:
    """A client that wrote to the second address of a machine drops answers from the first."""
    network = SocketNetwork()
    with trio.fail_after(LIMIT), await network.listen_udp(Address(wildcard, 0)) as port:
        for host in (HOST, "127.0.0.2"):
            with network.connect_udp(Address(host, port.address.port)) as conn:
                conn.send_nowait(b"question")
                datagram = await port.receive()
                assert (conn.local, conn.peer) == (datagram.client, datagram.local)
                port.send_nowait(b"answer", datagram.client, datagram.local)
                assert b"answer" == await conn.receive()


async def test_the_ipv6_wildcard_answers_ipv6_from_the_address_written_to() -> None:
    """The same on `[::]`, which has no IPv4 clients."""
    network = SocketNetwork()
    with trio.fail_after(LIMIT), await network.listen_udp(Address("::", 0)) as port:
        with network.connect_udp(Address(HOST6, port.address.port)) as conn:
            conn.send_nowait(b"question")
            datagram = await port.receive()
            assert (conn.local, conn.peer) == (datagram.client, datagram.local)
            port.send_nowait(b"answer", datagram.client, datagram.local)
            assert b"answer" == await conn.receive()
        with network.connect_udp(Address(HOST, port.address.port)) as conn:
            conn.send_nowait(b"question")
            with pytest.raises(DatagramRefused):
                await conn.receive()


async def test_an_answer_that_cannot_be_sent_is_a_drop() -> None:
    """One odd client, unreachable or of the wrong family, must not disturb the listener."""
    network = SocketNetwork()
    with trio.fail_after(LIMIT), await network.listen_udp(Address("", 0)) as port:
        nobody = await unserved_udp(network)
        six = await unserved_udp(network, ANY_PORT6)
        with pytest.raises(LocalShortage):
            port.send_nowait(b"x", six, Address(HOST, port.address.port))
        with pytest.raises(LocalShortage):
            port.send_nowait(b"x", nobody, Address("192.0.2.77", port.address.port))  # not an address of ours
        with pytest.raises(LocalShortage):
            port.send_nowait(b"x", Address("fe80::1", 9), Address("fe80::2%nowhere", port.address.port))
        port.send_nowait(b"x", nobody, port.address)  # from a wildcard: the kernel picks the source
        with network.connect_udp(Address(HOST, port.address.port)) as conn:
            conn.send_nowait(b"next")
            assert b"next" == (await port.receive()).data


async def test_the_largest_datagrams_of_each_family_pass_whole() -> None:
    """65,507 bytes is IPv4's limit; IPv6 takes 20 more, and nothing is ever cut."""
    network = SocketNetwork()
    with trio.fail_after(LIMIT):
        for address, most in ((ANY_PORT, 65507), (ANY_PORT6, 65527)):
            with await network.listen_udp(address) as port, network.connect_udp(port.address) as conn:
                data = os.urandom(most)
                conn.send_nowait(data)
                assert data == (await port.receive()).data
                with pytest.raises(DatagramTooLong):
                    conn.send_nowait(bytes(most + 1))


async def test_a_datagram_that_does_not_fit_leaves_nothing_that_spins() -> None:
    """Over IPv6 the kernel also queues a report of it, which would wake the receiver again and again."""
    network = SocketNetwork()
    with (
        trio.fail_after(LIMIT),
        await network.listen_udp(ANY_PORT6) as port,
        network.connect_udp(port.address) as conn,
    ):
        with pytest.raises(DatagramTooLong):
            conn.send_nowait(bytes(65528))
        busy = time.process_time()
        with trio.move_on_after(0.3) as patience:
            await conn.receive()
        assert patience.cancelled_caught
        assert time.process_time() - busy < 0.1


async def test_a_burst_waits_in_the_buffer() -> None:
    """While Python is busy elsewhere, the kernel's buffer is all there is; its default holds some 270."""
    network = SocketNetwork()
    allowed = int(RMEM_MAX.read_text())  # noqa: ASYNC240  # procfs does not block
    with (
        trio.fail_after(LIMIT),
        await network.listen_udp(ANY_PORT) as port,
        network.connect_udp(port.address) as conn,
    ):
        with socket.socket(fileno=os.dup(port.fileno())) as sock:
            assert 2 * min(LISTENER_BUFFER, allowed) == sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        if allowed < LISTENER_BUFFER:
            pytest.skip("net.core.rmem_max is too small here")
        sent = [b"%d" % n for n in range(2000)]
        for data in sent:
            conn.send_nowait(data)
        assert sent == [(await port.receive()).data for _ in sent]


@pytest.mark.parametrize("address", [ANY_PORT, ANY_PORT6], ids=["ipv4", "ipv6"])
async def test_a_pending_refusal_eats_neither_a_sent_nor_a_received_datagram(address: Address) -> None:
    """The kernel gives a pending error to the next call in place of doing its work."""
    network = SocketNetwork()
    with trio.fail_after(LIMIT), network.connect_udp(await unserved_udp(network, address)) as conn:
        conn.send_nowait(b"refused 1")
        conn.send_nowait(b"refused 2")  # takes the first error away
        with await network.listen_udp(conn.peer) as port:
            for data in (b"taken 1", b"taken 2"):
                conn.send_nowait(data)
            for data in (b"taken 1", b"taken 2"):
                datagram = await port.receive()
                assert data == datagram.data
                port.send_nowait(data, datagram.client, datagram.local)

            got = await heard(conn, 4)
        assert [b"refused 1", b"refused 2"] == [data for kind, data in got if kind == "refused"]
        assert [b"taken 1", b"taken 2"] == [data for kind, data in got if kind == "arrived"]


async def test_a_busy_node_does_not_hide_a_refusal() -> None:
    """Reports come before the datagrams that wait, or a stream of them would keep them back for ever."""
    network = SocketNetwork()
    with trio.fail_after(LIMIT), network.connect_udp(await unserved_udp(network)) as conn:
        with await network.listen_udp(conn.peer) as port:
            for _ in range(20):
                port.send_nowait(b"stream", conn.local, port.address)
        conn.send_nowait(b"refused")
        conn.send_nowait(b"refused too")
        assert ("refused", b"refused") in await heard(conn, 2)


async def test_a_waiting_receiver_hears_of_a_refusal_whose_error_a_sender_took() -> None:
    """The error queue alone must wake it."""
    network = SocketNetwork()
    with trio.fail_after(LIMIT), network.connect_udp(await unserved_udp(network)) as conn:
        got: list[tuple[str, bytes | None]] = []

        async def listen() -> None:
            got.extend(await heard(conn, 3))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(listen)
            await trio.testing.wait_all_tasks_blocked()
            for data in (b"1", b"2", b"3"):
                conn.send_nowait(data)
        assert [("refused", b"1"), ("refused", b"2"), ("refused", b"3")] == got


async def test_receiving_is_a_checkpoint_and_a_cancelled_one_takes_nothing() -> None:
    """A flood on one socket must not starve the others."""
    network = SocketNetwork()
    with (
        trio.fail_after(LIMIT),
        await network.listen_udp(ANY_PORT) as port,
        network.connect_udp(port.address) as conn,
    ):
        conn.send_nowait(b"kept")
        with trio.CancelScope() as scope:
            scope.cancel()
            await port.receive()
        with trio.testing.assert_checkpoints():
            datagram = await port.receive()
        port.send_nowait(b"kept", datagram.client, datagram.local)
        with trio.testing.assert_checkpoints():
            assert b"kept" == await conn.receive()


def test_full_buffers_are_a_shortage_of_ours() -> None:
    """Loopback never fills them, so the translation is tested alone."""
    assert {LocalShortage} == {type(shortage(number)) for number in (errno.EAGAIN, errno.ENOBUFS, errno.EPERM)}
    assert DatagramTooLong is type(shortage(errno.EMSGSIZE))


async def ports_run_out() -> None:
    """Child: four local ports in all."""
    network = SocketNetwork()
    with await network.listen_udp(Address(HOST, 100)) as port:
        held = [network.connect_udp(port.address) for _ in range(4)]
        with pytest.raises(LocalShortage):
            network.connect_udp(port.address)
        held[0].close()
        with network.connect_udp(port.address) as conn:
            assert conn.local.port == held[0].local.port
        for conn in held:
            conn.close()


def test_a_session_without_a_local_port_is_refused() -> None:
    """Some event loops call such a socket connected, and sending on it never returns."""
    run_isolated(ports_run_out, "echo 40000 40003 > /proc/sys/net/ipv4/ip_local_port_range")


async def connecting_avoids_the_port_of_the_node() -> None:
    """Child: two local ports, one of which is the node's."""
    for host in (HOST, HOST6):
        for _ in range(20):
            with SocketNetwork().connect_udp(Address(host, 40000)) as conn:
                assert 40001 == conn.local.port
                conn.send_nowait(b"x")
                assert [("refused", b"x")] == await heard(conn, 1)


def test_a_session_never_talks_to_itself() -> None:
    """A dead node on an ephemeral port of this machine would otherwise answer now and then."""
    run_isolated(connecting_avoids_the_port_of_the_node, "echo 40000 40001 > /proc/sys/net/ipv4/ip_local_port_range")


async def the_way_to_the_node_goes() -> None:
    """Child: a node behind an interface that is taken down."""
    network = SocketNetwork()
    with pytest.raises(Unreachable):
        network.connect_udp(Address("198.51.100.1", 9))
    with network.connect_udp(Address("192.0.2.2", 9)) as conn:
        got: list[tuple[str, bytes | None]] = []

        async def listen() -> None:
            got.extend(await heard(conn, 1))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(listen)
            await trio.testing.wait_all_tasks_blocked()
            subprocess.run(["ip", "link", "set", "v0", "down"], check=True)  # noqa: ASYNC221
            conn.send_nowait(b"no way")
        assert [("refused", b"no way")] == got


def test_a_datagram_without_a_route_counts_as_refused() -> None:
    """So its session moves to another node at once, as it does when a router says the same."""
    run_isolated(
        the_way_to_the_node_goes,
        "ip link add v0 type veth peer name v1",
        "ip addr add 192.0.2.1/24 dev v0",
        "ip link set v0 up",
        "ip link set v1 up",
    )


async def the_neighbour_is_gone() -> None:
    """Child: a node that answers no ARP."""
    with SocketNetwork().connect_udp(Address("192.0.2.2", 9)) as conn:
        conn.send_nowait(b"anybody?")
        assert [("refused", b"anybody?")] == await heard(conn, 1)


def test_a_host_that_is_gone_counts_as_refused() -> None:
    """The machine itself reports it, once its neighbour does not answer."""
    run_isolated(
        the_neighbour_is_gone,
        "ip link add v0 type veth peer name v1",
        "ip addr add 192.0.2.1/24 dev v0",
        "ip link set v0 up",
        "ip link set v1 up",
        "echo 50 > /proc/sys/net/ipv4/neigh/v0/retrans_time_ms",
    )
