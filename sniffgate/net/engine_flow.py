"""One flow as the relay engine sees it: two ends, and what is on its way between them.

Only the engine's thread acts here.
"""

import errno
import os
import socket
from collections.abc import Callable
from select import EPOLLET, EPOLLIN, EPOLLOUT
from typing import Protocol

from .pipes import Pipe, PipePool
from .relay import Counters, EndReason, RelayLimits

BUFFER_BYTES = 65536  # the one buffer that all flows share for what comes in small pieces
SPLICE_BYTES = 1024 * 1024
SPLICE_ROUNDS = 2  # per event and direction, so that a bulk flow does not keep the small ones waiting
_SPLICE_FLAGS = os.SPLICE_F_MOVE | os.SPLICE_F_NONBLOCK
NO_INTEREST = (
    EPOLLET  # errors only, and each only once: level-triggered, a reset that cannot be acted on yet would spin
)


class Timed(Protocol):
    """What the loop looks at again at a certain time."""

    over: bool
    timers: int  # that the loop has set for it

    def due(self) -> float:
        """When it expires if nothing happens, monotonic seconds; inf for never. It may move later meanwhile."""
        ...

    def expire(self) -> None:
        """Nothing has happened until then."""
        ...


class Loop(Protocol):
    """What a flow needs of the engine's loop."""

    now: float  # monotonic seconds, as of the last poll
    buffer: memoryview
    pipes: PipePool

    def watch(self, end: "End", interest: int) -> None:
        """Makes `interest` what the loop waits for at `end`."""
        ...

    def set_timer(self, timed: Timed) -> None:
        """Looks at it again when it is due."""
        ...

    def finish(self, flow: "EngineFlow") -> None:
        """Lets go of both ends and tells the waiting task."""
        ...


class End:
    """One of the two sockets of a flow, with what is on its way to it."""

    __slots__ = (
        "deaf", "ended", "eof", "fd", "flow", "interest", "is_client", "mate", "pending", "pipe", "reset", "sock",
    )  # fmt: skip

    def __init__(self, sock: socket.socket, *, is_client: bool) -> None:
        self.sock = sock
        self.fd = sock.fileno()
        self.is_client = is_client
        self.interest = 0
        self.eof = False  # its end of stream was read
        self.ended = False  # and passed on to its mate
        self.deaf = False  # it takes no more: what still comes for it is discarded
        self.reset = False  # a failed write took the news of its reset from the kernel, which then reads as an end
        self.pending: memoryview | None = None  # received for it and not yet taken by it
        self.pipe: Pipe | None = None  # the same, in bulk
        self.mate: End
        self.flow: EngineFlow

    @property
    def is_held_up(self) -> bool:
        """Whether something waits for this end to take it."""
        return self.pending is not None or (self.pipe is not None and self.pipe.level > 0)


