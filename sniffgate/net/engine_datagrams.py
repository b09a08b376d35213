"""UDP in the relay engine: the listening socket and the sessions' sockets in its epoll set, one look-up per datagram.

Only the engine's thread acts here, but for `Front.divert`, which takes one entry out of a dict.
"""

import socket
from collections.abc import Callable
from select import EPOLLERR, EPOLLIN
from typing import Protocol

from ..address import Address
from .ports import QUOTED_IPV4, QUOTED_IPV6, Datagram
from .relay import Parting, Passage
from .sockaddr import SockAddr, from_sockaddr
from .udp_listener import SocketDatagramPort
from .udp_sockets import SocketDatagramConn

BATCH = 64  # datagrams of one socket per event, so that a flood on one does not keep the others waiting
_FROM_CLIENTS = EPOLLIN
_FROM_NODE = EPOLLIN | EPOLLERR

Key = tuple[SockAddr, str]  # who wrote, and to which of our addresses ("" when there is but one)


class Loop(Protocol):
    """What this needs of the engine's loop."""

    datagrams: memoryview  # room for one, of any size
    clock: Callable[[], float]  # Trio's

    def add(self, fd: int, interest: int, handler: Callable[[int], None]) -> None:
        """Calls `handler` with the events of `fd`."""
        ...

    def remove(self, fd: int) -> None:
        """Forgets `fd`."""
        ...

    def call(self, command: Callable[[], None]) -> None:
        """Runs `command` in the engine's thread, between two batches of events."""
        ...


class Lane:
    """One passage in the engine."""

    __slots__ = ("ancillary", "front", "held", "is_over", "key", "long", "node", "on_over", "parting", "passage", "raw")

    def __init__(
        self, front: "Front", passage: Passage, conn: SocketDatagramConn, on_over: Callable[["Lane"], None]
    ) -> None:
        """`on_over` is called once, when the engine has let go of the node's socket."""
        self.front = front
        self.passage = passage
        self.node = conn.plain
        self.raw = front.port.sockaddr_of(passage.client)
        self.ancillary = front.port.ancillary_for(passage.local, passage.client)
        self.key: Key = (self.raw, passage.local.host if front.port.is_many else "")
        self.long = QUOTED_IPV6 if ":" in passage.conn.peer.host else QUOTED_IPV4
        self.held: list[bytes] | None = []  # until everything that came before has been dealt with
        self.on_over = on_over
        self.parting: Parting | None = None
        self.is_over = False

    # --- from the client ------------------------------------------------------------------------------

    def to_node(self, payload: memoryview, now: float) -> bool:
        """Sends a client's datagram on; False when it was not taken because of news about earlier ones."""
        passage = self.passage
        try:
            self.node.send(payload)
        except BlockingIOError:
            passage.lost_up += 1
        except OSError:
            return False
        else:
            passage.counters.up += len(payload)
            if len(payload) >= self.long:
                passage.keep(bytes(payload), now)
        passage.heard_at = now
        return True

    # --- from the node --------------------------------------------------------------------------------

    def on_event(self, event: int) -> None:
        """The node's socket has datagrams, or news."""
        if event & EPOLLERR:
            self.front.part(self, Parting.TROUBLE)
            return
        loop, passage, send = self.front.loop, self.passage, self.front.sock.sendmsg
        for _ in range(BATCH):
            try:
                size = self.node.recv_into(loop.datagrams)
            except BlockingIOError:
                return
            except OSError:
                self.front.part(self, Parting.TROUBLE)
                return
            now = passage.replied_at = loop.clock()
            try:
                if self.ancillary:
                    send([loop.datagrams[:size]], self.ancillary, 0, self.raw)
                else:
                    self.front.sock.sendto(loop.datagrams[:size], self.raw)
            except OSError:
                passage.lost_down += 1
            else:
                passage.counters.down += size
            if now >= passage.tell_after:
                passage.tell_after = float("inf")  # once; whoever is told says when to be told again
                self.front.call_trio(passage.on_reply)


class Front:
    """A listening socket in the engine, and its lanes by client."""

    def __init__(
        self,
        loop: Loop,
        port: SocketDatagramPort,
        take: Callable[[Datagram], None],
        call_trio: Callable[[Callable[[], None]], None],
    ) -> None:
        """`call_trio` calls something in Trio's thread soon, in order."""
        self.loop = loop
        self.port = port
        self.sock: socket.socket = port.plain
        self.call_trio = call_trio
        self._take = take
        self._lanes: dict[Key, Lane] = {}
        self._all: set[Lane] = set()

    def open(self) -> None:
        """Begins to read."""
        self.loop.add(self.sock.fileno(), _FROM_CLIENTS, self.on_event)

    def close(self) -> None:
        """Reads no more; the lanes' sessions are told."""
        self.loop.remove(self.sock.fileno())
        for lane in list(self._all):
            self.part(lane, Parting.CLOSED)

    def on_event(self, _: int) -> None:
        """The listening socket has datagrams."""
        strangers: list[Datagram] = []
        buffer, receive = self.loop.datagrams, self.port.receive_into
        now = self.loop.clock()
        for _ in range(BATCH):
            try:
                size, raw, host = receive(buffer)
            except BlockingIOError:
                break
            except OSError:  # some client's ICMP; it concerns no other
                continue
            lane = self._lanes.get((raw, host))
            if lane is None:
                local = Address(host, self.port.address.port) if host else self.port.address
                strangers.append(Datagram(bytes(buffer[:size]), from_sockaddr(raw), local))
            elif lane.held is not None:
                lane.held.append(bytes(buffer[:size]))
            elif not lane.to_node(buffer[:size], now):
                self.part(lane, Parting.TROUBLE)
                strangers.append(Datagram(bytes(buffer[:size]), lane.passage.client, lane.passage.local))
        self._give(strangers)

    def _give(self, strangers: list[Datagram]) -> None:
        if not strangers:
            return
        take = self._take

        def take_all() -> None:
            for datagram in strangers:
                take(datagram)

        self.call_trio(take_all)

    # --- lanes ----------------------------------------------------------------------------------------

    def enter(self, lane: Lane) -> None:
        """Begins a passage. Its client's datagrams are held until those given to Trio before have been dealt with."""
        self._lanes[lane.key] = lane
        self._all.add(lane)
        self.loop.add(lane.node.fileno(), _FROM_NODE, lane.on_event)
        # Trio is asked in turn, so that it has dealt with everything it was given before.
        self.call_trio(lambda: self.loop.call(lambda: self.go(lane)))

    def go(self, lane: Lane) -> None:
        """Everything that came before has been dealt with: what was held goes, and the rest passes."""
        held, lane.held = lane.held, None
        if lane.is_over or self._lanes.get(lane.key) is not lane:
            self._give([Datagram(each, lane.passage.client, lane.passage.local) for each in held or ()])
            return
        now = self.loop.clock()
        for index, payload in enumerate(held or ()):
            if not lane.to_node(memoryview(payload), now):
                self.part(lane, Parting.TROUBLE)
                self._give([Datagram(each, lane.passage.client, lane.passage.local) for each in (held or [])[index:]])
                return

    def divert(self, lane: Lane) -> None:
        """The client's datagrams go to Trio again. From any thread: it is one step of a dict."""
        if self._lanes.get(lane.key) is lane:
            self._lanes.pop(lane.key, None)

    def part(self, lane: Lane, parting: Parting | None) -> None:
        """Ends a passage."""
        if lane.is_over:
            return
        lane.is_over = True
        lane.parting = parting
        self.divert(lane)
        self._all.discard(lane)
        self.loop.remove(lane.node.fileno())
        lane.on_over(lane)
