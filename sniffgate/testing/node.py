"""One node as a process: `python -m sniffgate.testing.node NAME SCRIPT TCP_PORT UDP_PORT`.

Port 0 takes a free one, `-` none. Prints `ready TCP_PORT UDP_PORT`. Then each line of standard input is an order,
confirmed with `done`: `refuse`, `black_hole`, `close_udp`, `slow SECONDS`, `reset_after BYTES`, `recover`. Ends when
standard input does.
"""

import contextlib
import importlib
import os
import socket
import sys

import trio

from ..address import Address
from ..config.schema import Transport
from ..net.sockets import SocketNetwork
from .scripts import SCRIPTS, Script
from .serving import NodeServer

HOST = "127.0.0.1"
PLUGS = 4  # connections that fill an accept queue of length 0, with some to spare


class Process:
    """The node of this process: a server, its two ports, and the orders it obeys."""

    def __init__(self, server: NodeServer, ports: dict[Transport, Address]) -> None:
        self._server = server
        self._ports = ports
        self._open: dict[Transport, trio.CancelScope] = {}
        self._closed: dict[Transport, trio.Event] = {}
        self._hole: list[socket.socket] = []
        self._network = SocketNetwork()

    @property
    def ports(self) -> str:
        """As the `ready` line has them."""
        return " ".join(str(self._ports[each].port) if each in self._ports else "-" for each in Transport)

    async def obey(self, order: str, clients: trio.Nursery) -> None:
        """Carries out one line."""
        match order.split():
            case ["refuse"]:
                await self.close(*Transport)
            case ["close_udp"]:
                await self.close(Transport.UDP)
            case ["black_hole"]:
                await self.close(Transport.TCP)
                self._server.fall_silent()
                if Transport.TCP in self._ports and not self._hole:
                    self._hole = list(_black_hole(self._ports[Transport.TCP].port))
            case ["slow", seconds]:
                self._server.delay = float(seconds)
            case ["reset_after", size]:
                self._server.reset_after = int(size)
            case ["recover"]:
                self._server.delay, self._server.reset_after = 0.0, None
                self._server.speak()
                for each in self._hole:
                    each.close()
                self._hole.clear()
                await self.open(clients)

    async def open(self, clients: trio.Nursery) -> None:
        """Opens each port that is closed."""
        for transport in [each for each in self._ports if each not in self._open]:
            await clients.start(self._serve, transport, clients)

    async def close(self, *transports: Transport) -> None:
        """Closes ports; returns when they are."""
        for transport in [each for each in transports if each in self._open]:
            self._open.pop(transport).cancel()
            await self._closed[transport].wait()

    async def _serve(self, transport: Transport, clients: trio.Nursery, *, task_status: trio.TaskStatus[None]) -> None:
        address, closed = self._ports[transport], trio.Event()
        with contextlib.ExitStack() as stack, trio.CancelScope() as scope:
            stack.callback(closed.set)
            if transport is Transport.TCP:
                acceptor = stack.enter_context(await self._network.listen_tcp(address))
                self._ports[transport] = acceptor.address
            else:
                port = stack.enter_context(await self._network.listen_udp(address))
                self._ports[transport] = port.address
            self._open[transport], self._closed[transport] = scope, closed
            task_status.started()
            if transport is Transport.TCP:
                await self._server.accept_forever(acceptor, clients)
            else:
                await self._server.answer_forever(port, clients)


def _black_hole(port: int) -> list[socket.socket]:
    """A port whose SYNs vanish: Linux drops them while the accept queue is full."""
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind((HOST, port))
    listening.listen(0)
    plugs = [socket.socket() for _ in range(PLUGS)]
    for plug in plugs:
        plug.setblocking(False)
        plug.connect_ex((HOST, port))
    return [listening, *plugs]


def find_script(name: str) -> Script:
    """A script by its name here, or by `module:name`."""
    module, colon, attribute = name.partition(":")
    found = getattr(importlib.import_module(module), attribute) if colon else SCRIPTS[name]
    assert isinstance(found, Script)
    return found


async def run(name: str, script: str, ports: dict[Transport, Address]) -> None:
    """Serves until standard input ends."""
    process = Process(NodeServer(name, find_script(script)), ports)
    async with trio.open_nursery() as clients:
        await process.open(clients)
        print("ready", process.ports, flush=True)
        unread = b""
        while True:
            await trio.lowlevel.wait_readable(sys.stdin)
            received = os.read(sys.stdin.fileno(), 4096)
            if not received:
                clients.cancel_scope.cancel()
                return
            *orders, unread = (unread + received).split(b"\n")
            for order in orders:
                await process.obey(order.decode(), clients)
                print("done", flush=True)


def main(name: str, script: str, tcp: str, udp: str) -> None:
    """The process."""
    wanted = ((Transport.TCP, tcp), (Transport.UDP, udp))
    ports = {transport: Address(HOST, int(port)) for transport, port in wanted if port != "-"}
    trio.run(run, name, script, ports)


if __name__ == "__main__":
    main(*sys.argv[1:])
