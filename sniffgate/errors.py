"""Every error says whose side it is on: the client's, the upstream node's, our own, or the operator's.

Adapters translate errno to these classes once, at the edge (`net/sockets.py`, `testing/`); nothing above
an adapter looks at an errno.
"""

import enum
from typing import ClassVar

import attrs


class Side(enum.Enum):
    """Whose trouble an error is."""

    CLIENT = "client"
    UPSTREAM = "upstream"
    GATEWAY = "gateway"
    OPERATOR = "operator"


class SniffgateError(Exception):
    """The root of every error that sniffgate raises on purpose."""

    side: Side = Side.GATEWAY


# --- the operator's -------------------------------------------------------------------------------


@attrs.frozen
class Fault:
    """One thing wrong with a configuration file.

    `line` counts from 1 (0: the whole file); `key` is a dotted path such as `nodes[1].tcp` ("" for the whole file).
    """

    file: str
    line: int
    key: str
    message: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        return f"{where}: {self.key}: {self.message}" if self.key else f"{where}: {self.message}"


class ConfigError(SniffgateError):
    """The configuration cannot be used; `faults` holds everything wrong with it, in the file's order."""

    side = Side.OPERATOR

    def __init__(self, *faults: Fault) -> None:
        super().__init__("\n".join(map(str, faults)))
        self.faults = faults


class CommandRefused(SniffgateError):
    """An operator's command cannot be carried out; the message is the sentence to show."""

    side = Side.OPERATOR


# --- the gateway's own ----------------------------------------------------------------------------


class CannotBind(SniffgateError):
    """A listening address cannot be bound; the message names it and says why."""

    side = Side.GATEWAY


class LocalShortage(SniffgateError):
    """This machine ran out of something (descriptors, ports, buffers): never evidence about a node.

    errno EMFILE, ENFILE, EADDRNOTAVAIL, EAGAIN from connect, ENOBUFS, ENOMEM, EMSGSIZE.
    """

    side = Side.GATEWAY


class DatagramTooLong(LocalShortage):
    """A datagram does not fit the way it must go (EMSGSIZE): it is dropped whole, never cut."""


# --- a peer's -------------------------------------------------------------------------------------


class PeerReset(SniffgateError):
    """An established connection was broken off by its peer (reset, or timed out unacknowledged).

    `side` tells whether the client or the upstream node did it.
    """

    def __init__(self, side: Side, message: str = "connection reset") -> None:
        super().__init__(message)
        self.side = side


class ConnectFailed(SniffgateError):
    """A node did not take a connection. One of the subclasses says how."""

    side = Side.UPSTREAM
    kind: ClassVar[str] = "failed"


class ConnectRefused(ConnectFailed):
    """Refused: nobody listens there (RST, or ICMP port unreachable)."""

    kind = "refused"


class Unreachable(ConnectFailed):
    """No way there: host or network unreachable."""

    kind = "unreachable"


class ConnectTimedOut(ConnectFailed):
    """No answer in time."""

    kind = "timeout"


class NameUnresolved(SniffgateError):
    """A host name has no address, and never had one since the start."""

    side = Side.UPSTREAM


class DatagramRefused(SniffgateError):
    """The peer of a connected UDP socket refused a datagram (ICMP port unreachable, or host/network unreachable).

    `quote` is what the kernel quotes of the refused datagram: None when it quotes nothing. `cut` says that
    the quote may be shorter than the datagram was (Linux keeps 520 payload bytes over IPv4, 1184 over IPv6, and
    gives no sign of cutting): then it only identifies a copy.
    """

    side = Side.UPSTREAM

    def __init__(self, quote: bytes | None = None, *, cut: bool = False) -> None:
        super().__init__("datagram refused")
        self.quote = quote
        self.cut = cut
