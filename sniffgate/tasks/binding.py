"""Sockets across reloads: what is held stays, what is new is bound before anything old is closed.

A socket's identity is its protocol and configured address, so two listeners may swap ports in one reload and neither
socket is touched. On any error everything is as it was.
"""

from collections.abc import Mapping

import attrs
import trio

from ..config.schema import Config, ListenerConfig, Transport
from ..errors import CannotBind
from ..net.ports import Acceptor, DatagramPort, Network
from .listener import Listener

SocketKey = tuple[Transport, str, int, str]


def socket_key(listener: ListenerConfig) -> SocketKey:
    """The identity of the socket that `listener` needs; with port 0 each listener has one of its own."""
    name = listener.name if listener.listen.port == 0 else ""
    return listener.protocol, listener.listen.host, listener.listen.port, name


async def open_socket(network: Network, listener: ListenerConfig) -> Acceptor | DatagramPort:
    """Binds what `listener` needs. Errors: `CannotBind`, with the listener's name."""
    try:
        if listener.protocol is Transport.TCP:
            return await network.listen_tcp(listener.listen)
        return await network.listen_udp(listener.listen)
    except CannotBind as error:
        raise CannotBind(f"listener {listener.name}: {error}") from error


@attrs.define(eq=False)
class Rebinding:
    """A change of sockets under way: `opened` are bound and nobody's yet, `suspended` gave theirs up for one of them."""

    opened: dict[SocketKey, Acceptor | DatagramPort] = attrs.field(factory=dict)
    suspended: list[Listener] = attrs.field(factory=list)

    async def undo(self, network: Network) -> None:
        """Closes what was opened and gives the suspended listeners their sockets back."""
        for socket in self.opened.values():
            socket.close()
        for listener in self.suspended:
            address = listener.address
            settings = attrs.evolve(listener.settings, listen=address)
            listener.resume(await open_socket(network, settings))


async def open_new_sockets(network: Network, held: Mapping[SocketKey, Listener], config: Config) -> Rebinding:
    """Binds every socket that `config` needs and `held` lacks.

    Where only a leaving socket of our own is in the way, that one is closed first.
    Errors: `CannotBind`; then everything is as it was. *Cancellation:* likewise.
    """
    wanted = {socket_key(listener): listener for listener in config.listeners}
    rebinding = Rebinding()
    done = False
    try:
        for key, listener in wanted.items():
            if key not in held:
                leaving = [other for other_key, other in held.items() if other_key not in wanted]
                rebinding.opened[key] = await _open_one(network, listener, leaving, rebinding)
        done = True
    finally:
        if not done:
            with trio.CancelScope(shield=True):  # binding waits for nothing but a name's look-up, and these are literal
                await rebinding.undo(network)
    return rebinding


async def _open_one(
    network: Network, listener: ListenerConfig, leaving: list[Listener], rebinding: Rebinding
) -> Acceptor | DatagramPort:
    try:
        return await open_socket(network, listener)
    except CannotBind:
        in_the_way = [
            other
            for other in leaving
            if other.settings.protocol is listener.protocol
            and other.address.port == listener.listen.port
            and other not in rebinding.suspended
        ]
        if not in_the_way:
            raise
    for other in in_the_way:
        rebinding.suspended.append(other)
        await other.suspend()
    return await open_socket(network, listener)
