"""Network addresses: parsing, formatting, and the one canonical form of an IPv4 client.

Forms: `host:port`, `[v6]:port`, `[v6%zone]:port` and, for listening, `:port` (every address, both families).
"""

import functools
import ipaddress
import re

import attrs

_LABEL = r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_HOST_NAME = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(\.{_LABEL})*\.?\Z")
_ZONE = re.compile(r"[A-Za-z0-9._-]{1,64}\Z")
_DOTTED_NUMBERS = re.compile(r"[0-9.]+\Z")


@attrs.frozen(order=True)
class Address:
    """A host and a port. `host` is a literal IP address (an IPv6 one may end in `%zone`) or a name; "" means any.

    >>> str(Address("::1", 53))
    '[::1]:53'
    """

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_literal(self) -> bool:
        """True when `host` is an IP address and needs no look-up."""
        return is_ip(self.host)

    @property
    def is_wildcard(self) -> bool:
        """True when `host` stands for every address of this machine."""
        return self.host in ("", "0.0.0.0", "::")

    @property
    def is_loopback(self) -> bool:
        """True for a literal loopback address, IPv4-mapped ones included."""
        return self.is_literal and ipaddress.ip_address(canonical_host(self.host).partition("%")[0]).is_loopback


@functools.lru_cache(maxsize=4096)  # asked for each new flow, about the same few hosts
def is_ip(host: str) -> bool:
    """True when `host` is a literal IPv4 or IPv6 address, zone allowed."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def canonical_host(host: str) -> str:
    """An IPv4-mapped IPv6 address as plain IPv4, so that one client has one name; anything else as it is."""
    if host.startswith("::ffff:") or (":" in host and "ffff" in host.lower()):
        try:
            mapped = ipaddress.IPv6Address(host.partition("%")[0]).ipv4_mapped
        except ValueError:
            return host
        return str(mapped) if mapped else host
    return host


def parse_address(text: str, *, listening: bool = False) -> Address:
    """Reads one of the forms above.

    `listening` allows an empty host and port 0 (the kernel picks one). Raises ValueError with a sentence fit to show.
    """
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or not rest.startswith(":"):
            raise ValueError(f"{text!r} is not an address: write [ipv6]:port")
        port = rest[1:]
        if ":" not in host or not is_ip(host):
            raise ValueError(f"{text!r} is not an address: {host!r} is not an IPv6 address")
        _, percent, zone = host.partition("%")
        if percent and not _ZONE.match(zone):
            raise ValueError(f"{text!r} is not an address: {zone!r} is not a zone")
    else:
        host, colon, port = text.rpartition(":")
        if not colon:
            raise ValueError(f"{text!r} is not an address: the port is missing (host:port)")
        if ":" in host:
            raise ValueError(f"{text!r} is not an address: an IPv6 address needs brackets, [ipv6]:port")
        if host and not _is_host(host):
            raise ValueError(f"{text!r} is not an address: {host!r} is neither an IP address nor a host name")
        if not host and not listening:
            raise ValueError(f"{text!r} is not an address: the host is missing (host:port)")
    lowest = 0 if listening else 1
    # isdecimal alone would take other scripts' digits
    if not (port.isascii() and port.isdecimal() and len(port) <= 5 and lowest <= int(port) <= 65535):
        raise ValueError(f"{text!r} is not an address: the port must be {lowest} to 65535, not {port!r}")
    return Address(host, int(port))


def _is_host(host: str) -> bool:
    if _DOTTED_NUMBERS.match(host):  # else "1.2.3" or "300.1.1.1" would pass as a name and be looked up
        return is_ip(host)
    return bool(_HOST_NAME.match(host))
