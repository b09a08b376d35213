"""The serving half of a node: any network, any script."""

import contextlib

import attrs
import trio

from ..address import Address
from ..config.schema import Transport
from ..errors import LocalShortage, PeerReset
from ..net.ports import Acceptor, Conn, DatagramPort
from .scripts import Client, Script


@attrs.frozen
class Received:
    """One TCP chunk or one datagram that a node received, when, and from whom."""

    time: float
    transport: Transport
    peer: Address
    data: bytes


class NodeServer:
    """Serves TCP clients and datagrams by a script.

    `accepted` has the address of each TCP client so far, `received` all that came, `conns` the open connections.
    `delay` is how many seconds late each answer comes, `reset_after` how many bytes of answers a connection has before
    it is reset.
    """

    def __init__(self, name: str, script: Script) -> None:
        self.name = name
        self.script = script
        self.delay = 0.0
        self.reset_after: int | None = None
        self._speech: trio.Event | None = None  # None: it speaks
        self.received: list[Received] = []
        self.accepted: list[Address] = []
        self.conns: list[Conn] = []

    def data(self, transport: Transport | None = None) -> bytes:
        """Everything received so far, on one transport or both, end to end."""
        return b"".join(item.data for item in self.received if transport in (None, item.transport))

    async def accept_forever(self, acceptor: Acceptor, clients: trio.Nursery) -> None:
        """Serves each TCP client in a task of its own; runs until cancelled."""
        while True:
            clients.start_soon(self._serve_client, await acceptor.accept())

    async def answer_forever(self, port: DatagramPort, answers: trio.Nursery) -> None:
        """Answers each datagram; runs until cancelled."""
        while True:
            datagram = await port.receive()
            if self._speech is not None:
                continue
            self._take(Transport.UDP, datagram.client, datagram.data)
            answer = self.script.answer(self.name, datagram.data)
            if answer is not None and self.delay:
                answers.start_soon(self._answer_late, port, answer, datagram.client, datagram.local)
            elif answer is not None:
                _send(port, answer, datagram.client, datagram.local)

    def reset_clients(self) -> None:
        """Resets every open connection; new ones are served."""
        for conn in list(self.conns):
            conn.abort()

    def fall_silent(self) -> None:
        """From now on datagrams vanish, and answers to TCP clients wait until `speak`."""
        self._speech = self._speech or trio.Event()

    def speak(self) -> None:
        """Ends that."""
        if self._speech is not None:
            self._speech.set()
            self._speech = None

    async def _serve_client(self, conn: Conn) -> None:
        """Serves one client until it leaves or the node is killed."""
        self.accepted.append(conn.peer)
        self.conns.append(conn)
        client = Client(
            self.name,
            conn,
            lambda data: self._take(Transport.TCP, conn.peer, data),
            self._pause,
            lambda: self.reset_after,
        )
        try:
            with conn:
                await self.script.talk(client)
                await conn.send_eof()
        except (PeerReset, trio.ClosedResourceError):
            pass  # the client left, or a fault took the connection
        finally:
            self.conns.remove(conn)

    async def _pause(self) -> None:
        if self.delay:
            await trio.sleep(self.delay)
        if self._speech is not None:
            await self._speech.wait()

    async def _answer_late(self, port: DatagramPort, answer: bytes, client: Address, local: Address) -> None:
        await trio.sleep(self.delay)
        with contextlib.suppress(trio.ClosedResourceError):
            _send(port, answer, client, local)

    def _take(self, transport: Transport, peer: Address, data: bytes) -> None:
        self.received.append(Received(trio.current_time(), transport, peer, data))


def _send(port: DatagramPort, answer: bytes, client: Address, local: Address) -> None:
    with contextlib.suppress(LocalShortage):  # an answer too long for a datagram is dropped
        port.send_nowait(answer, client, local)
