"""One machine of the virtual network: its addresses, its ports, and the sockets on them."""

from collections.abc import Iterable
from typing import Protocol

import attrs

from ..address import Address, is_ip
from ..config.schema import Transport
from ..errors import CannotBind, LocalShortage, Unreachable


class Socket(Protocol):
    """What a machine knows of any socket on it."""

    @property
    def place(self) -> Address:
        """The local address."""
        ...

    @property
    def peer(self) -> Address | None:
        """The address that it is connected to; None for one that listens."""
        ...

    @property
    def transport(self) -> Transport: ...

    @property
    def is_open(self) -> bool:
        """True until the application closes it."""
        ...

    def notice(self) -> None:
        """Looks at the conditions again, for they have changed."""
        ...

    def crash(self, *, silently: bool) -> None:
        """Loses whatever the process held; peers hear a reset unless `silently`. A listening socket survives empty."""
        ...


def covers(bound: str, host: str) -> bool:
    """True when a socket bound to the host `bound` receives what is sent to `host`."""
    if bound == "":
        return True
    if bound == "0.0.0.0":
        return ":" not in host
    if bound == "::":
        return ":" in host
    return bound == host


@attrs.define(eq=False)
class Machine:
    """The kernel of one host. `name` is its first address."""

    addresses: tuple[str, ...]
    ports: range
    listening: dict[tuple[Transport, int], list[Socket]] = attrs.field(factory=dict)
    connected: dict[Socket, None] = attrs.field(factory=dict)  # a dict, since a set has no stable order
    sessions: dict[tuple[Address, Address], Socket] = attrs.field(factory=dict)  # connected UDP, by (local, peer)
    taken: set[tuple[Transport, int]] = attrs.field(factory=set)  # ephemeral ports of connected sockets
    _next_port: int = 0

    @property
    def name(self) -> str:
        return self.addresses[0]

    def sockets(self) -> list[Socket]:
        """Every socket there is."""
        return [*self.connected, *(socket for sockets in self.listening.values() for socket in sockets)]

    def source_for(self, destination: str) -> str:
        """The address from which a packet to `destination` leaves. Raises `Unreachable` without one of its family."""
        if destination in self.addresses:
            return destination
        for address in self.addresses:
            if (":" in address) == (":" in destination):
                return address
        raise Unreachable(f"{self.name} has no address to reach {destination} from")

    def take_port(self, transport: Transport) -> int:
        """A free ephemeral port, the next in turn. Raises `LocalShortage` when all are taken."""
        for step in range(len(self.ports)):
            port = self.ports[(self._next_port + step) % len(self.ports)]
            if (transport, port) not in self.taken and (transport, port) not in self.listening:
                self._next_port = self._next_port + step + 1
                self.taken.add((transport, port))
                return port
        raise LocalShortage(f"no {transport.value} port is left on {self.name}")

    def give_back_port(self, transport: Transport, port: int) -> None:
        """Makes an ephemeral port free again."""
        self.taken.discard((transport, port))

    def claim(self, transport: Transport, address: Address) -> Address:
        """The address to bind, with a real port. Raises `CannotBind` if it is in use or not this machine's."""
        if not address.is_wildcard and not self.owns(address.host):
            raise CannotBind(f"cannot bind {transport.value} {address}: not an address of {self.name}")
        if address.port == 0:
            port = self.take_port(transport)
            self.give_back_port(transport, port)
            return Address(address.host, port)
        rivals: Iterable[Socket] = self.listening.get((transport, address.port), ())
        overlap = any(covers(r.place.host, address.host) or covers(address.host, r.place.host) for r in rivals)
        if overlap or (transport, address.port) in self.taken:
            raise CannotBind(f"cannot bind {transport.value} {address}: address already in use")
        return address

    def owns(self, host: str) -> bool:
        """True when packets to `host` come here."""
        return host in self.addresses or ("127.0.0.1" in self.addresses and host.startswith("127.") and is_ip(host))

    def bind(self, socket: Socket) -> None:
        """Lets a listening socket receive."""
        self.listening.setdefault((socket.transport, socket.place.port), []).append(socket)

    def unbind(self, socket: Socket) -> None:
        """Takes a listening socket away again."""
        key = (socket.transport, socket.place.port)
        left = [other for other in self.listening.get(key, ()) if other is not socket]
        if left:
            self.listening[key] = left
        else:
            self.listening.pop(key, None)

    def listener(self, transport: Transport, address: Address) -> Socket | None:
        """The socket that receives what is sent to `address`, if any."""
        for socket in self.listening.get((transport, address.port), ()):
            if covers(socket.place.host, address.host):
                return socket
        return None
