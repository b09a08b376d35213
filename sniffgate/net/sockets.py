"""The real network: `Network` from the kernel's sockets and the system's resolver."""

import functools
import socket

import trio

from ..address import Address, canonical_host, is_ip
from ..errors import NameUnresolved
from .errno_map import cannot_bind
from .tcp_connecting import SocketConnecting
from .tcp_sockets import SocketAcceptor, SocketConn, open_acceptor
from .udp_listener import SocketDatagramPort, open_datagram_port
from .udp_sockets import SocketDatagramConn, open_datagram_conn

# A look-up is a thread, and one that hangs keeps its place even when nobody waits for it any more. So they have places
# of their own, and never delay the file reads and the like that use Trio's common ones.
LOOK_UPS_AT_ONCE = 64


class SocketNetwork:
    """A `Network` on the kernel's sockets.

    Listening, the same for TCP and UDP: host "" is both families on one socket (IPv4 alone where there is no IPv6);
    "0.0.0.0" is IPv4 alone and "::" is IPv6 alone, so that both can stand on one port. IPv4 clients always appear as
    plain IPv4.
    """

    def __init__(self) -> None:
        self._look_ups = trio.CapacityLimiter(LOOK_UPS_AT_ONCE)

    async def look_up(self, host: str) -> tuple[str, ...]:
        """See `Network.look_up`. *Cancellation:* at once; the abandoned thread ends when the system's resolver does."""
        if is_ip(host):
            await trio.lowlevel.checkpoint()
            return (host,)
        ask = functools.partial(socket.getaddrinfo, host, None, type=socket.SOCK_STREAM)
        try:
            found = await trio.to_thread.run_sync(ask, abandon_on_cancel=True, limiter=self._look_ups)
        except socket.gaierror as error:
            raise NameUnresolved(f"{host}: {error.strerror}") from error
        except (OSError, UnicodeError) as error:
            raise NameUnresolved(f"{host}: {error}") from error
        return tuple(dict.fromkeys(canonical_host(str(raw[0])) for *_, raw in found))

    async def listen_tcp(self, address: Address) -> SocketAcceptor:
        """See `Network.listen_tcp`."""
        return open_acceptor(await self._literal("tcp", address))

    async def listen_udp(self, address: Address) -> SocketDatagramPort:
        """See `Network.listen_udp`."""
        return open_datagram_port(await self._literal("udp", address))

    async def connect_tcp(self, address: Address, *, user_timeout: float = 0.0) -> SocketConn:
        """See `Network.connect_tcp`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        return await SocketConnecting(address, user_timeout).wait()

    def begin_connect(self, address: Address, *, user_timeout: float = 0.0) -> SocketConnecting:
        """See `Network.begin_connect`."""
        return SocketConnecting(address, user_timeout)

    def connect_udp(self, address: Address) -> SocketDatagramConn:
        """See `Network.connect_udp`."""
        return open_datagram_conn(address)

    async def _literal(self, protocol: str, address: Address) -> Address:
        if not address.host or address.is_literal:
            await trio.lowlevel.checkpoint()
            return address
        try:
            first = (await self.look_up(address.host))[0]
        except NameUnresolved as error:
            raise cannot_bind(protocol, address, str(error)) from error
        return Address(first, address.port)
