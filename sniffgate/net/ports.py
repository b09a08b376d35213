"""What the tasks need of a network. `net/sockets.py` has it from the kernel, the testing kit from a virtual network.

The same contract suite (`tests/net/contract.py`) runs against both, so a docstring here is a promise that is tested.
Every port closes synchronously and any number of times: `with` is enough, also in a cancelled task. Closing a port
under a task that waits on it wakes that task with `trio.ClosedResourceError`.
"""

from types import TracebackType
from typing import Protocol, Self, runtime_checkable

import attrs

from ..address import Address
from ..errors import ConnectFailed, LocalShortage, Side

# Payload bytes of a refused datagram that Linux quotes in its error queue, without a sign of having cut (measured).
QUOTED_IPV4 = 520
QUOTED_IPV6 = 1184


class Closable(Protocol):
    """Owns something of the network until closed."""

    def close(self) -> None:
        """Gives it back at once; does nothing the second time."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Conn(Closable, Protocol):
    """One established TCP connection. One task may receive while another sends; no two may do the same."""

    @property
    def side(self) -> Side:
        """`CLIENT` for an accepted connection, `UPSTREAM` for one we opened: the side of its `PeerReset`."""
        ...

    @property
    def local(self) -> Address:
        """Our end, a literal address."""
        ...

    @property
    def peer(self) -> Address:
        """The other end, a literal address; an IPv4-mapped one as plain IPv4."""
        ...

    async def receive_some(self, max_bytes: int) -> bytes:
        """Waits for data; b"" is the peer's end of stream, again and again.

        Errors: `PeerReset` once all that came before the reset has been received.
        """
        ...

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Returns when the kernel has taken all of `data`.

        Errors: `PeerReset` when the peer is gone. *Cancellation:* an unknown part was sent; only close after that.
        """
        ...

    async def send_eof(self) -> None:
        """Ends our direction (FIN after what was sent); receiving goes on. Nothing happens if the peer is gone."""
        ...

    def unsent(self) -> int:
        """Bytes sent by us that the peer's machine has not acknowledged (SIOCOUTQ); 0 once closed."""
        ...

    def is_broken(self) -> bool:
        """Whether the peer has reset the connection, as far as is known without reading; reads nothing."""
        ...

    def set_user_timeout(self, seconds: float) -> None:
        """Bounds how long sent data may stay unacknowledged or unsendable (TCP_USER_TIMEOUT, RFC 5482).

        In seconds; 0 is the system's limit. Past it the connection is `PeerReset`; a peer that stops reading counts
        too. Does nothing once closed.
        """
        ...

    def abort(self) -> None:
        """Closes with a reset: the peer sees an error, not an end of stream, and what is unsent is lost."""
        ...

    # close(): an end of stream after what was sent; a reset if received data was left unread (the kernel's way).


class Connecting(Closable, Protocol):
    """A connection that is being opened, and perhaps is open already. Closing it gives the attempt up."""

    def result_nowait(self) -> Conn | None:
        """The connection if it is open, and from then on the caller's; None while it is not, or if it failed."""
        ...

    def failure_nowait(self) -> ConnectFailed | LocalShortage | None:
        """What it has failed with already; None while it has not."""
        ...

    async def wait(self) -> Conn:
        """Waits for the connection, which is the caller's then. Errors: as `Network.connect_tcp`."""
        ...


class Acceptor(Closable, Protocol):
    """A listening TCP socket."""

    @property
    def address(self) -> Address:
        """Where it listens, with the real port."""
        ...

    async def accept(self) -> Conn:
        """Waits for a client.

        Errors: `LocalShortage` when no descriptor is left: wait before the next try. A client that went away before it
        was accepted is skipped. *Cancellation:* no client is lost: no checkpoint between accepting and returning.
        """
        ...

    def accept_nowait(self) -> Conn | None:
        """The next client that waits already; None when there is none. Errors: `LocalShortage`."""
        ...


@attrs.frozen
class Datagram:
    """One received datagram: its bytes, who sent it, and the local address it was sent to (never a wildcard)."""

    data: bytes
    client: Address
    local: Address


class DatagramPort(Closable, Protocol):
    """A listening UDP socket."""

    @property
    def address(self) -> Address:
        """Where it is bound, with the real port."""
        ...

    async def receive(self) -> Datagram:
        """Waits for a datagram, whole, 0 to 65,507 bytes; an IPv4-mapped client appears as plain IPv4."""
        ...

    def send_nowait(self, data: bytes, client: Address, local: Address) -> None:
        """Sends to `client` from `local`, the address the client wrote to.

        Errors: `LocalShortage` when it cannot be sent now, or ever (`DatagramTooLong`): the datagram is dropped.
        """
        ...


@runtime_checkable
class DatagramConn(Closable, Protocol):
    """A UDP socket connected to a node: one per session, so that refusals reach whom they concern."""

    @property
    def local(self) -> Address:
        """Our end, a literal address; its port is never 0."""
        ...

    @property
    def peer(self) -> Address:
        """The node's address."""
        ...

    async def receive(self) -> bytes:
        """Waits for a datagram from the node; b"" is an empty datagram.

        Errors: `DatagramRefused`, once for each datagram that the kernel reports refused, in the order they were sent,
        and never instead of a datagram that did arrive.
        """
        ...

    def send_nowait(self, data: bytes) -> None:
        """Sends one datagram whole.

        A refusal of an earlier datagram neither raises here nor eats this one: `receive` reports it.

        Errors: `LocalShortage` when the buffers are full, or `DatagramTooLong`: the datagram is dropped.
        """
        ...


class Network(Protocol):
    """A place to listen, to connect and to look names up."""

    async def look_up(self, host: str) -> tuple[str, ...]:
        """Every address of a name, as literal IPs in the resolver's order, each once. No cache: see `net/resolver.py`.

        Errors: `NameUnresolved`.
        """
        ...

    async def listen_tcp(self, address: Address) -> Acceptor:
        """Binds and listens. Host "" is every address of both families; a name binds its first address.

        `SO_REUSEADDR` is set (a restart after a crash works), never `SO_REUSEPORT` (a second instance fails).
        Errors: `CannotBind`.
        """
        ...

    async def listen_udp(self, address: Address) -> DatagramPort:
        """Binds. Neither address-sharing option is set: a second socket on the port fails. Errors: `CannotBind`."""
        ...

    async def connect_tcp(self, address: Address, *, user_timeout: float = 0.0) -> Conn:
        """Opens a connection to a literal address. No timeout of its own: callers bring a scope.

        `user_timeout` in seconds (0 = the system's) bounds unacknowledged data (TCP_USER_TIMEOUT, RFC 5482).
        Errors: `ConnectRefused`, `Unreachable`, `ConnectTimedOut` (the system's own limit), `LocalShortage`.
        """
        ...

    def begin_connect(self, address: Address, *, user_timeout: float = 0.0) -> Connecting:
        """Begins what `connect_tcp` does, without waiting; on one machine the kernel is often done by then.

        Errors are told by `Connecting.wait`.
        """
        ...

    def connect_udp(self, address: Address) -> DatagramConn:
        """Opens a connected UDP socket to a literal address; nothing is sent, so nothing waits.

        Errors: `Unreachable`, `LocalShortage` (no local port left included).
        """
        ...


class Names(Protocol):
    """Turns configured addresses into ones that can be connected to; `net/resolver.py` does it with a cache."""

    async def addresses(self, address: Address) -> tuple[Address, ...]:
        """Every literal address behind `address`, at least one, in the resolver's order; a literal one stays itself.

        Errors: `NameUnresolved`.
        """
        ...
