"""The order of datagrams across the hand-over between Trio and the engine, with both threads moved by hand.

Whoever carries a client's datagrams, the node of the moment gets them, or Trio is given them, in the order in which
they came, each once. Here every interleaving of the two threads is one that hypothesis picks.
"""

from collections import deque
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sniffgate.address import Address
from sniffgate.net import engine_datagrams
from sniffgate.net.burst import BATCH
from sniffgate.net.engine_datagrams import Front, Lane
from sniffgate.net.ports import Datagram
from sniffgate.net.relay import Counters, Parting, Passage
from sniffgate.net.udp_listener import SocketDatagramPort, open_datagram_port
from sniffgate.net.udp_sockets import SocketDatagramConn, open_datagram_conn

pytestmark = pytest.mark.realnet

ANY_PORT = Address("127.0.0.1", 0)
MOST_AHEAD = 6  # so that the bound is met in short histories


class ByHand:
    """The loop of an engine whose thread, like Trio's, moves when it is told to."""

    def __init__(self) -> None:
        self.datagrams = memoryview(bytearray(65535))
        self.clock: Callable[[], float] = lambda: 0.0
        self.wakeups = 0
        self.interests: dict[int, int] = {}
        self.commands: deque[Callable[[], None]] = deque()
        self.for_trio: deque[Callable[[], None]] = deque()

    def add(self, fd: int, interest: int, handler: Callable[[int], None]) -> None:
        self.interests[fd] = interest

    def change(self, fd: int, interest: int) -> None:
        self.interests[fd] = interest

    def remove(self, fd: int) -> None:
        self.interests.pop(fd, None)

    def call(self, command: Callable[[], None]) -> None:
        self.commands.append(command)


class Hall:
    """A front, one client, two nodes, and a log of what became of each datagram."""

    def __init__(self) -> None:
        self.loop = ByHand()
        self.port: SocketDatagramPort = open_datagram_port(ANY_PORT)
        self.client: SocketDatagramConn = open_datagram_conn(self.port.address)
        self.nodes = [open_datagram_port(ANY_PORT) for _ in range(2)]
        self.conns: list[SocketDatagramConn] = []
        self.front = Front(self.loop, self.port, self.take, self.loop.for_trio.append, lambda _: None)
        self.front.open()
        self.lane: Lane | None = None
        self.sent = 0
        self.log: list[int] = []

    def take(self, datagram: Datagram) -> None:
        assert self.client.local == datagram.client
        assert self.port.address == datagram.local
        self.log.append(int(datagram.data))

    def collect(self) -> None:
        """Notes what the nodes have received, on one machine as soon as it is sent."""
        for node in self.nodes:
            try:
                while True:
                    self.log.append(int(node.plain.recv(100)))
            except BlockingIOError:
                pass

    # --- the moves ------------------------------------------------------------------------------------

    def send(self) -> None:
        self.client.send_nowait(b"%d" % self.sent)
        self.sent += 1

    def read(self) -> None:
        """The engine sees that the listening socket has something."""
        self.loop.wakeups += 1
        if self.loop.interests.get(self.port.fileno()):
            self.front.on_event(1)

    def command(self) -> None:
        self.loop.wakeups += 1  # by something else than the listening socket
        if self.loop.commands:
            self.loop.commands.popleft()()

    def trio(self) -> None:
        if self.loop.for_trio:
            self.loop.for_trio.popleft()()

    def carry(self) -> None:
        """Trio asks for a passage, as it does when there is none that it has not left."""
        if self.lane is not None and not self.lane.is_over and not self.lane.is_left:
            return
        conn = open_datagram_conn(self.nodes[len(self.conns) % 2].address)
        self.conns.append(conn)
        passage = Passage(
            client=self.client.local,
            local=self.port.address,
            conn=conn,
            counters=Counters(),
            keep=lambda *_: None,
            on_reply=lambda: None,
        )
        self.lane = lane = Lane(self.front, passage, conn, lambda _: None)
        self.loop.call(lambda: self.front.enter(lane))

    def divert(self) -> None:
        if self.lane is not None:
            self.front.divert(self.lane)

    def cancel(self) -> None:
        if self.lane is not None:
            lane = self.lane
            self.loop.call(lambda: self.front.part(lane, None))

    def trouble(self) -> None:
        if self.lane is not None and self.lane.fd in self.loop.interests:
            self.front.part(self.lane, Parting.TROUBLE)

    def run_out(self) -> None:
        """Both threads do all that they have to do."""
        for _ in range(100):
            self.read()
            self.command()
            self.trio()
            self.collect()

    def close(self) -> None:
        for each in (self.port, self.client, *self.nodes, *self.conns):
            each.close()


MOVES = ("send", "read", "command", "trio", "carry", "divert", "cancel", "trouble")


@example(["send", "read", "carry", "command", "send", "read"])  # given to Trio, not yet taken
@example(["send", "carry", "command", "cancel", "read", "command", "send"])  # held when the passage ends
# held when its leg is left, and another passage begins
@example(
    [
        "carry",
        "command",
        "send",
        "read",
        "divert",
        "carry",
        "command",
        "send",
        "read",
        "trio",
        "trio",
        "command",
        "command",
    ],
)
@settings(max_examples=max(300, settings.default.max_examples if settings.default else 0))
@given(st.lists(st.sampled_from(("send", "send", "read", *MOVES)), max_size=80))
def test_order_is_kept_whatever_the_threads_do(moves: list[str]) -> None:
    """None is lost, doubled or overtaken, in any interleaving of arrivals, hand-overs, moves and endings."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine_datagrams, "MOST_AHEAD", MOST_AHEAD)
        hall = Hall()
        try:
            for move in moves:
                getattr(hall, move)()
                hall.collect()
                assert hall.log == list(range(len(hall.log))), "overtaken"
                assert hall.front._ahead() <= MOST_AHEAD + BATCH
            hall.run_out()
            assert list(range(hall.sent)) == hall.log
            assert 0 == hall.front._ahead()
            assert hall.loop.interests[hall.port.fileno()]
        finally:
            hall.close()


def test_a_passage_that_begins_as_its_listener_closes_is_over_at_once() -> None:
    """It would wait for a socket that is gone, and take the node's replies with it."""
    hall = Hall()
    try:
        hall.loop.call(hall.front.close)
        hall.carry()
        hall.run_out()
        assert hall.lane is not None
        assert (True, Parting.CLOSED) == (hall.lane.is_over, hall.lane.parting)
        assert {} == hall.loop.interests
    finally:
        hall.close()


def test_a_flood_of_strangers_waits_in_the_kernel_while_trio_is_busy() -> None:
    """The kernel's buffer has a bound; a queue of ours without one would take all memory."""
    hall = Hall()
    try:
        for _ in range(3000):
            hall.send()
            hall.read()
        assert engine_datagrams.MOST_AHEAD <= hall.front._ahead() < engine_datagrams.MOST_AHEAD + BATCH
        assert 0 == hall.loop.interests[hall.port.fileno()]
        while hall.loop.for_trio or hall.loop.commands:
            hall.trio()
            hall.command()
            hall.read()
        assert list(range(3000)) == hall.log
    finally:
        hall.close()
