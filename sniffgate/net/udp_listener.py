"""A listening UDP socket on the kernel: it knows which of our addresses a client wrote to, and answers from there."""

import errno
import socket
import struct
import sys

from ..address import Address
from ..errors import LocalShortage
from .binding import bind_socket, bound_address
from .errno_map import REFUSALS, bind_failure, shortage
from .owned_socket import OwnedSocket
from .ports import Datagram
from .sockaddr import SockAddr, from_sockaddr, interface_index, interface_name, to_sockaddr

_IP_PKTINFO = 8  # Linux; Python has no name for it
_IPV6_RECVPKTINFO = getattr(socket, "IPV6_RECVPKTINFO", 49)
_IPV6_PKTINFO = getattr(socket, "IPV6_PKTINFO", 50)
_INFO4 = struct.Struct("=i4s4s")  # interface, our address to answer from, destination in the header
_INFO6 = struct.Struct("=16si")  # destination in the header, interface
_ANCILLARY = socket.CMSG_SPACE(_INFO4.size) + socket.CMSG_SPACE(_INFO6.size)

_WHOLE = 65535  # more than any datagram's payload, so that none is cut

# One socket takes the datagrams of every client, and while Python is busy elsewhere for a few milliseconds only this
# buffer keeps them. The kernel's 208 KiB hold some 270 small datagrams (each is counted with its overhead of about
# 768 bytes). The kernel cuts what we ask to net.core.rmem_max; docs name that knob.
LISTENER_BUFFER = 4 * 1024 * 1024

Ancillary = list[tuple[int, int, bytes]]


class SocketDatagramPort(OwnedSocket):
    """A listening UDP socket.

    On a wildcard address the kernel tells for every datagram which address it was sent to (Linux; elsewhere
    `Datagram.local` is the wildcard itself, and the kernel picks the source of the reply).
    """

    def __init__(self, sock: socket.socket, address: Address) -> None:
        super().__init__(sock)
        self.address = address
        self._family = socket.AddressFamily(sock.family)
        self.is_many = address.is_wildcard and sys.platform == "linux"
        if self.is_many:
            sock.setsockopt(socket.IPPROTO_IP, _IP_PKTINFO, 1)
            if self._family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, _IPV6_RECVPKTINFO, 1)

    async def receive(self) -> Datagram:
        """See `DatagramPort.receive`."""
        while True:
            try:
                return await self._when_ready(self._receive_from_many if self.is_many else self._receive)
            except OSError as error:
                if error.errno not in REFUSALS:  # some client's ICMP; it concerns no other
                    raise

    def send_nowait(self, data: bytes, client: Address, local: Address) -> None:
        """See `DatagramPort.send_nowait`. A client that is unreachable or that our firewall forbids is a drop too."""
        self._check_open()
        try:
            ancillary = self._leaving_from(local, client) if self.is_many else []
            self._sock.sendmsg([data], ancillary, 0, to_sockaddr(client, self._family))
        except OSError as error:
            raise shortage(error.errno or errno.ENOBUFS) from error

    # --- for the relay engine, which moves the datagrams in our place ---------------------------------------

    def receive_into(self, buffer: memoryview) -> tuple[int, SockAddr, str]:
        """Takes a datagram: its size, who sent it, and which address it was sent to ("" when there is but one).

        Errors: `BlockingIOError`; other OSErrors that concern some client and no other.
        """
        if not self.is_many:
            size, raw = self._sock.recvfrom_into(buffer)
            return size, raw, ""
        size, ancillary, _, raw = self._sock.recvmsg_into([buffer], _ANCILLARY)
        return size, raw, _written_to(ancillary)

    def sockaddr_of(self, client: Address) -> SockAddr:
        """A client's address in the form that the kernel gives it."""
        return to_sockaddr(client, self._family)

    def ancillary_for(self, local: Address, client: Address) -> Ancillary:
        """What has to go along with a reply so that it leaves from `local`. Errors: `LocalShortage`."""
        return self._leaving_from(local, client) if self.is_many else []

    def _receive(self) -> Datagram:
        data, raw = self._sock.recvfrom(_WHOLE)
        return Datagram(data, from_sockaddr(raw), self.address)

    def _receive_from_many(self) -> Datagram:
        data, ancillary, _, raw = self._sock.recvmsg(_WHOLE, _ANCILLARY)
        return Datagram(data, from_sockaddr(raw), Address(_written_to(ancillary), self.address.port))

    def _leaving_from(self, local: Address, client: Address) -> Ancillary:
        if local.is_wildcard:
            return []
        if ":" not in local.host:
            if ":" in client.host:
                raise LocalShortage(f"{local} cannot answer {client}: not of one family")
            source = socket.inet_aton(local.host)
            return [(socket.IPPROTO_IP, _IP_PKTINFO, _INFO4.pack(0, source, bytes(4)))]
        host, _, zone = local.host.partition("%")
        source = socket.inet_pton(socket.AF_INET6, host)
        # Interface 0 leaves the way to the routing table; only a link-local address needs its own.
        info = _INFO6.pack(source, interface_index(zone) if zone else 0)
        return [(socket.IPPROTO_IPV6, _IPV6_PKTINFO, info)]


def open_datagram_port(address: Address) -> SocketDatagramPort:
    """Binds a literal address or host "". Raises `CannotBind`."""
    sock: socket.socket | None = None
    try:
        sock = bind_socket(address, socket.SOCK_DGRAM)
        enlarge_buffers(sock, LISTENER_BUFFER)
        return SocketDatagramPort(sock, bound_address(sock, address))
    except OSError as error:
        if sock:
            sock.close()
        raise bind_failure(error, "udp", address) from error


def enlarge_buffers(sock: socket.socket, size: int) -> None:
    """Asks for buffers of `size` bytes each way; Linux gives what it allows, other systems refuse too much whole."""
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        try:
            sock.setsockopt(socket.SOL_SOCKET, option, size)
        except OSError:
            continue


def _written_to(ancillary: Ancillary) -> str:
    """The address that a datagram was sent to; for a broadcast, the one of ours that stands for it."""
    for level, kind, content in ancillary:
        if level == socket.IPPROTO_IP and kind == _IP_PKTINFO:
            _, ours, _ = _INFO4.unpack_from(content)
            return socket.inet_ntoa(ours)
    for level, kind, content in ancillary:
        if level == socket.IPPROTO_IPV6 and kind == _IPV6_PKTINFO:
            address, interface = _INFO6.unpack_from(content)
            host = socket.inet_ntop(socket.AF_INET6, address)
            return f"{host}%{interface_name(interface)}" if host.startswith("fe80:") else host
    raise OSError(errno.ENOMSG, "the kernel did not say which address a datagram was sent to")
