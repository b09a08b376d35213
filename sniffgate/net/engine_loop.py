"""The thread of the relay engine: an epoll set, a queue of commands, timers. No lock is held across a system call.

Commands come from Trio's thread and run between batches of events. Registering is the exception: it is two atomic
steps, done by Trio's thread itself. A flow that ends by itself may have its descriptors closed, and used again, while
an old event waits in the batch; so an event is no more than a hint, and whatever it tells is found out anew.
"""

import contextlib
import heapq
import itertools
import logging
import os
import select
import time
from collections import deque
from collections.abc import Callable

from .engine_flow import BUFFER_BYTES, NO_INTEREST, End, EngineFlow, Timed
from .engine_reports import Reports
from .pipes import PipePool
from .relay import EndReason

log = logging.getLogger("sniffgate")

_IN = select.EPOLLIN
_OUT = select.EPOLLOUT
_BROKEN = select.EPOLLERR | select.EPOLLHUP
EVENTS_PER_POLL = 256
_NEVER = float("inf")
FEW_TIMERS = 64  # are not worth tidying up
DATAGRAM_BYTES = 65535  # more than any payload, so that none is cut


class EngineLoop:
    """One epoll set and the flows in it. `run` is the engine's thread; `open` to `close` belong to Trio's."""

    reports: Reports  # from `open` on
    _epoll: select.epoll
    _wake: int

    def __init__(self) -> None:
        self.now = time.monotonic()
        self.buffer = memoryview(bytearray(BUFFER_BYTES))
        self.datagrams = memoryview(bytearray(DATAGRAM_BYTES))
        self.clock: Callable[[], float] = time.monotonic
        self.pipes = PipePool()
        self.clients_waiting = 0  # for their nodes, at all doors
        self.wakeups = 0  # polls that returned; for tests that idle costs nothing
        self._ends: dict[int, End] = {}
        self._handlers: dict[int, Callable[[int], None]] = {}
        self._commands: deque[Callable[[], None]] = deque()
        self._woken = False
        self._stopping = False
        self._is_over = False
        self._timers: list[tuple[float, int, Timed]] = []
        self._stale_timers = 0  # of what is over
        self._finished: list[EngineFlow] = []  # in this turn
        self._order = itertools.count()

    # --- in Trio's thread -----------------------------------------------------------------------------

    def open(self, reports: Reports) -> None:
        """Takes what `run` needs from the kernel. Errors: OSError."""
        self.reports = reports
        self._epoll = select.epoll()
        try:
            self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        except OSError:
            self._epoll.close()
            raise
        self._epoll.register(self._wake, _IN)

    def attach(self, flow: EngineFlow) -> None:
        """Starts relaying. Both sockets are the engine's until `flow.on_over` was called."""
        if self._is_over:
            raise RuntimeError("the relay engine has ended")
        flow.last_byte = time.monotonic()  # not `now`, which is as old as the last event
        for end in (flow.client, flow.node):
            self._ends[end.fd] = end
            end.interest = _IN
        try:
            for end in (flow.client, flow.node):
                with contextlib.suppress(FileExistsError):  # the other end's first event came first, and concerned it
                    self._epoll.register(end.fd, end.interest or NO_INTEREST)
        except OSError:  # no room: fs.epoll.max_user_watches, or memory
            log.exception("the kernel watches no more sockets")
            flow.crashed = True
            self.detach(flow)  # the first end may be in use already
            return
        if flow.limits.idle:
            self.call(lambda: self.set_timer(flow))
        if flow.over:  # the other end's first event was the flow's last one too
            for end in (flow.client, flow.node):
                with contextlib.suppress(FileNotFoundError):
                    self._epoll.unregister(end.fd)

    def detach(self, flow: EngineFlow) -> None:
        """Stops relaying soon; `flow.on_over` tells when. Does nothing when it is over already."""
        self.call(lambda: self.finish(flow))

    def stop(self) -> None:
        """Makes `run` return once every flow is over."""
        self.call(self._stop)

    def call(self, command: Callable[[], None]) -> None:
        """Runs `command` in the engine's thread, between two batches of events."""
        if self._is_over:  # there is no engine to be careful of any more
            command()
            return
        self._commands.append(command)
        if not self._woken:
            self._woken = True
            os.eventfd_write(self._wake, 1)

    def close(self) -> None:
        """Gives everything back, once `run` has returned or if it never began; flows that a crash left are let go.

        Not at the end of `run`: commands come from this thread, and until they cannot come any more there has to be
        a wake-up call to make and a queue that somebody looks at.
        """
        try:
            for end in list(self._ends.values()):
                end.flow.crashed = True
                self.finish(end.flow)
            self._is_over = True
            while self._commands:
                self._commands.popleft()()
            self.reports.close()
        finally:
            self.pipes.close()
            self._epoll.close()
            os.close(self._wake)

    def __len__(self) -> int:
        """Flows being relayed."""
        return len(self._ends) // 2

    # --- in the engine's thread -----------------------------------------------------------------------

    def run(self) -> None:
        """Relays until stopped. Errors: a crash of the engine itself."""
        while not (self._stopping and not self._ends and not self._handlers):
            events = self._epoll.poll(self._timeout(), EVENTS_PER_POLL)
            self.wakeups += 1
            self.now = time.monotonic()
            for fd, event in events:
                end = self._ends.get(fd)
                if end is not None:
                    self._dispatch(end, event)
                elif (handler := self._handlers.get(fd)) is not None:
                    handler(event)
                elif fd == self._wake:
                    # Read for each event, whatever was run before: `call` may have been between its two last steps
                    # while its command was run, and a wake-up call that nobody takes would come again for ever.
                    with contextlib.suppress(BlockingIOError):
                        os.eventfd_read(self._wake)
                    self._woken = False  # before the commands: one that is added from here on wakes the loop again
            for _ in range(len(self._commands)):  # one that a command adds has its turn after the next events
                self._commands.popleft()()
            self._run_timers()
            if self._finished:
                self._take_apart()
            if self.reports.is_waiting:
                self.reports.send_due(self.now)

    def adopt(self, flow: EngineFlow) -> None:
        """Starts relaying a flow that was begun in this thread."""
        ends = (flow.client, flow.node)
        for end in ends:
            self._ends[end.fd] = end
            end.interest = _IN
        try:
            for end in ends:
                self._epoll.register(end.fd, _IN)
        except OSError:
            log.exception("the kernel watches no more sockets")
            flow.crashed = True
            self.finish(flow)
            return
        if flow.limits.idle:
            self.set_timer(flow)

    def add(self, fd: int, interest: int, handler: Callable[[int], None]) -> None:
        """Calls `handler` with the events of `fd`, in this thread. Errors: OSError, and then it does not."""
        self._epoll.register(fd, interest)
        self._handlers[fd] = handler  # not before: one that stayed behind would keep `run` from ever ending

    def change(self, fd: int, interest: int) -> None:
        """Makes `interest` what is waited for at `fd`, errors aside."""
        self._epoll.modify(fd, interest or NO_INTEREST)

    def remove(self, fd: int) -> None:
        """Forgets `fd`."""
        if self._handlers.pop(fd, None) is not None:
            with contextlib.suppress(OSError, ValueError):  # ValueError: the epoll set is closed
                self._epoll.unregister(fd)

    def _dispatch(self, end: End, event: int) -> None:
        flow = end.flow
        try:
            if event & _OUT and end.interest & _OUT:
                flow.writable(end)
            if flow.over:
                return
            if end.interest & _IN:
                flow.readable(end)
            elif event & _BROKEN:
                flow.failed(end)
        except Exception:
            log.exception("the relay of a flow crashed; the engine goes on")
            flow.crashed = True
            self.finish(flow)

    def watch(self, end: End, interest: int) -> None:
        """See `Loop.watch`."""
        if interest == end.interest or end.flow.over:
            return
        end.interest = interest
        while True:
            try:
                self._epoll.modify(end.fd, interest or NO_INTEREST)
                return
            except FileNotFoundError:  # `attach` is half way through, and may be quicker than this
                with contextlib.suppress(FileExistsError):
                    self._epoll.register(end.fd, interest or NO_INTEREST)
                    return

    def set_timer(self, timed: Timed) -> None:
        """See `Loop.set_timer`."""
        if timed.over:  # its first event was its last, before this command's turn came
            return
        when = timed.due()
        if when < _NEVER:
            timed.timers += 1
            heapq.heappush(self._timers, (when, next(self._order), timed))

    def finish(self, flow: EngineFlow) -> None:
        """See `Loop.finish`."""
        if flow.over:
            return
        flow.over = True
        self.forget_timers(flow)
        is_closed_now = flow.closes_at_once and flow.reason is EndReason.COMPLETE
        for end in (flow.client, flow.node):
            if self._ends.get(end.fd) is end:
                del self._ends[end.fd]
                if not is_closed_now:  # closing takes it out of the set as well
                    with contextlib.suppress(FileNotFoundError):
                        self._epoll.unregister(end.fd)
            flow.holding = flow.holding or end.is_held_up or end.deaf
        for end in (flow.client, flow.node):
            if end.pipe is not None:
                self.pipes.give_back(end.pipe)
                end.pipe = None
        self._finished.append(flow)
        flow.on_over(flow)

    def _take_apart(self) -> None:
        """Cuts the circles in flows that are over, with nobody inside them: else they wait for a garbage collection."""
        for flow in self._finished:
            for end in (flow.client, flow.node):
                del end.mate, end.flow
        self._finished.clear()

    def _timeout(self) -> float:
        due = self._timers[0][0] if self._timers else _NEVER
        if self.reports.is_waiting:
            due = min(due, self.reports.due)
        return -1 if due == _NEVER else max(0.0, due - time.monotonic())

    def forget_timers(self, timed: Timed) -> None:
        """Drops timers of what is over, once they are the greater part.

        Left until they are due they would keep every flow of the last minutes or hours in memory.
        """
        self._stale_timers += timed.timers
        if self._stale_timers > max(FEW_TIMERS, len(self._timers) // 2):
            self._timers = [entry for entry in self._timers if not entry[2].over]
            heapq.heapify(self._timers)
            self._stale_timers = 0

    def _run_timers(self) -> None:
        while self._timers and self._timers[0][0] <= self.now:
            _, _, timed = heapq.heappop(self._timers)
            if timed.over:
                self._stale_timers -= 1
                continue
            timed.timers -= 1
            if timed.due() > self.now:
                self.set_timer(timed)
            else:
                timed.expire()

    def _stop(self) -> None:
        self._stopping = True
