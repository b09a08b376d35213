"""Reloads against the kernel: the very sockets stay, by their inodes in /proc/net."""

import contextlib
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio

from sniffgate.address import Address
from sniffgate.app import serve
from sniffgate.config.schema import Config, GlobalConfig, ListenerConfig, NodeConfig, ProbeKind, Transport
from sniffgate.errors import CannotBind
from sniffgate.tasks.gateway import Gateway

pytestmark = pytest.mark.realnet
LIMIT = 20.0
HOST = "127.0.0.1"


@asynccontextmanager
async def gateway_for(config: Config) -> AsyncIterator[Gateway]:
    """A gateway on this machine's network."""
    with trio.fail_after(LIMIT):
        async with trio.open_nursery() as nursery:
            gateway: Gateway = await nursery.start(serve, config)
            yield gateway
            assert 0 == gateway.ledger.crashes
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def echo() -> AsyncIterator[Address]:
    """A TCP server that sends back what it gets."""

    async def answer(stream: trio.SocketStream) -> None:
        async with stream:
            async for data in stream:
                await stream.send_all(data)

    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host=HOST)
        nursery.start_soon(trio.serve_listeners, answer, [listener])
        yield Address(HOST, listener.socket.getsockname()[1])
        nursery.cancel_scope.cancel()


def doors(*hosts: str) -> tuple[ListenerConfig, ...]:
    """A TCP and a UDP listener at any port of each host."""
    return tuple(
        ListenerConfig(name=f"{protocol.value}-{number}", protocol=protocol, listen=Address(host, 0))
        for number, host in enumerate(hosts)
        for protocol in Transport
    )


def config_of(node: Address, listeners: tuple[ListenerConfig, ...]) -> Config:
    """A configuration with one node that is not probed."""
    nodes = (NodeConfig(name="echo", tcp=node, udp=node, probe=ProbeKind.NONE),)
    return Config(globals=GlobalConfig(admin_listen=""), listeners=listeners, nodes=nodes)


def inodes(addresses: Mapping[str, Address]) -> dict[str, str]:
    """The inode of each listener's socket, as /proc/net has it."""
    found = {}
    for name, address in addresses.items():
        protocol = name.partition("-")[0]
        listening = "0A" if protocol == "tcp" else "07"
        for table in (protocol, protocol + "6"):
            for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
                fields = line.split()
                if int(fields[1].rpartition(":")[2], 16) == address.port and fields[3] == listening:
                    found[name] = fields[9]
    return found


async def talk(stream: trio.SocketStream, text: bytes = b"hi") -> bytes:
    """A round trip."""
    await stream.send_all(text)
    return bytes(await stream.receive_some(100))


async def ask(address: Address) -> bytes:
    """A round trip of a new client."""
    async with await trio.open_tcp_stream(HOST, address.port) as stream:
        return await talk(stream)


async def test_fifty_reloads_keep_the_very_sockets_and_their_flows() -> None:
    """A rebound port refuses clients for a moment, and a reload must not."""
    async with echo() as node:
        config = config_of(node, doors(HOST))
        async with gateway_for(config) as gateway:
            before = inodes(gateway.addresses)
            async with await trio.open_tcp_stream(HOST, gateway.addresses["tcp-0"].port) as stream:
                for round_ in range(50):
                    node_now = attrs.evolve(config.nodes[0], weight=round_)
                    listeners = tuple(attrs.evolve(each, idle_timeout=60.0 + round_) for each in config.listeners)
                    await gateway.apply(attrs.evolve(config, nodes=(node_now,), listeners=listeners))
                    assert b"hi" == await talk(stream)
                    assert b"hi" == await ask(gateway.addresses["tcp-0"])

            assert 2 == len(before)
            assert before == inodes(gateway.addresses)


