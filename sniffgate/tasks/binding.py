"""Sockets across reloads: what is held stays, what is new is bound before anything old is closed.

A socket's identity is its protocol and configured address, so two listeners may swap ports in one reload and neither
socket is touched. On any error everything is as it was.
"""

import logging
from collections.abc import Mapping, Sequence

import attrs
import trio

from ..config.schema import Config, ListenerConfig, Transport
from ..errors import CannotBind
from ..net.ports import Acceptor, DatagramPort, Network
from .listener import Listener

log = logging.getLogger("sniffgate")

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
    """A change of sockets under way: `opened` are bound and nobody's, `suspended` gave theirs up for one of them."""

    opened: dict[SocketKey, Acceptor | DatagramPort] = attrs.field(factory=dict)
    suspended: list[Listener] = attrs.field(factory=list)

    async def undo(self, network: Network) -> None:
        """Closes what was opened and gives the suspended listeners their sockets back.

        One whose address was taken by somebody else meanwhile stays suspended until the next reload; that is logged.
        """
        for socket in self.opened.values():
            socket.close()
        for listener in self.suspended:
            await listener.suspend()  # it may not have let go yet
            try:
                listener.resume(await open_socket(network, attrs.evolve(listener.settings, listen=listener.address)))
            except CannotBind as error:
                log.error("%s; it takes no clients until a reload can bind it again", error)


async def open_new_sockets(
    network: Network, held: Mapping[SocketKey, Listener], config: Config, leaving: Sequence[Listener] = ()
) -> Rebinding:
    """Binds every socket that `config` needs and `held` lacks.

    Where a socket of our own is in the way that nobody will need, it is closed first: that of a listener which the
    change removes, or which an earlier one has removed and which is `leaving`.
    Errors: `CannotBind`; then everything is as it was. *Cancellation:* likewise.
    """
    wanted = {socket_key(listener): listener for listener in config.listeners}
    removed = [listener for key, listener in held.items() if key not in wanted]
    rebinding = Rebinding()
    done = False
    try:
        for key, listener in wanted.items():
            if key not in held or held[key].is_suspended:
                rebinding.opened[key] = await _open_one(network, listener, removed, leaving, rebinding)
        done = True
    finally:
        if not done:
            with trio.CancelScope(shield=True):  # binding waits only for a name's look-up, and these are literal
                await rebinding.undo(network)
    return rebinding


async def _open_one(
    network: Network,
    listener: ListenerConfig,
    removed: Sequence[Listener],
    leaving: Sequence[Listener],
    rebinding: Rebinding,
) -> Acceptor | DatagramPort:
    try:
        return await open_socket(network, listener)
    except CannotBind:
        gone = [each for each in leaving if _is_in_the_way(each, listener)]
        going = [each for each in removed if _is_in_the_way(each, listener) and each not in rebinding.suspended]
        if not gone and not going:
            raise
    for each in gone:
        await each.reclaim()
    for each in going:
        rebinding.suspended.append(each)
        await each.suspend()
    return await open_socket(network, listener)


def _is_in_the_way(other: Listener, wanted: ListenerConfig) -> bool:
    """Whether the socket of `other` can be what keeps `wanted` from being bound."""
    if other.settings.protocol is not wanted.protocol or other.address.port != wanted.listen.port:
        return False
    ends = (other.address, wanted.listen)
    return ends[0].host == ends[1].host or any(end.is_wildcard or not end.is_literal for end in ends)
