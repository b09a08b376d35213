"""The portable relay: two Trio tasks per flow, on the ports alone, so that it runs on any platform and any network."""

from collections.abc import Callable

import attrs
import trio

from ..errors import PeerReset
from .endings import say_farewell, wait_delivered
from .ports import Acceptor, Conn, Datagram, DatagramPort
from .relay import Counters, EndReason, Parting, Passage, RelayLimits
from .shortcut import FlowGroup, Leaving, Shortcut

BUFFER_BYTES = 65536  # the most that one direction of a flow holds in user space


class TaskRelay:
    """A `Relay` of two pumps per flow."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Returns at once: the flows' own tasks are all there is."""
        await trio.lowlevel.checkpoint()
        task_status.started()

    def stop(self) -> None:
        """Does nothing."""

    has_shortcuts = False

    async def admit(self, acceptor: Acceptor, shortcut: Shortcut) -> Leaving:
        """Is never called: there are no shortcuts."""
        raise NotImplementedError

    async def hold(self, group: FlowGroup) -> None:
        """Is never called: there are no shortcuts."""
        raise NotImplementedError

    has_passages = False

    async def receive_forever(self, front: DatagramPort, take: Callable[[Datagram], None]) -> None:
        """See `Relay.receive_forever`."""
        while True:
            take(await front.receive())

    async def carry(self, front: DatagramPort, passage: Passage) -> Parting:
        """Is never called: there are no passages."""
        raise NotImplementedError

    def divert(self, passage: Passage) -> None:
        """Does nothing: there are no passages."""

    async def relay(
        self,
        client: Conn,
        node: Conn,
        counters: Counters,
        limits: RelayLimits,
        on_first_byte: Callable[[], None] | None = None,
    ) -> EndReason:
        """Relays until both directions have ended and says how; see `Relay.relay`. *Closes:* both connections.

        *Cancellation:* nothing here waits for a peer: the cut is made at once, without a shield.
        *Errors:* only bugs (of `on_first_byte` too), in the group of the pumps' nursery, after the cut.
        """
        flow = _Flow(_Way(client, node), _Way(node, client), counters, limits, on_first_byte)
        try:
            async with trio.open_nursery() as pumps:
                flow.scope = pumps.cancel_scope
                flow.watch()
                pumps.start_soon(_pump, flow, flow.up)
                pumps.start_soon(_pump, flow, flow.down)
                await flow.one_side_gone.wait()
                await wait_delivered(client if flow.reason is EndReason.NODE_RESET else node)
                pumps.cancel_scope.cancel()
        finally:
            flow.say_farewell()
        return flow.outcome


@attrs.define(eq=False)
class _Way:
    """One direction of a flow."""

    source: Conn
    sink: Conn
    ended: bool = False  # the source's end of stream was passed on
    broken: bool = False  # the sink takes no more: what still comes is discarded
    holding: bool = False  # bytes received and not yet wholly handed on


@attrs.define(eq=False)
class _Flow:
    """What the two pumps of a flow share. The first ending decides the reason."""

    up: _Way
    down: _Way
    counters: Counters
    limits: RelayLimits
    on_first_byte: Callable[[], None] | None
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    reason: EndReason | None = None  # None: not decided, so a timeout or a cut from outside ends it
    timeout: EndReason = EndReason.IDLE  # which limit the scope's deadline stands for
    last_byte: float = attrs.field(factory=trio.current_time)
    half_closed: float | None = None  # when the first direction ended
    one_side_gone: trio.Event = attrs.field(factory=trio.Event)  # the other is still to be given what that side sent

    @property
    def outcome(self) -> EndReason:
        return self.timeout if self.reason is None else self.reason

    def reverse(self, way: _Way) -> _Way:
        return self.down if way is self.up else self.up

    def watch(self) -> None:
        """Moves the scope's deadline: the scope is the watchdog, so no task has to be one."""
        idle = self.last_byte + self.limits.idle if self.limits.idle else float("inf")
        deadline, self.timeout = idle, EndReason.IDLE
        if self.half_closed is not None:
            # The end of stream is no byte for the idle limit, but the half-close limit cannot start before it.
            half_close = max(self.last_byte, self.half_closed) + self.limits.half_close
            if half_close < idle:
                deadline, self.timeout = half_close, EndReason.HALF_CLOSE_TIMEOUT
        if deadline != self.scope.deadline:
            self.scope.deadline = deadline

    def saw_byte(self) -> None:
        self.last_byte = trio.current_time()
        self.watch()

    async def hand_on(self, way: _Way, data: bytes) -> None:
        """Sends `data` on; once the sink is broken, discards it and leaves the verdict to who reads that peer."""
        if way.broken:
            return  # not a byte of the flow any more: it neither counts nor keeps the flow from being idle
        way.holding = True
        self.saw_byte()
        if way is self.down and (announce := self.on_first_byte) is not None:
            self.on_first_byte = None
            announce()
        try:
            await way.sink.send_all(data)
        except PeerReset:
            way.broken = True
            if (back := self.reverse(way)).ended:
                self.lose(back)
        else:
            if way is self.up:
                self.counters.up += len(data)
            else:
                self.counters.down += len(data)
            self.saw_byte()
        way.holding = False

    def end(self, way: _Way) -> None:
        """Takes note that the end of stream was passed on."""
        way.ended = True
        back = self.reverse(way)
        if back.broken:
            self.lose(way)
        elif back.ended and self.reason is None:
            self.reason = EndReason.COMPLETE
            self.scope.cancel()
        else:
            self.half_closed = trio.current_time()
            self.watch()

    def lose(self, way: _Way) -> None:
        """Takes note that the source of `way` is gone: all it had sent has been read, down to the error.

        Where its stream had ended before, the bytes of the other direction are what is lost. Complete means that both
        directions ended properly, so that is a reset too, though the survivor still gets the whole stream and its end.
        """
        first = self.reason is None
        if first:
            self.reason = EndReason.CLIENT_RESET if way is self.up else EndReason.NODE_RESET
        # A client that breaks off in mid-stream has no use for the rest; what a node had sent is delivered first.
        if first and (way is self.down or way.ended):
            self.one_side_gone.set()
        else:
            self.scope.cancel()

    def say_farewell(self) -> None:
        """Closes both sides, synchronously."""
        holding = any(way.holding or way.broken for way in (self.up, self.down))
        say_farewell(self.up.source, self.down.source, self.reason, client_was_ended=self.down.ended, holding=holding)


async def _pump(flow: _Flow, way: _Way) -> None:
    """Moves one direction until its source ends or breaks off."""
    try:
        while data := await way.source.receive_some(BUFFER_BYTES):
            await flow.hand_on(way, data)
            del data  # an idle flow keeps no buffer
    except PeerReset:
        flow.lose(way)
        return
    await way.sink.send_eof()
    flow.end(way)