async def test_two_listeners_swap_their_ports_and_keep_their_sockets() -> None:
    """The sockets change owners, not addresses."""
    async with echo() as node:
        async with gateway_for(config_of(node, doors(HOST, HOST))) as first:
            ports = first.addresses
        fixed = tuple(attrs.evolve(each, listen=ports[each.name]) for each in doors(HOST, HOST))
        config = config_of(node, fixed)
        async with gateway_for(config) as gateway:
            before = inodes(gateway.addresses)
            other = {"0": "1", "1": "0"}
            swapped = tuple(attrs.evolve(each, name=each.name[:-1] + other[each.name[-1]]) for each in fixed)
            await gateway.apply(attrs.evolve(config, listeners=swapped))

            assert {name[:-1] + other[name[-1]]: inode for name, inode in before.items()} == inodes(gateway.addresses)
            assert b"hi" == await ask(gateway.addresses["tcp-0"])


async def test_a_listener_widens_to_every_address_and_narrows_again() -> None:
    """Our own socket is in the way, over TCP and UDP, and makes way; flows go on."""
    async with echo() as node:
        async with gateway_for(config_of(node, doors(HOST))) as first:
            ports = first.addresses
        narrow = tuple(attrs.evolve(each, listen=ports[each.name]) for each in doors(HOST))
        wide = tuple(attrs.evolve(each, listen=Address("0.0.0.0", ports[each.name].port)) for each in narrow)
        config = config_of(node, narrow)
        async with gateway_for(config) as gateway, await trio.open_tcp_stream(HOST, ports["tcp-0"].port) as stream:
            assert b"hi" == await talk(stream)
            for listeners in (wide, narrow, wide):
                state = await gateway.apply(attrs.evolve(config, listeners=listeners))
                assert {each.name: each.listen for each in listeners} == gateway.addresses
                assert listeners == state.config.listeners
                assert b"hi" == await ask(gateway.addresses["tcp-0"])
            assert b"on" == await talk(stream, b"on")
            assert 2 == len(inodes(gateway.addresses))


async def test_clients_that_wait_at_a_socket_that_makes_way_are_served() -> None:
    """The kernel resets whoever it has accepted and nobody has taken in, and in a crowd there always is somebody."""
    async with echo() as node:
        config = config_of(node, doors(HOST))
        async with gateway_for(config) as gateway:
            bound = gateway.addresses
            wide = tuple(attrs.evolve(each, listen=Address("0.0.0.0", bound[each.name].port)) for each in doors(HOST))
            with contextlib.ExitStack() as stack:
                crowd = [  # connected without a checkpoint: no task can take one in before the reload begins
                    stack.enter_context(socket.create_connection((HOST, bound["tcp-0"].port), timeout=LIMIT))
                    for _ in range(20)
                ]
                await gateway.apply(attrs.evolve(config, listeners=wide))
                for client in crowd:
                    client.sendall(b"?")
                    assert b"?" == await trio.to_thread.run_sync(client.recv, 1)


async def test_a_listener_that_made_way_in_vain_serves_again() -> None:
    """Somebody else holds the port at another address: the old listener is bound again."""
    async with echo() as node:
        async with gateway_for(config_of(node, doors(HOST)[:1])) as first:
            port = first.addresses["tcp-0"].port
        narrow = (attrs.evolve(doors(HOST)[0], listen=Address(HOST, port)),)
        config = config_of(node, narrow)
        with trio.socket.socket() as foreign:
            await foreign.bind(("127.0.0.2", port))
            foreign.listen()
            async with gateway_for(config) as gateway, await trio.open_tcp_stream(HOST, port) as stream:
                assert b"hi" == await talk(stream)
                before = gateway.state
                wide = (attrs.evolve(narrow[0], listen=Address("0.0.0.0", port)),)
                with pytest.raises(CannotBind):
                    await gateway.apply(attrs.evolve(config, listeners=wide))

                assert before.config is gateway.state.config
                assert (b"on", b"hi") == (await talk(stream, b"on"), await ask(Address(HOST, port)))
