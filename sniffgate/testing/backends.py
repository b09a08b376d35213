"""A small backend for tests: it answers with its name, and remembers who asked."""

import contextlib
from collections.abc import Callable

import attrs
import trio

from ..address import Address
from ..config.schema import Transport
from ..errors import LocalShortage, PeerReset
from ..net.ports import Acceptor, Conn, DatagramPort
from .virtual import VirtualNetwork

Reply = Callable[[bytes], bytes | None]


@attrs.frozen
class Received:
    """One TCP chunk or one datagram that a node received, when, and from whom."""

    time: float
    transport: Transport
    peer: Address
    data: bytes


class Node:
    """A backend on a machine of its own, for TCP, UDP or both, from `await nursery.start(node.serve)` on.

    It answers each TCP chunk and each datagram with `name:` and what it received, or with what `reply` makes of it
    (None: no answer). `banner` is sent to each TCP client at once. A client's end of stream is answered with its own.
    `accepted` has the address of each TCP client so far, `received` all that came, `conns` the open connections.
    """

    def __init__(
        self,
        network: VirtualNetwork,
        name: str,
        host: str,
        *,
        tcp: int | None = 7000,
        udp: int | None = 7000,
        banner: bytes = b"",
        reply: Reply | None = None,
    ) -> None:
        self.name = name
        self.host = host
        self.tcp = None if tcp is None else Address(host, tcp)
        self.udp = None if udp is None else Address(host, udp)
        self.banner = banner
        self.reply: Reply = reply or (lambda data: f"{name}:".encode() + data)
        self.received: list[Received] = []
        self.accepted: list[Address] = []
        self.conns: list[Conn] = []
        self._network = network
        self._view = network.host(host)

    def data(self, transport: Transport | None = None) -> bytes:
        """Everything received so far, on one transport or both, end to end."""
        return b"".join(item.data for item in self.received if transport in (None, item.transport))

    async def serve(self, *, task_status: trio.TaskStatus["Node"] = trio.TASK_STATUS_IGNORED) -> None:
        """Serves until cancelled; started once every port is bound. Errors: `CannotBind`."""
        with contextlib.ExitStack() as ports:
            acceptor = ports.enter_context(await self._view.listen_tcp(self.tcp)) if self.tcp else None
            port = ports.enter_context(await self._view.listen_udp(self.udp)) if self.udp else None
            async with trio.open_nursery() as tasks:
                if acceptor is not None:
                    tasks.start_soon(self._accept_forever, acceptor, tasks)
                if port is not None:
                    tasks.start_soon(self._answer_datagrams, port)
                task_status.started(self)

    async def _accept_forever(self, acceptor: Acceptor, clients: trio.Nursery) -> None:
        while True:
            clients.start_soon(self._answer_client, await acceptor.accept())

    async def _answer_client(self, conn: Conn) -> None:
        """Answers one client until it leaves or the node is killed."""
        self.accepted.append(conn.peer)
        self.conns.append(conn)
        try:
            with conn:
                await conn.send_all(self.banner)
                while data := await conn.receive_some(65536):
                    answer = self._take(Transport.TCP, conn.peer, data)
                    if answer is not None:
                        await conn.send_all(answer)
                await conn.send_eof()
        except (PeerReset, trio.ClosedResourceError):
            pass  # the client left, or a fault took the connection
        finally:
            self.conns.remove(conn)

    async def _answer_datagrams(self, port: DatagramPort) -> None:
        while True:
            datagram = await port.receive()
            answer = self._take(Transport.UDP, datagram.client, datagram.data)
            if answer is not None:
                with contextlib.suppress(LocalShortage):  # an answer too long for a datagram is dropped
                    port.send_nowait(answer, datagram.client, datagram.local)

    def _take(self, transport: Transport, peer: Address, data: bytes) -> bytes | None:
        self.received.append(Received(trio.current_time(), transport, peer, data))
        return self.reply(data)

    # --- what may happen to it: `VirtualNetwork`'s faults, on this node's machine ------------------

    def kill(self, transport: Transport | None = None) -> None:
        """The process dies: connections are reset, ports refuse, until `recover`."""
        self._network.kill(self.host, transport)

    def freeze(self, transport: Transport | None = None) -> None:
        """The process stands still, its kernel does not."""
        self._network.freeze(self.host, transport)

    def refuse(self, transport: Transport | None = None) -> None:
        """Refuses what is new; connections go on."""
        self._network.refuse(self.host, transport)

    def black_hole(self, transport: Transport | None = None) -> None:
        """Falls silent, connections included."""
        self._network.black_hole(self.host, transport)

    def unreachable(self, transport: Transport | None = None) -> None:
        """Cannot be reached, and routers say so."""
        self._network.unreachable(self.host, transport)

    def power_off(self) -> None:
        """The machine dies without a word."""
        self._network.power_off(self.host)

    def recover(self, transport: Transport | None = None) -> None:
        """Serves again, as after a restart if it was killed; old connections of a killed node stay dead."""
        self._network.recover(self.host, transport)

    def reset_clients(self) -> None:
        """Resets every open connection; new ones are served."""
        for conn in list(self.conns):
            conn.abort()
