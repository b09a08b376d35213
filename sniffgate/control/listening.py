"""Opening the control port: on TCP through a `Network`, or on a Unix socket, with the token that guards it."""

import logging
from typing import Protocol

from ..address import Address, parse_address
from ..errors import CannotBind, ConfigError, Fault, NameUnresolved
from ..net.ports import Network
from .token import Token
from .unix_socket import open_unix

log = logging.getLogger(__name__)

UNIX = "unix:"


class Client(Protocol):
    """One accepted client: what `net.ports.Conn` and `UnixConn` have in common."""

    async def receive_some(self, max_bytes: int) -> bytes:
        """Waits for data; b"" is the end of stream. Errors: `PeerReset`."""
        ...

    async def send_all(self, data: bytes) -> None:
        """Returns when the kernel has taken all of `data`. Errors: `PeerReset`."""
        ...

    async def send_eof(self) -> None:
        """Ends our direction."""
        ...

    def close(self) -> None:
        """Closes at once."""
        ...


class Door(Protocol):
    """Where clients come in."""

    async def accept(self) -> Client:
        """Waits for a client. Errors: `LocalShortage`."""
        ...

    def close(self) -> None:
        """Takes no more clients."""
        ...


class ControlSocket:
    """The bound control port and its token. *Closes:* its door."""

    def __init__(self, door: Door, address: str, token: Token | None, *, needs_token: bool) -> None:
        self.door = door
        self.address = address  # as clients write it, with the real port
        self.token = token
        self._needs_token = needs_token

    def reread_token(self, token_file: str | None = None) -> None:
        """Reads the token again, from `token_file` if one is given ("" = no token any more).

        Connections that have shown the old one stay. Errors: `ConfigError`; then the token stays what it was.
        """
        if token_file is None:
            if self.token is not None:
                self.token.reread()
        elif token_file:
            self.token = Token(token_file)
        elif self._needs_token:
            raise _misfit("admin_token_file", f"other machines can reach {self.address}: it cannot go without a token")
        else:
            self.token = None

    def close(self) -> None:
        """Takes no more clients. A Unix socket's file is removed, if it is still ours."""
        self.door.close()


async def open_control(listen: str, token_file: str, network: Network) -> ControlSocket:
    """Binds the control port at `listen`, `host:port` or `unix:/path`; `token_file` "" means that no token is needed.

    An address that other machines can reach, or a name one of whose addresses they can reach, needs a token.
    Errors: `ConfigError` (the operator must mend something), `CannotBind`; each with a sentence.
    """
    token = Token(token_file) if token_file else None
    if listen.startswith(UNIX):
        unix = open_unix(listen.removeprefix(UNIX))
        return ControlSocket(unix, listen, token, needs_token=False)
    address = _parse(listen)
    literal, is_private = await _resolve(address, network)
    if not is_private and token is None:
        sentence = f"other machines can reach {address}: set admin_token_file, or listen on 127.0.0.1 or a unix socket"
        raise _misfit("admin_listen", sentence)
    try:
        acceptor = await network.listen_tcp(literal)
    except CannotBind as error:
        raise CannotBind(f"control port: {error}") from error
    return ControlSocket(acceptor, str(acceptor.address), token, needs_token=not is_private)


def _parse(listen: str) -> Address:
    try:
        return parse_address(listen, listening=True)
    except ValueError as error:
        raise _misfit("admin_listen", str(error)) from error


async def _resolve(address: Address, network: Network) -> tuple[Address, bool]:
    """The address to bind, and whether it and every other one of its name are this machine's own affair."""
    if address.is_wildcard or address.is_literal:
        return address, address.is_loopback
    try:
        found = [Address(host, address.port) for host in await network.look_up(address.host)]
    except NameUnresolved as error:
        raise CannotBind(f"control port: {error}") from error
    # the literal that was judged is the one that is bound: the name may say something else a moment later
    return found[0], all(each.is_loopback for each in found)


def _misfit(key: str, sentence: str) -> ConfigError:
    return ConfigError(Fault(key, 0, "", sentence))
