"""The gateway's network with a place to step in: for calls that are to be counted, delayed or failed."""

from ..address import Address
from ..net.ports import Acceptor, Conn, Connecting, DatagramConn, DatagramPort
from .connecting import VirtualConnecting
from .virtual import VirtualHost


class Detour:
    """A `net.ports.Network` that passes everything on to `host`. Subclass it, and say `open_gateway(through=...)`.

    class NoMoreSockets(Detour):
        async def connect_tcp(self, address, *, user_timeout=0.0):
            raise LocalShortage("too many open files")
    """

    def __init__(self, host: VirtualHost) -> None:
        self.host = host

    async def look_up(self, host: str) -> tuple[str, ...]:
        """As `Network.look_up`."""
        return await self.host.look_up(host)

    async def listen_tcp(self, address: Address) -> Acceptor:
        """As `Network.listen_tcp`."""
        return await self.host.listen_tcp(address)

    async def listen_udp(self, address: Address) -> DatagramPort:
        """As `Network.listen_udp`."""
        return await self.host.listen_udp(address)

    async def connect_tcp(self, address: Address, *, user_timeout: float = 0.0) -> Conn:
        """As `Network.connect_tcp`; what `begin_connect` begins comes through here too."""
        return await self.host.connect_tcp(address, user_timeout=user_timeout)

    def begin_connect(self, address: Address, *, user_timeout: float = 0.0) -> Connecting:
        """As `Network.begin_connect`."""
        return VirtualConnecting(lambda: self.connect_tcp(address, user_timeout=user_timeout))

    def connect_udp(self, address: Address) -> DatagramConn:
        """As `Network.connect_udp`."""
        return self.host.connect_udp(address)
