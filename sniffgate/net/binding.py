"""Binding a listening socket: the same rules for TCP and UDP."""

import errno
import socket

from ..address import Address
from .sockaddr import family_of, from_sockaddr, to_sockaddr


def bind_socket(address: Address, kind: socket.SocketKind) -> socket.socket:
    """A bound socket, the same for TCP and UDP. Raises OSError.

    Host "" is both families on one IPv6 socket, or IPv4 alone where there is no IPv6. "::" is IPv6 alone, so that it
    can stand beside "0.0.0.0" on the same port.
    """
    if address.host:
        return _bind(family_of(address), address, kind, both=False)
    try:
        return _bind(socket.AF_INET6, Address("::", address.port), kind, both=True)
    except OSError as error:
        if error.errno not in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
            raise
        return _bind(socket.AF_INET, Address("0.0.0.0", address.port), kind, both=False)


def bound_address(sock: socket.socket, asked: Address) -> Address:
    """Where a bound socket is, with its real port; host "" stays "", since no literal stands for both families."""
    bound = from_sockaddr(sock.getsockname())
    return bound if asked.host else Address("", bound.port)


def _bind(family: socket.AddressFamily, address: Address, kind: socket.SocketKind, *, both: bool) -> socket.socket:
    raw = to_sockaddr(address, family)
    sock = socket.socket(family, kind)
    try:
        if kind == socket.SOCK_STREAM:  # for UDP it would let a second socket take over the port
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not both)
        sock.bind(raw)
    except BaseException:
        sock.close()
        raise
    return sock
