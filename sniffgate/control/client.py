"""The other end of the control port: what `sniffgate ctl` talks through. Imports little, so that a command is quick."""

import contextlib
import errno
import json
import os
from types import TracebackType
from typing import Protocol, Self, cast

import trio

from ..address import Address, parse_address
from ..errors import CommandRefused, SniffgateError

UNIX = "unix:"
CHUNK = 65536
LONGEST_REPLY = 64 * 1024 * 1024


class Stream(Protocol):
    """A connection as the client uses it; a `net.ports.Conn` will do."""

    async def receive_some(self, max_bytes: int) -> bytes:
        """Waits for data; b"" is the end of stream."""
        ...

    async def send_all(self, data: bytes) -> None:
        """Returns when the system has taken all of `data`."""
        ...

    def close(self) -> None:
        """Closes at once."""
        ...


class _TrioStream:
    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream

    async def receive_some(self, max_bytes: int) -> bytes:
        return bytes(await self._stream.receive_some(max_bytes))

    async def send_all(self, data: bytes) -> None:
        await self._stream.send_all(data)

    def close(self) -> None:
        self._stream.socket.close()


class ControlClient:
    """One connection to a control port, for any number of commands one after the other. Errors: `CommandRefused`."""

    def __init__(self, stream: Stream, address: str) -> None:
        """*Closes:* `stream`."""
        self._stream = stream
        self._address = address
        self._inbox = bytearray()

    async def ask(self, line: str) -> dict[str, object]:
        """Sends one command, in either form, and returns its reply, which may be an error the gateway answered.

        Errors: `CommandRefused` when no reply came, or none of sniffgate's. Waits for ever: bring a scope.
        """
        if "\n" in line or "\r" in line:
            raise CommandRefused("a command is one line")
        with contextlib.suppress(trio.BrokenResourceError, SniffgateError):  # it closed; it may have said why before
            await self._stream.send_all(line.encode("utf-8", "surrogateescape") + b"\n")
        return self._parse(await self._receive_line())

    async def authenticate(self, token: str) -> None:
        """Shows the token. Errors: `CommandRefused`."""
        reply = await self.ask(json.dumps({"cmd": "auth", "token": token}))
        if reply["ok"] is not True:
            raise CommandRefused(f"{self._address}: {reply.get('error')}")

    def close(self) -> None:
        """Closes at once."""
        self._stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def _receive_line(self) -> bytes:
        searched = 0
        while (end := self._inbox.find(b"\n", searched)) < 0:
            searched = len(self._inbox)
            try:
                data = await self._stream.receive_some(CHUNK)
            except (trio.BrokenResourceError, SniffgateError):
                data = b""
            if not data and self._inbox:
                raise self._stranger()
            if not data:
                raise CommandRefused(f"{self._address} closed the connection without a reply")
            self._inbox += data
            if len(self._inbox) > LONGEST_REPLY:
                raise self._stranger()
        line = bytes(self._inbox[:end])
        del self._inbox[: end + 1]
        return line

    def _parse(self, line: bytes) -> dict[str, object]:
        try:
            reply = json.loads(line)
        except (ValueError, RecursionError):
            raise self._stranger() from None
        if not isinstance(reply, dict) or not isinstance(reply.get("ok"), bool):
            raise self._stranger()
        return cast("dict[str, object]", reply)

    def _stranger(self) -> CommandRefused:
        return CommandRefused(f"{self._address} answers, but not as sniffgate does")


async def open_client(address: str, *, token: str | None = None) -> ControlClient:
    """Connects to `host:port` or `unix:/path` and shows the token. Errors: `CommandRefused`. Waits: bring a scope."""
    client = ControlClient(_TrioStream(await _connect(address)), address)
    try:
        if token is not None:
            await client.authenticate(token)
    except BaseException:
        client.close()
        raise
    return client


async def ask(address: str, line: str, *, token: str | None = None, timeout: float = 5.0) -> dict[str, object]:
    """Connects, sends one command and returns the reply. `timeout` in seconds bounds the whole.

    Errors: `CommandRefused` with a sentence: nobody listens, no answer in time, not sniffgate, token refused.
    """
    try:
        with trio.fail_after(timeout):
            with await open_client(address, token=token) as client:
                return await client.ask(line)
    except trio.TooSlowError:
        raise CommandRefused(f"{address} did not answer within {timeout:g} s") from None


async def _connect(address: str) -> trio.SocketStream:
    try:
        if address.startswith(UNIX):
            return await trio.open_unix_socket(address.removeprefix(UNIX))
        where = _target(address)
        return await trio.open_tcp_stream(where.host, where.port)
    except OSError as error:
        raise CommandRefused(f"cannot reach {address}: {_reason(error)}") from None
    except (ValueError, RuntimeError) as error:
        raise CommandRefused(f"cannot reach {address}: {error}") from None


def _target(address: str) -> Address:
    """Where to connect to; a wildcard means this machine."""
    where = parse_address(address, listening=True)
    if where.port == 0:
        raise ValueError("the port is 0")
    if not where.is_wildcard:
        return where
    return Address("::1" if where.host == "::" else "127.0.0.1", where.port)


def _reason(error: OSError) -> str:
    """The system's word, which Trio wraps when it tries several addresses."""
    causes: list[BaseException] = [error]
    while causes:
        cause = causes.pop()
        if isinstance(cause, OSError) and cause.errno is not None:
            return _in_words(cause)
        if isinstance(cause, BaseExceptionGroup):
            causes.extend(cause.exceptions)
        elif cause.__cause__ is not None:
            causes.append(cause.__cause__)
    return str(error)


def _in_words(error: OSError) -> str:
    if error.errno == errno.ECONNREFUSED:
        return "nobody listens there; is the gateway running?"
    if error.errno == errno.ENOENT:
        return "there is no such socket; is the gateway running?"
    return error.strerror or os.strerror(error.errno or 0)
