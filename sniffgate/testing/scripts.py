"""What nodes say: each script is written once, and runs on the virtual network and in a real process alike."""

from collections.abc import Awaitable, Callable, Iterable, Mapping

import attrs
import trio

from ..net.ports import Conn
from .known import Known, UnknownName, unknown

CHUNK = 65536
SLOW_BYTES, SLOW_PAUSE = 1024, 0.1  # what the slow reader takes at a time, and the seconds in between
DNS_HEADER, DNS_QUESTION = 12, 5  # bytes, the shortest of each (RFC 1035)

Answer = Callable[[str, bytes], bytes | None]


class Client:
    """One TCP client, as a script sees it."""

    def __init__(
        self,
        name: str,
        conn: Conn,
        note: Callable[[bytes], None],
        pause: Callable[[], Awaitable[None]],
        most: Callable[[], int | None],
    ) -> None:
        """`note` hears of all that is received, `pause` is waited for before each answer, `most` is `reset_after`."""
        self.name = name
        self.conn = conn
        self._note = note
        self._pause = pause
        self._most = most
        self._sent = 0
        self._unread = b""

    async def receive(self, max_bytes: int = CHUNK) -> bytes:
        """The next chunk; b"" at the end of stream. Errors: `PeerReset`."""
        if self._unread:
            await trio.lowlevel.checkpoint()
            chunk, self._unread = self._unread[:max_bytes], self._unread[max_bytes:]
            return chunk
        chunk = await self.conn.receive_some(max_bytes)
        if chunk:
            self._note(chunk)
        return chunk

    async def receive_exactly(self, size: int) -> bytes:
        """`size` bytes; fewer only at the end of stream."""
        got = b""
        while len(got) < size and (chunk := await self.receive(size - len(got))):
            got += chunk
        return got

    async def receive_line(self) -> bytes:
        """The next line with its end; what is left of one at the end of stream, then b""."""
        got = b""
        while b"\n" not in got and (chunk := await self.receive()):
            got += chunk
        line, end, rest = got.partition(b"\n")
        self._unread = rest + self._unread
        return line + end

    async def send(self, data: bytes) -> None:
        """Sends an answer, late if the node is slow; resets the connection in the middle if it is told to."""
        await self._pause()
        most = self._most()
        room = len(data) if most is None else max(0, most - self._sent)
        self._sent += len(data)
        await self.conn.send_all(data[:room])
        if room < len(data):
            self.conn.abort()
            raise trio.ClosedResourceError("reset in mid-stream")


Talk = Callable[[Client], Awaitable[None]]


def tagged(name: str, data: bytes) -> bytes:
    """The common answer: who it was, and what was asked."""
    return name.encode() + b":" + data


@attrs.frozen
class Script:
    """How a node deals with a TCP client, and what it answers to a datagram (None: nothing).

    When `talk` returns, the client is sent an end of stream.
    """

    talk: Talk
    answer: Answer = tagged


async def _echo(client: Client) -> None:
    while data := await client.receive():
        await client.send(tagged(client.name, data))


async def _reply_at_end(client: Client) -> None:
    asked = b""
    while data := await client.receive():
        asked += data
    await client.send(tagged(client.name, asked))


async def _answer_lines(client: Client) -> None:
    while line := await client.receive_line():
        await client.send(tagged(client.name, line))


async def _greet(client: Client) -> None:
    await client.send(client.name.encode() + b" ready\n")
    await _echo(client)


async def _read_slowly(client: Client) -> None:
    size = 0
    while data := await client.receive(SLOW_BYTES):
        size += len(data)
        await trio.sleep(SLOW_PAUSE)
    await client.send(tagged(client.name, str(size).encode()))


async def _answer_dns(client: Client) -> None:
    """Over TCP each message is preceded by its length (RFC 7766)."""
    while len(head := await client.receive_exactly(2)) == 2:
        answer = dns_answer(client.name, await client.receive_exactly(int.from_bytes(head)))
        if answer is None:
            return
        await client.send(len(answer).to_bytes(2) + answer)


def dns_answer(name: str, query: bytes) -> bytes | None:
    """The query as a response, with one TXT record that names the node; None to what is no query."""
    end = _end_of_question(query)
    if end is None or query[2] & 0x80:
        return None
    text = name.encode()[:255]
    record = b"\xc0\x0c\x00\x10\x00\x01" + bytes(4) + (len(text) + 1).to_bytes(2) + bytes([len(text)]) + text
    flags = bytes([query[2] | 0x80, 0])
    return query[:2] + flags + b"\x00\x01\x00\x01" + bytes(4) + query[DNS_HEADER:end] + record


def dns_query(host: str, number: int = 1) -> bytes:
    """A query for the TXT records of `host`."""
    labels = b"".join(bytes([len(label)]) + label.encode() for label in host.split("."))
    return number.to_bytes(2) + b"\x01\x00\x00\x01" + bytes(6) + labels + b"\x00\x00\x10\x00\x01"


def _end_of_question(query: bytes) -> int | None:
    """Where the first question ends; None if there is none."""
    at = DNS_HEADER
    while at < len(query) and query[at]:
        at += 1 + query[at]
    end = at + DNS_QUESTION
    return end if len(query) >= max(end, DNS_HEADER + DNS_QUESTION) else None


SCRIPTS = Known[Script](
    "script",
    {
        "echo": Script(_echo),  # each chunk, tagged
        "request": Script(_reply_at_end),  # one answer, after the client's end of stream
        "lines": Script(_answer_lines),  # each line, tagged
        "greeting": Script(_greet),  # talks first
        "slow-reader": Script(_read_slowly),
        "dns": Script(_answer_dns, dns_answer),
    },
)
ECHO = SCRIPTS["echo"]


def check_scripts(scripts: Mapping[str, str | Script], nodes: Iterable[str]) -> None:
    """Errors: `UnknownName` for a node that is not among `nodes`, or a script that nobody wrote."""
    names = list(nodes)
    for node, script in scripts.items():
        if node not in names:
            raise UnknownName(f"scripts: {unknown('node', node, names)}")
        if isinstance(script, str) and ":" not in script and script not in SCRIPTS:  # else `module:name`
            raise UnknownName(f"scripts, {node}: {unknown('script', script, SCRIPTS)}")
