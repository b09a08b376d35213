"""What an errno of the kernel means in sniffgate's words: the only place that knows both."""

import errno
import os

from ..address import Address
from ..errors import CannotBind, ConnectRefused, ConnectTimedOut, DatagramTooLong, LocalShortage, Unreachable

# This machine's own trouble. EAGAIN is what connect says when no local port is left (UDP) or a queue is full.
SHORTAGES = frozenset(
    {
        errno.EMFILE,
        errno.ENFILE,
        errno.EADDRNOTAVAIL,
        errno.EAGAIN,
        errno.ENOBUFS,
        errno.ENOMEM,
    }
)

# What ICMP says of an earlier datagram (net/ipv4/icmp.c, icmp_err_convert; net/ipv6/icmp.c). Administrative
# prohibition over IPv6 arrives as EACCES, an unknown protocol as ENOPROTOOPT.
REFUSALS = frozenset(
    getattr(errno, name)
    for name in (
        "ECONNREFUSED",
        "EHOSTUNREACH",
        "ENETUNREACH",
        "EHOSTDOWN",
        "ENETDOWN",
        "EACCES",
        "ENOPROTOOPT",
        "EPROTO",
        "EOPNOTSUPP",
        "ENONET",
    )
    if hasattr(errno, name)
)

# What the next call on a connected UDP socket may be told about an earlier datagram. EMSGSIZE is path MTU discovery:
# that datagram is lost like any packet, nobody refused it.
PENDING = REFUSALS | {errno.EMSGSIZE}

# accept(2): "already-pending network errors on the new socket"; the client is gone or was never let in. The names
# that not every system has are looked up.
ABANDONED = frozenset(
    getattr(errno, name)
    for name in (
        "ECONNABORTED",
        "ECONNRESET",
        "EPERM",
        "EPROTO",
        "ENETDOWN",
        "ENOPROTOOPT",
        "EHOSTDOWN",
        "ENONET",
        "EHOSTUNREACH",
        "EOPNOTSUPP",
        "ENETUNREACH",
        "ETIMEDOUT",
    )
    if hasattr(errno, name)
)


def shortage(number: int) -> LocalShortage:
    """The error for something this machine ran out of, or for a datagram that will not fit."""
    if number == errno.EMSGSIZE:
        return DatagramTooLong("the datagram does not fit its way")
    return LocalShortage(os.strerror(number))


def connect_failure(number: int, address: Address) -> ConnectRefused | Unreachable | ConnectTimedOut | LocalShortage:
    """The error for a connect to `address` that ended with this errno."""
    message = f"{address}: {os.strerror(number)}"
    if number in SHORTAGES:
        return LocalShortage(message)
    if number in (errno.ECONNREFUSED, errno.ECONNRESET):
        return ConnectRefused(message)
    if number == errno.ETIMEDOUT:
        return ConnectTimedOut(message)
    # Host and network unreachable or down; also EINVAL (link-local without a zone), EACCES (a broadcast address) and
    # EPERM (a firewall of our own): there is no way to that address.
    return Unreachable(message)


def bind_failure(error: OSError, protocol: str, address: Address) -> CannotBind:
    """The error for a listening address that cannot be had, in a sentence for the operator."""
    return cannot_bind(protocol, address, _bind_reason(error, address))


def cannot_bind(protocol: str, address: Address, reason: str) -> CannotBind:
    """`CannotBind` with the one form its message has."""
    return CannotBind(f"cannot bind {protocol} {address}: {reason}")


def _bind_reason(error: OSError, address: Address) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return "address already in use"
        case errno.EACCES | errno.EPERM if 0 < address.port < 1024:
            return "permission denied: ports below 1024 need CAP_NET_BIND_SERVICE"
        case errno.EACCES | errno.EPERM:
            return "permission denied"
        case errno.EADDRNOTAVAIL:
            return "no such address on this machine"
        case errno.EINVAL if address.host.lower().startswith("fe80:") and "%" not in address.host:
            return f"a link-local address needs its interface: {address.host}%eth0"
        case errno.ENODEV | errno.ENXIO:
            return f"no such interface: {address.host.partition('%')[2]}"
        case errno.EAFNOSUPPORT:
            return "this machine does not have that address family"
        case errno.EMFILE | errno.ENFILE:
            return "no file descriptor is left"
        case _:
            return error.strerror or str(error)
