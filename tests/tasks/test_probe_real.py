"""A probe against the kernel: how it leaves a server, and that it leaves nothing behind."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from sniffgate.address import Address
from sniffgate.config.schema import Transport
from sniffgate.net.sockets import SocketNetwork
from sniffgate.state.model import Endpoint
from sniffgate.tasks.probe import Bad, Good, ProbeResult, ProbeSpec, probe_once, run_probe

pytestmark = pytest.mark.realnet
LIMIT = 20.0
HOST = "127.0.0.1"


class Literal:
    """Names of a test that uses none."""

    async def addresses(self, address: Address) -> tuple[Address, ...]:
        await trio.lowlevel.checkpoint()
        return (address,)


def tcp(port: int, *, payload: bytes = b"", expect: bytes = b"", timeout: float = 5.0) -> ProbeSpec:
    return ProbeSpec(Endpoint("node-a", Transport.TCP), Address(HOST, port), payload, expect, timeout, False)


def udp(port: int, *, expect: bytes = b"", timeout: float = 5.0, silence_fails: bool = True) -> ProbeSpec:
    return ProbeSpec(Endpoint("node-a", Transport.UDP), Address(HOST, port), b"", expect, timeout, silence_fails)


async def probe(spec: ProbeSpec) -> ProbeResult:
    return await probe_once(spec, SocketNetwork(), Literal())


@asynccontextmanager
async def bound(kind: int) -> AsyncIterator[trio.socket.SocketType]:
    with trio.socket.socket(trio.socket.AF_INET, kind) as sock:
        await sock.bind((HOST, 0))
        yield sock


@asynccontextmanager
async def listening() -> AsyncIterator[tuple[trio.socket.SocketType, int]]:
    async with bound(trio.socket.SOCK_STREAM) as sock:
        sock.listen(512)
        yield sock, sock.getsockname()[1]


@pytest.mark.parametrize("thinks", [0.0, 0.03])
async def test_a_server_that_speaks_first_sees_an_end_of_stream(thinks: float) -> None:
    """A reset would count as an aborted connection there, and enough of them block the gateway's host."""
    endings: list[tuple[bytes, int]] = []

    async def serve(listener: trio.socket.SocketType) -> None:
        for _ in range(10):
            conn, _ = await listener.accept()
            with conn:
                await trio.sleep(thinks)
                await conn.send(b"5.7.0-greeting")
                ending = await conn.recv(100)
                # A reset behind the end of stream shows only here.
                endings.append((ending, conn.getsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_ERROR)))

    with trio.fail_after(LIMIT):
        async with listening() as (listener, port), trio.open_nursery() as servers:
            servers.start_soon(serve, listener)
            results = [await probe(tcp(port)) for _ in range(10)]

    assert [True] * 10 == [isinstance(result, Good) for result in results]
    assert [(b"", 0)] * 10 == endings


async def test_a_closed_tcp_port_is_refused() -> None:
    """The plainest failure of all, in words that fit a status line."""
    with trio.fail_after(LIMIT):
        async with listening() as (_, port):
            pass
        assert Bad("connection refused") == await probe(tcp(port))


async def test_a_closed_udp_port_is_refused_whether_or_not_silence_fails() -> None:
    """The kernel's ICMP answer is evidence, where silence would be none."""
    with trio.fail_after(LIMIT):
        async with bound(trio.socket.SOCK_DGRAM) as sock:
            port = sock.getsockname()[1]
        for silence_fails in (True, False):
            assert Bad("datagram refused") == await probe(udp(port, silence_fails=silence_fails))


async def test_an_answer_in_two_segments_is_the_expected_one() -> None:
    """TCP has no messages: half a match is not a failure."""

    async def serve(listener: trio.socket.SocketType) -> None:
        conn, _ = await listener.accept()
        with conn:
            conn.setsockopt(trio.socket.IPPROTO_TCP, trio.socket.TCP_NODELAY, 1)
            assert b"PING" == await conn.recv(100)
            await conn.send(b"+PO")
            await trio.sleep(0.02)
            await conn.send(b"NG\r\n")
            assert b"" == await conn.recv(100)

    with trio.fail_after(LIMIT):
        async with listening() as (listener, port), trio.open_nursery() as servers:
            servers.start_soon(serve, listener)
            result = await probe(tcp(port, payload=b"PING", expect=b"PONG"))

    assert isinstance(result, Good)


async def test_a_udp_reply_from_another_port_does_not_count() -> None:
    """Whoever sits at another port is not the service that was asked."""

    async def serve(sock: trio.socket.SocketType, other: trio.socket.SocketType) -> None:
        _, asker = await sock.recvfrom(100)
        await other.sendto(b"pong", asker)

    with trio.fail_after(LIMIT):
        async with (
            bound(trio.socket.SOCK_DGRAM) as sock,
            bound(trio.socket.SOCK_DGRAM) as other,
            trio.open_nursery() as servers,
        ):
            servers.start_soon(serve, sock, other)
            result = await probe(udp(sock.getsockname()[1], expect=b"pong", timeout=0.1))

    assert Bad("no answer in 100 ms") == result


async def test_two_hundred_probes_leave_no_descriptor_behind() -> None:
    """A prober runs for years; cancelled and hanging probes must give back what they opened."""

    async def run_out(spec: ProbeSpec) -> None:
        await probe(spec)

    async def cut_while_waiting(spec: ProbeSpec) -> None:
        with trio.move_on_after(0.005):
            await probe(spec)

    async def cut_while_leaving(spec: ProbeSpec) -> None:
        with trio.CancelScope() as scope:
            await run_probe(spec, SocketNetwork(), Literal(), lambda _: scope.cancel())

    with trio.fail_after(LIMIT):
        async with listening() as (_, mute), bound(trio.socket.SOCK_DGRAM) as silent:
            quiet = silent.getsockname()[1]
            ways = [
                (run_out, tcp(mute, expect=b"never", timeout=0.02)),
                (run_out, udp(quiet, timeout=0.02)),
                (cut_while_waiting, tcp(mute, expect=b"never")),
                (cut_while_waiting, udp(quiet)),
                (cut_while_leaving, tcp(mute)),
            ]
            before = len(os.listdir("/proc/self/fd"))
            for _ in range(10):
                async with trio.open_nursery() as probes:
                    for way, spec in ways * 4:
                        probes.start_soon(way, spec)
                assert before == len(os.listdir("/proc/self/fd"))
