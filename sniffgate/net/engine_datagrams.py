"""UDP in the relay engine: the listening socket and the sessions' sockets in its epoll set, one look-up per datagram.

Only the engine's thread acts here, but for `Front.divert` and `Front._take_all`, which are Trio's.
"""

import socket
from collections.abc import Callable
from select import EPOLLERR, EPOLLIN
from typing import Protocol

from ..address import Address
from .burst import Burst
from .ports import QUOTED_IPV4, QUOTED_IPV6, Datagram
from .relay import Parting, Passage
from .sockaddr import SockAddr, from_sockaddr
from .udp_listener import SocketDatagramPort
from .udp_sockets import SocketDatagramConn

MOST_AHEAD = (
    1024  # datagrams given to Trio and not yet taken, or held; beyond it they wait in the kernel, which has a bound
)
_FROM_CLIENTS = EPOLLIN
_FROM_NODE = EPOLLIN | EPOLLERR

Key = tuple[SockAddr, str]  # who wrote, and to which of our addresses ("" when there is but one)


class Loop(Protocol):
    """What this needs of the engine's loop."""

    datagrams: memoryview  # room for one, of any size
    clock: Callable[[], float]  # Trio's
    wakeups: int  # polls that returned

    def add(self, fd: int, interest: int, handler: Callable[[int], None]) -> None:
        """Calls `handler` with the events of `fd`."""
        ...

    def change(self, fd: int, interest: int) -> None:
        """Makes `interest` what is waited for at `fd`, errors aside."""
        ...

    def remove(self, fd: int) -> None:
        """Forgets `fd`."""
        ...

    def call(self, command: Callable[[], None]) -> None:
        """Runs `command` in the engine's thread, between two batches of events."""
        ...


class Lane:
    """One passage in the engine."""

    __slots__ = (
        "ancillary", "burst", "fd", "front", "held", "is_left", "is_over", "key", "long", "node", "on_over", "parting",
        "passage", "raw",
    )  # fmt: skip

    def __init__(
        self, front: "Front", passage: Passage, conn: SocketDatagramConn, on_over: Callable[["Lane"], None]
    ) -> None:
        """`on_over` is called once, when the engine has let go of the node's socket."""
        self.front = front
        self.passage = passage
        self.node = conn.plain
        self.fd = conn.fileno()
        self.raw = front.port.sockaddr_of(passage.client)
        self.ancillary = front.port.ancillary_for(passage.local, passage.client)
        self.key: Key = (self.raw, passage.local.host if front.port.is_many else "")
        self.long = QUOTED_IPV6 if ":" in passage.conn.peer.host else QUOTED_IPV4
        self.burst = Burst()
        self.held: list[bytes] | None = []  # until everything that came before has been dealt with
        self.is_left = False  # diverted: what is not held goes to Trio
        self.on_over = on_over
        self.parting: Parting | None = None
        self.is_over = False

    # --- from the client ------------------------------------------------------------------------------

    def to_node(self, payload: memoryview, now: float) -> bool:
        """Sends a client's datagram on; False when it was not taken because of news about earlier ones."""
        passage, size = self.passage, len(payload)
        try:
            self.node.send(payload)
        except BlockingIOError:
            passage.lost_up += 1
        except OSError:
            return False
        else:
            passage.counters.up += size  # no call in this line: Trio's thread may be adding to the same counter
            if size >= self.long:
                passage.keep(bytes(payload), now)
        passage.heard_at = now
        return True

    # --- from the node --------------------------------------------------------------------------------

    def on_event(self, event: int) -> None:
        """The node's socket has datagrams, or news."""
        if event & EPOLLERR:
            self.front.part(self, Parting.TROUBLE)
            return
        front, passage, raw, ancillary = self.front, self.passage, self.raw, self.ancillary
        loop, sock, receive = front.loop, front.sock, self.node.recv_into
        buffer = loop.datagrams
        for count in range(self.burst.at(loop.wakeups)):
            try:
                size = receive(buffer)
            except BlockingIOError:
                self.burst.ended_at(count)
                return
            except OSError:
                front.part(self, Parting.TROUBLE)
                return
            now = passage.replied_at = loop.clock()
            try:
                if ancillary:
                    sock.sendmsg([buffer[:size]], ancillary, 0, raw)
                else:
                    sock.sendto(buffer[:size], raw)
            except OSError:
                passage.lost_down += 1
            else:
                passage.counters.down += size
            if now >= passage.tell_after:
                passage.tell_after = float("inf")  # once; whoever is told says when to be told again
                front.call_trio(passage.on_reply)


