"""The kernel's part of a virtual TCP connection: at each end a send buffer, a way to the other, and a receive buffer.

Each way delivers in order and sends lost segments again, as kernels do: nothing is lost while the conditions recover
within the limits, and a connection whose peer has vanished ends when its bytes stayed unacknowledged for too long.
"""

from collections import deque
from collections.abc import Callable
from functools import partial

import attrs
import trio

from ..address import Address
from ..config.schema import Transport
from ..errors import Side
from .closing import Waitable
from .fabric import Fabric, Packet
from .machine import Machine
from .trace import Kind

FIRST_RETRY = 0.2  # TCP_RTO_MIN of Linux, doubled each time
LAST_RETRY = 120.0  # TCP_RTO_MAX
GIVE_UP = 924.6  # what tcp_retries2 = 15 amounts to (Linux, ip-sysctl)
SEGMENT = 16384
KEEPALIVE_IDLE = 30.0  # then three probes, 10 seconds apart
KEEPALIVE_LIMIT = 60.0
RESET, TIMED_OUT = "connection reset", "connection timed out"


@attrs.define(eq=False)
class _Segment:
    """Bytes, or the end of them, or (kind None) the last step of a handshake, on the way to the other end."""

    kind: Kind | None
    data: bytes = b""
    tries: int = 0
    arrived: bool = False
    landed: Callable[[], None] | None = None


