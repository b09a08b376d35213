"""Between our addresses and the kernel's: families, zones, wildcards, and IPv4 inside IPv6."""

import errno
import functools
import os
import socket
from typing import Any

from ..address import Address, canonical_host

# What socket calls take and give: (host, port) or (host, port, flow, scope).
SockAddr = tuple[Any, ...]


def family_of(address: Address) -> socket.AddressFamily:
    """The family of a literal address; an IPv4-mapped one is IPv4."""
    return socket.AF_INET6 if ":" in canonical_host(address.host) else socket.AF_INET


@functools.lru_cache(maxsize=4096)
def to_sockaddr(address: Address, family: socket.AddressFamily) -> SockAddr:
    """A literal address (or host "") as a socket of `family` wants it; IPv4 on an IPv6 socket goes in mapped.

    Raises OSError (ENODEV) for a zone that is no interface.
    """
    host = canonical_host(address.host)
    if family == socket.AF_INET:
        return host, address.port
    if host and ":" not in host:
        return f"::ffff:{host}", address.port, 0, 0
    host, _, zone = host.partition("%")
    return host, address.port, 0, interface_index(zone) if zone else 0


def from_sockaddr(raw: SockAddr) -> Address:
    """The kernel's answer as an address; an IPv4-mapped one as plain IPv4, a link-local one with its zone."""
    host = raw[0]
    if len(raw) == 2:
        return Address(host, raw[1])
    if raw[3] and "%" not in host:
        host = f"{host}%{interface_name(raw[3])}"
    return Address(canonical_host(host), raw[1])


def interface_index(zone: str) -> int:
    """The number of a zone: an interface's name, or the number itself. Raises OSError (ENODEV)."""
    if zone.isascii() and zone.isdecimal():
        return int(zone)
    try:
        return socket.if_nametoindex(zone)
    except OSError:  # which says so without an errno
        raise OSError(errno.ENODEV, os.strerror(errno.ENODEV)) from None


def interface_name(index: int) -> str:
    """The name of an interface; its number if it is gone by now."""
    try:
        return socket.if_indextoname(index)
    except OSError:
        return str(index)
