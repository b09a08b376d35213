"""A gateway on the virtual network with its control port open, and operators who talk to it."""

import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import attrs
import trio

from sniffgate.address import Address
from sniffgate.config.schema import Config
from sniffgate.control.client import ControlClient
from sniffgate.control.listening import ControlSocket, open_control
from sniffgate.control.recent import Recent
from sniffgate.control.server import serve_control
from sniffgate.net.ports import Conn
from sniffgate.testing import VirtualGateway, open_gateway
from tests.tasks.configs import GATEWAY

PORT = Address("127.0.0.1", 9100)


@attrs.define(eq=False)
class Desk:
    """Where operators come to: the service behind it, its socket, and a way to connect."""

    service: VirtualGateway
    socket: ControlSocket
    memory: Recent
    scope: trio.CancelScope  # the server's

    @property
    def is_served(self) -> bool:
        """Whether the gateway's end of any connection to the control port is open."""
        sockets = (*self.service.network.open_sockets(), *self.service.network.host(GATEWAY).open_sockets())
        return sum(place.port == PORT.port for _, place in sockets) > 1  # one is the listening socket

    async def connect(self) -> Conn:
        """A raw connection to the control port."""
        host = self.service.client if self.socket.token else self.service.network
        return await host.connect_tcp(self.address)

    @property
    def address(self) -> Address:
        """Where it listens."""
        return Address(GATEWAY if self.socket.token else "127.0.0.1", PORT.port)

    async def client(self) -> ControlClient:
        """A connected client."""
        return ControlClient(await self.connect(), str(self.address))

    async def ask(self, line: str) -> dict[str, Any]:
        """One command over a connection of its own."""
        with await self.client() as client:
            return await client.ask(line)


@contextlib.asynccontextmanager
async def open_desk(config: Config, *, token_file: str = "") -> AsyncIterator[Desk]:
    """A running gateway with a control port: on its public address when there is a token, else on loopback."""
    memory = Recent()
    async with open_gateway(config, observers=(memory.observe,)) as service:
        memory.follow(service.gateway.services.incidents)
        host = service.network.host(GATEWAY) if token_file else service.network
        listen = f"{GATEWAY}:9100" if token_file else str(PORT)
        socket = await open_control(listen, token_file, host)
        scope = trio.CancelScope()

        async def serve() -> None:
            with scope:
                await serve_control(socket, service.gateway, memory)

        service.nursery.start_soon(serve)
        yield Desk(service, socket, memory, scope)


async def receive_all(conn: Conn) -> list[dict[str, Any]]:
    """Every reply until the other end closes."""
    text = b""
    while data := await conn.receive_some(100_000):
        text += data
    return [json.loads(line) for line in text.splitlines()]


async def wait_closed(conn: Conn) -> float:
    """When the other end closed, on Trio's clock."""
    while await conn.receive_some(100_000):
        pass
    return trio.current_time()