class EngineFlow:
    """A flow that the engine relays. The first ending decides the reason."""

    closes_at_once = False  # whether both sockets are closed in the step in which the flow is over

    __slots__ = (
        "client", "counters", "crashed", "half_closed", "holding", "last_byte", "limits", "loop", "node",
        "on_first_byte", "on_over", "over", "reason", "survivor", "timed_out", "timers",
    )  # fmt: skip

    def __init__(
        self,
        loop: Loop,
        client: socket.socket,
        node: socket.socket,
        counters: Counters,
        limits: RelayLimits,
        on_first_byte: Callable[[], None] | None,
        on_over: Callable[["EngineFlow"], None],
    ) -> None:
        """`on_over` is called once, in the engine's thread, when the engine has let go of both sockets."""
        self.loop = loop
        self.client = End(client, is_client=True)
        self.node = End(node, is_client=False)
        self.client.mate, self.node.mate = self.node, self.client
        self.client.flow = self.node.flow = self
        self.counters = counters
        self.limits = limits
        self.on_first_byte = on_first_byte
        self.on_over = on_over
        self.last_byte = loop.now
        self.half_closed: float | None = None
        self.reason: EndReason | None = None
        self.survivor: End | None = None  # is to have what the lost one had sent
        self.timed_out: EndReason | None = None
        self.over = False
        self.crashed = False
        self.timers = 0  # that the loop has set for it
        self.holding = False  # when it was over: bytes of it were in our hands, or had been lost there

    # --- what the loop calls --------------------------------------------------------------------------

    def readable(self, end: End) -> None:
        """`end` has bytes, an end of stream or an error to be read."""
        if end.eof or end.mate.is_held_up:
            return
        if end.mate.pipe is not None:
            self._splice(end)
        else:
            self._copy(end)

    def writable(self, end: End) -> None:
        """`end` takes bytes again."""
        try:
            self._flush(end)
        except OSError as error:
            self._went_deaf(end, error)
        if not self.over and not end.is_held_up:
            self._flushed(end)

    def failed(self, end: End) -> None:
        """The kernel reports an error at an end that is not being read from."""
        if end.eof and not end.deaf and end.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._went_deaf(end, None)

    def due(self) -> float:
        """See `Timed.due`."""
        return self._deadline()[0]

    def expire(self) -> None:
        """See `Timed.expire`."""
        _, self.timed_out = self._deadline()
        self.loop.finish(self)

    def _deadline(self) -> tuple[float, EndReason]:
        """When a limit is reached if no byte comes, and which."""
        when, reason = float("inf"), EndReason.IDLE
        if self.limits.idle:
            when = self.last_byte + self.limits.idle
        if self.half_closed is not None:
            half = max(self.last_byte, self.half_closed) + self.limits.half_close
            if half < when:
                when, reason = half, EndReason.HALF_CLOSE_TIMEOUT
        return when, reason

    # --- small pieces ---------------------------------------------------------------------------------

    def _copy(self, end: End) -> None:
        buffer = self.loop.buffer
        try:
            size = end.sock.recv_into(buffer)
        except BlockingIOError:
            return
        except OSError:
            self._lost(end)
            return
        if not size:
            self._ended(end)
            return
        mate = end.mate
        if mate.deaf:
            return  # not a byte of the flow any more: it neither counts nor keeps the flow from being idle
        self.last_byte = self.loop.now
        if self.on_first_byte is not None and not end.is_client:
            self._announce()
        try:
            sent = mate.sock.send(buffer[:size])
        except BlockingIOError:
            sent = 0
        except OSError as error:
            self._went_deaf(mate, error)
            return
        self._count(end, sent)
        if sent < size:
            mate.pending = memoryview(bytes(buffer[sent:size]))
            self._hold_up(end)
        elif size == len(buffer):
            mate.pipe = self.loop.pipes.take()

    def _announce(self) -> None:
        announce, self.on_first_byte = self.on_first_byte, None
        if announce is not None:
            announce()

    def _count(self, source: End, size: int) -> None:
        if source.is_client:
            self.counters.up += size
        else:
            self.counters.down += size

    # --- bulk -----------------------------------------------------------------------------------------

    def _splice(self, end: End) -> None:
        """Moves what `end` has through its mate's pipe, without bringing it into user space."""
        mate = end.mate
        pipe = mate.pipe
        assert pipe is not None
        for _ in range(SPLICE_ROUNDS):
            try:
                size = os.splice(end.fd, pipe.writer, SPLICE_BYTES, flags=_SPLICE_FLAGS)
            except BlockingIOError:
                self._leave_bulk(mate)
                return
            except OSError as error:
                self._leave_bulk(mate)
                if error.errno != errno.EINVAL:  # EINVAL: this kind of socket cannot be spliced, so it is copied
                    self._lost(end)
                return
            if not size:
                self._leave_bulk(mate)
                self._ended(end)
                return
            pipe.level += size
            self.last_byte = self.loop.now
            try:
                self._flush(mate)
            except OSError as error:
                self._went_deaf(mate, error)
                return
            if pipe.level:
                self._hold_up(end)
                return
            if size < BUFFER_BYTES:
                self._leave_bulk(mate)
                return

    def _leave_bulk(self, end: End) -> None:
        if end.pipe is not None:
            self.loop.pipes.give_back(end.pipe)
            end.pipe = None

    # --- back-pressure --------------------------------------------------------------------------------

    def _hold_up(self, source: End) -> None:
        """Nothing more is read from `source` until its mate has taken what there is."""
        self.loop.watch(source, source.interest & ~EPOLLIN)
        self.loop.watch(source.mate, source.mate.interest | EPOLLOUT)

    def _flush(self, end: End) -> None:
        """Gives `end` what it takes of what waits for it."""
        if end.pending is not None:
            try:
                sent = end.sock.send(end.pending)
            except BlockingIOError:
                return
            self._count(end.mate, sent)
            end.pending = end.pending[sent:] if sent < len(end.pending) else None
        elif end.pipe is not None:
            while end.pipe.level:
                try:
                    sent = os.splice(end.pipe.reader, end.fd, end.pipe.level, flags=_SPLICE_FLAGS)
                except BlockingIOError:
                    return
                end.pipe.level -= sent
                self._count(end.mate, sent)
        self.last_byte = self.loop.now

    def _flushed(self, end: End) -> None:
        """Everything that waited for `end` is gone: its mate is read again, or what had to wait for this happens."""
        source = end.mate
        self.loop.watch(end, end.interest & ~EPOLLOUT)
        if self.survivor is end:
            self.loop.finish(self)
        elif not source.eof:
            self.loop.watch(source, source.interest | EPOLLIN)

    # --- endings --------------------------------------------------------------------------------------

    def _ended(self, end: End) -> None:
        """The end of stream of `end` was read; nothing waits for its mate, or it would not have been read."""
        if end.reset:
            self._lost(end)
            return
        end.eof = True
        if self.closes_at_once and end.mate.ended and not (end.deaf or end.mate.deaf):
            if self.reason is None:
                self.reason = EndReason.COMPLETE
            end.ended = True
            self.loop.finish(self)  # closing says it as well
            return
        self.loop.watch(end, end.interest & ~EPOLLIN)
        if not end.mate.deaf:
            try:
                end.mate.sock.shutdown(socket.SHUT_WR)
            except OSError:
                end.mate.deaf = True
        end.ended = True
        if end.deaf:
            self._lost(end)
        elif end.mate.ended:
            if self.reason is None:
                self.reason = EndReason.COMPLETE
            self.loop.finish(self)
        else:
            self.half_closed = self.loop.now
            self.loop.set_timer(self)

    def _went_deaf(self, end: End, error: OSError | None) -> None:
        """A write to `end` failed. It goes on being read to its own error or end: only that decides."""
        end.deaf = True
        # EPIPE comes first only where the end of stream came before the reset: then what is left does end properly
        end.reset = error is not None and error.errno != errno.EPIPE
        end.pending = None
        self._leave_bulk(end)
        if end.ended:
            self._lost(end)
        else:
            # Not read from while its own last bytes wait for its mate: the reset would be reported again and again.
            reading = 0 if end.mate.is_held_up else EPOLLIN
            self.loop.watch(end, (end.interest & ~EPOLLOUT) | reading)
            if not end.mate.eof:
                self.loop.watch(end.mate, end.mate.interest | EPOLLIN)

    def _lost(self, end: End) -> None:
        """`end` is gone: all it had sent has been read, down to the error.

        A client that breaks off in mid-stream has no use for the rest; what a node had sent is delivered first.
        """
        another_was_lost = self.reason is not None
        if self.reason is None:
            self.reason = EndReason.CLIENT_RESET if end.is_client else EndReason.NODE_RESET
        if another_was_lost or (end.is_client and not end.ended):
            self.survivor = None
            self.loop.finish(self)
            return
        self.survivor = end.mate
        self.loop.watch(end, NO_INTEREST)
        if not end.mate.is_held_up:
            self.loop.finish(self)