class TcpEnd(Waitable):
    """What the kernel at one end of a connection knows and does."""

    transport = Transport.TCP

    def __init__(self, fabric: Fabric, machine: Machine, local: Address, peer: Address, side: Side) -> None:
        super().__init__(fabric, local)
        self._machine = machine
        self.local = local
        self.peer = peer
        self.side = side
        self.twin: TcpEnd | None = None
        self.gone = False  # the kernel has forgotten it: whatever arrives is answered with a reset
        self._inbox = bytearray()
        self._ended = False  # the peer's end of stream has arrived
        self._broken = ""  # why it was broken off, if it was
        self._outbox = bytearray()
        self._way: deque[_Segment] = deque()
        self._window = fabric.buffers.receive  # what the other end has room for, as far as we know
        self._unacked = 0
        self._fin_asked = self._fin_sent = False
        self._user_timeout = 0.0
        self._progress = 0.0  # when the peer last acknowledged something, or had nothing to acknowledge
        self._watched = False
        self._cut_off: float | None = None  # since when nothing passes between the ends
        machine.connected[self] = None

    def open(self, landed: Callable[[], None]) -> None:
        """The last step of the handshake: `landed` is called at the other end, before any data gets there."""
        self._way.append(_Segment(None, landed=landed))
        self._launch(self._way[-1])

    def _push(self) -> None:
        """Puts on the way what the peer has room for."""
        if self.gone:
            return
        while self._outbox and self._window > 0:
            data = bytes(self._outbox[: min(SEGMENT, self._window)])
            del self._outbox[: len(data)]
            if not self._unacked:
                self._progress = trio.current_time()
            self._window -= len(data)
            self._unacked += len(data)
            self._add(_Segment(Kind.DATA, data))
        if self._fin_asked and not self._outbox and not self._fin_sent and not self.gone:
            self._fin_sent = True
            self._add(_Segment(Kind.FIN))
        if self._user_timeout:
            self._watch()

    def _add(self, segment: _Segment) -> None:
        self._way.append(segment)
        self._launch(segment)

    def _packet(self, kind: Kind | None, size: int = 0) -> Packet:
        return Packet(kind, self.transport, self.local, self.peer, size)

    def _launch(self, segment: _Segment) -> None:
        packet = self._packet(segment.kind, len(segment.data))
        self._fabric.carry(packet, partial(self._segment_arrived, segment), partial(self._segment_lost, segment))

    def _segment_arrived(self, segment: _Segment) -> None:
        segment.arrived = True
        while self._way and self._way[0].arrived and self.twin is not None:
            self.twin.take_in(self._way.popleft())

    def _segment_lost(self, segment: _Segment) -> None:
        self._again(segment.tries, partial(self._launch, segment))
        segment.tries += 1

    def _again(self, tries: int, send: Callable[[], None]) -> None:
        """Sends something again, the later the more often it was lost, as long as the connection lives."""

        def retry() -> None:
            if not self.gone:
                send()

        if not self.gone:
            self._watch()
            self._fabric.wire.after(min(FIRST_RETRY * 2**tries, LAST_RETRY), retry)

    def take_in(self, segment: _Segment) -> None:
        """Receives a segment in its turn."""
        if self.gone or (self._closed and segment.data):
            self.answer_stranger()
        elif segment.landed is not None:
            segment.landed()
        elif segment.kind is Kind.FIN:
            self._ended = True
            self.stir()
            self._retire_if_over()
        else:
            self._inbox += segment.data
            self._tell_peer(acked=len(segment.data))
            self.stir()

    def _tell_peer(self, *, acked: int = 0, read: int = 0, tries: int = 0) -> None:
        """Acknowledges bytes, or tells of room again; repeated when lost, as the peer's retries would make us do."""
        again = partial(self._tell_peer, acked=acked, read=read, tries=tries + 1)
        twin = self.twin
        if twin is not None and not self.gone:
            arrive = partial(twin.hear, acked, read)
            self._fabric.carry(self._packet(None), arrive, partial(self._again, tries, again))

    def hear(self, acked: int, read: int) -> None:
        """Takes note of what the peer acknowledged, and of what its application read."""
        if self.gone:
            return
        self._unacked -= acked
        self._window += read
        self._progress = trio.current_time()
        self._push()
        self.stir()

    def _watch(self) -> None:
        """Looks after bytes that wait: without progress for the limit, the connection times out."""
        if self._watched or self.gone or not self._outstanding:
            return
        self._watched = True
        limit = self._user_timeout or GIVE_UP
        self._fabric.wire.after(max(0.0, self._progress + limit - trio.current_time()), self._look)

    @property
    def _outstanding(self) -> bool:
        # a user timeout counts bytes kept back by a full window too; the system's does not
        return self._unacked > 0 or (self._user_timeout > 0 and bool(self._outbox))

    def _look(self) -> None:
        self._watched = False
        limit = self._user_timeout or GIVE_UP
        if self._outstanding and not self.gone and trio.current_time() >= self._progress + limit:
            self._break_off(TIMED_OUT)
        else:
            self._watch()

    def notice(self) -> None:
        """Faults came or went: an idle connection finds out by keepalive, as those of `net/sockets.py` do."""
        passes = self._fabric.passes(self._packet(None))
        if not passes and self._cut_off is None and not self.gone:
            self._cut_off = trio.current_time()
            self._fabric.wire.after(KEEPALIVE_LIMIT, partial(self._miss_answers, self._cut_off))
        elif passes and self._cut_off is not None:
            self._cut_off = None
            if self.twin is not None and self.twin.gone and not self.gone:
                self._fabric.wire.after(KEEPALIVE_IDLE, self.twin.answer_stranger)
        self.stir()

    def _miss_answers(self, since: float) -> None:
        # while bytes are unacknowledged no keepalive is sent: their own retries decide
        if self._cut_off == since and not self._unacked and not self.gone:
            self._break_off(TIMED_OUT)

    def answer_stranger(self) -> None:
        """Something came for a connection that this kernel does not know (any more)."""
        self._forget()
        self._send_reset()

    def _send_reset(self) -> None:
        if self.twin is not None:
            self._fabric.carry(self._packet(Kind.RST), self.twin.hear_reset)

    def hear_reset(self) -> None:
        """The peer broke the connection off."""
        if not self.gone:
            self._break_off(RESET)

    def _break_off(self, why: str) -> None:
        self._broken = why
        self._forget()
        self.stir()

    def _forget(self) -> None:
        """The kernel's part of the connection ends; segments already under way still arrive."""
        self.gone = True
        self._outbox.clear()
        self._unacked = 0
        if self._closed:
            self._machine.connected.pop(self, None)

    def _retire_if_over(self) -> None:
        for end in (self, self.twin):
            if end is not None and end._closed and end._ended and end._fin_sent and not end._way:
                end._machine.connected.pop(end, None)

    def unsent(self) -> int:
        """Bytes sent that the peer's machine has not acknowledged; 0 once closed or broken off."""
        self._fabric.wire.settle()
        return 0 if self._closed or self.gone else len(self._outbox) + self._unacked

    def set_user_timeout(self, seconds: float) -> None:
        """Bounds in seconds how long sent bytes may wait for an acknowledgement; 0 is the system's bound."""
        self._user_timeout = seconds
        self._watch()

    def crash(self, *, silently: bool) -> None:
        """The process or the machine dies: our tasks find the port closed, the peer a reset unless `silently`."""
        was_gone = self.gone
        if not self._closed:
            self._leave()
        self._forget()
        if not silently and not was_gone:
            self._send_reset()

    def _leave(self) -> None:
        self._closed = True
        if self.side is Side.UPSTREAM:  # an accepted connection has its listener's port
            self._machine.give_back_port(self.transport, self.local.port)
        if self.gone:
            self._machine.connected.pop(self, None)
        self.stir()