class Front:
    """A listening socket in the engine, and its lanes by client."""

    def __init__(
        self,
        loop: Loop,
        port: SocketDatagramPort,
        take: Callable[[Datagram], None],
        call_trio: Callable[[Callable[[], None]], None],
        on_over: Callable[["Front"], None],
    ) -> None:
        """`call_trio` calls something in Trio's thread soon, in order; `on_over` is called once, after the last."""
        self.loop = loop
        self.port = port
        self.sock: socket.socket = port.plain
        self.call_trio = call_trio
        self.has_failed = False  # closed without having been asked to
        self._take = take
        self._on_over = on_over
        self._fd = port.fileno()
        self._burst = Burst()
        self._lanes: dict[Key, Lane] = {}
        self._all: set[Lane] = set()
        self._held = 0  # datagrams in the lanes
        self._given = 0  # to Trio, so far
        self._taken = 0  # by it; written by its thread alone
        self._is_paused = False
        self._is_closed = False

    def open(self) -> None:
        """Begins to read, or fails where the kernel watches no more sockets."""
        try:
            self.loop.add(self._fd, _FROM_CLIENTS, self.on_event)
        except OSError:
            self.fail()

    def fail(self) -> None:
        """Closes by itself."""
        self.has_failed = not self._is_closed
        self.close()

    def close(self) -> None:
        """Reads no more; the lanes' sessions are told."""
        if self._is_closed:
            return
        self._is_closed = True
        self.loop.remove(self._fd)
        for lane in list(self._all):
            self.part(lane, Parting.CLOSED)
        self._on_over(self)

    def on_event(self, _: int) -> None:
        """The listening socket has datagrams."""
        strangers: list[Datagram] = []
        loop, lanes, held = self.loop, self._lanes, self._held
        buffer, now = loop.datagrams, loop.clock()
        receive = self.port.receive_into
        for count in range(self._burst.at(loop.wakeups)):
            try:
                size, raw, host = receive(buffer)
            except BlockingIOError:
                self._burst.ended_at(count)
                break
            except OSError:  # some client's ICMP; it concerns no other
                continue
            lane = lanes.get((raw, host))
            if lane is not None:
                if lane.held is not None:
                    lane.held.append(bytes(buffer[:size]))
                    self._held += 1
                    continue
                if not lane.is_left:
                    if lane.to_node(buffer[:size], now):
                        continue
                    self.part(lane, Parting.TROUBLE)
            local = Address(host, self.port.address.port) if host else self.port.address
            strangers.append(Datagram(bytes(buffer[:size]), from_sockaddr(raw), local))
        if strangers or self._held > held:
            self._give(strangers)
            self._pause_if_too_far_ahead()

    def _pause_if_too_far_ahead(self) -> None:
        if not self._is_paused and self._ahead() >= MOST_AHEAD:
            self._is_paused = True
            self.loop.change(self._fd, 0)
            self._go_on_if_caught_up()  # Trio may have caught up before it could see that it is waited for

    def _ahead(self) -> int:
        return self._given - self._taken + self._held

    def _go_on_if_caught_up(self) -> None:
        if self._is_paused and not self._is_closed and self._ahead() <= MOST_AHEAD // 2:
            self._is_paused = False
            self.loop.change(self._fd, _FROM_CLIENTS)

    def _give(self, strangers: list[Datagram]) -> None:
        if strangers:
            self._given += len(strangers)
            self.call_trio(lambda: self._take_all(strangers))

    def _take_all(self, strangers: list[Datagram]) -> None:
        for datagram in strangers:
            self._take(datagram)
        self._taken += len(strangers)
        if self._is_paused:
            self.loop.call(self._go_on_if_caught_up)

    # --- lanes ----------------------------------------------------------------------------------------

    def enter(self, lane: Lane) -> None:
        """Begins a passage. Its client's datagrams are held until those given to Trio before have been dealt with."""
        if self._is_closed:
            self.part(lane, Parting.CLOSED)
            return
        before, self._lanes[lane.key] = self._lanes.get(lane.key), lane
        if before is not None and before.held is not None:  # left so soon that it still holds: those come first
            lane.held, before.held = before.held, None
        self._all.add(lane)
        try:
            self.loop.add(lane.fd, _FROM_NODE, lane.on_event)
        except OSError:  # the kernel watches no more sockets
            self.part(lane, Parting.TROUBLE)
            return
        # Trio is asked in turn, so that it has dealt with everything it was given before.
        self.call_trio(lambda: self.loop.call(lambda: self.go(lane)))

    def go(self, lane: Lane) -> None:
        """Everything that came before has been dealt with: what was held goes, and the rest passes."""
        if lane.held is None:
            return
        if lane.is_left:
            self._give_back(lane)
            return
        held = self._release(lane)
        now = self.loop.clock()
        for index, payload in enumerate(held):
            if not lane.to_node(memoryview(payload), now):
                self.part(lane, Parting.TROUBLE)
                self._give(self._datagrams(lane, held[index:]))
                return

    def divert(self, lane: Lane) -> None:
        """The client's datagrams go to Trio again, after those that are held. In Trio's thread."""
        lane.is_left = True

    def part(self, lane: Lane, parting: Parting | None) -> None:
        """Ends a passage."""
        if lane.is_over:
            return
        lane.is_over = True
        lane.parting = parting
        if self._lanes.get(lane.key) is lane:
            del self._lanes[lane.key]
        self._all.discard(lane)
        self.loop.remove(lane.fd)
        self._give_back(lane)  # now: what comes next goes to Trio at once, and must not overtake them
        lane.on_over(lane)

    def _give_back(self, lane: Lane) -> None:
        self._give(self._datagrams(lane, self._release(lane)))

    def _release(self, lane: Lane) -> list[bytes]:
        """What was held, which it is no longer."""
        held, lane.held = lane.held or [], None
        self._held -= len(held)
        self._go_on_if_caught_up()
        return held

    def _datagrams(self, lane: Lane, payloads: list[bytes]) -> list[Datagram]:
        return [Datagram(each, lane.passage.client, lane.passage.local) for each in payloads]
