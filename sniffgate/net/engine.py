"""The relay engine: a `Relay` whose bytes are moved by one thread of its own, while Trio owns every lifecycle.

A flow's task parks until the engine lets go of both sockets. Cancelling it asks the engine to detach them and waits for
that, so no descriptor is ever closed, or its number used again, while the engine may still touch it.
"""

from collections.abc import Callable
from functools import partial
from typing import NoReturn, cast

import outcome
import trio

from .endings import say_farewell, wait_delivered
from .engine_datagrams import Front, Lane
from .engine_direct import cut_group
from .engine_flow import EngineFlow
from .engine_intake import Intake
from .engine_loop import EngineLoop
from .engine_reports import Reports
from .ports import Acceptor, Conn, Datagram, DatagramPort
from .relay import Counters, EndReason, Parting, Passage, RelayLimits
from .shortcut import FlowGroup, Leaving, Shortcut
from .tcp_sockets import SocketAcceptor, SocketConn
from .udp_listener import SocketDatagramPort
from .udp_sockets import SocketDatagramConn


class EngineRelay:
    """A `Relay` for kernel sockets on Linux; `run` must be running while flows are relayed."""

    def __init__(self) -> None:
        self.loop = EngineLoop()
        self._fronts: dict[DatagramPort, Front] = {}
        self._lanes: dict[Passage, Lane] = {}

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Runs the engine's thread until `stop` and the last flow is over.

        Shielded: flows that are cancelled need it to let go of their sockets. Errors: a crash of the engine itself, or
        an OSError before it has started.
        """
        self.loop.clock = trio.lowlevel.current_clock().current_time
        reports = Reports(trio.lowlevel.current_trio_token())
        self.loop.open(reports)
        try:
            task_status.started()
            await trio.lowlevel.checkpoint()  # a start that was cancelled ends here: nobody would stop the thread
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(self.loop.run, limiter=trio.CapacityLimiter(1))
        finally:
            for front in self._fronts.values():  # only after a crash
                front.fail()
            self.loop.close()

    def stop(self) -> None:
        """Makes `run` return once every flow is over."""
        self.loop.stop()

    async def relay(
        self,
        client: Conn,
        node: Conn,
        counters: Counters,
        limits: RelayLimits,
        on_first_byte: Callable[[], None] | None = None,
    ) -> EndReason:
        """See `Relay.relay`. Errors: `RuntimeError` when the engine met a bug in this flow (it has logged it)."""
        token = trio.lowlevel.current_trio_token()
        announce = None if on_first_byte is None else partial(token.run_sync_soon, on_first_byte)
        parked = _Parked(token)
        flow = EngineFlow(
            self.loop,
            cast("SocketConn", client).plain,
            cast("SocketConn", node).plain,
            counters,
            limits,
            announce,
            parked.flow_is_over,
        )
        del announce, on_first_byte  # what lives as long as the flow is memory of every flow
        try:
            await trio.lowlevel.checkpoint_if_cancelled()
            self.loop.attach(flow)
            await parked.wait(partial(self.loop.detach, flow))
            if flow.crashed:
                raise RuntimeError("the relay engine met a bug in this flow")
            if flow.survivor is not None:
                await wait_delivered(client if flow.survivor is flow.client else node)
        finally:
            say_farewell(client, node, flow.reason, client_was_ended=flow.node.ended, holding=flow.holding)
        return flow.reason or flow.timed_out or EndReason.IDLE

    # --- shortcuts ------------------------------------------------------------------------------------

    has_shortcuts = True

    async def admit(self, acceptor: Acceptor, shortcut: Shortcut) -> Leaving:
        """See `Relay.admit`."""
        parked = _Parked(trio.lowlevel.current_trio_token())
        intake = Intake(
            self.loop,
            cast("SocketAcceptor", acceptor),
            shortcut,
            lambda intake: parked.wake(by_itself=intake.leaving is not None or intake.trouble is not None),
        )
        await trio.lowlevel.checkpoint_if_cancelled()
        self.loop.call(intake.open)
        await parked.wait(lambda: self.loop.call(intake.close))
        if intake.trouble is not None:
            raise intake.trouble
        return intake.leaving or Leaving.STALE

    async def hold(self, group: FlowGroup) -> None:
        """See `Relay.hold`."""
        parked = _Parked(trio.lowlevel.current_trio_token())
        over = partial(parked.wake, by_itself=False)
        await parked.wait(lambda: self.loop.call(partial(cut_group, self.loop, group, over)))

    # --- datagrams ------------------------------------------------------------------------------------

    has_passages = True

    async def receive_forever(self, front: DatagramPort, take: Callable[[Datagram], None]) -> None:
        """See `Relay.receive_forever`. *Cancellation:* when the engine does not touch the socket any more.

        Errors: `RuntimeError` when the engine cannot serve it.
        """
        await trio.lowlevel.checkpoint_if_cancelled()  # a start that was cancelled has ended the engine already
        token = trio.lowlevel.current_trio_token()
        parked = _Parked(token)
        entry = Front(
            self.loop,
            cast("SocketDatagramPort", front),
            take,
            token.run_sync_soon,
            lambda front: parked.wake_soon(by_itself=front.has_failed),
        )
        self._fronts[front] = entry
        self.loop.call(entry.open)
        try:
            await parked.wait(lambda: self.loop.call(entry.close))
        finally:
            del self._fronts[front]
        raise RuntimeError("the relay engine cannot watch a listening socket, or has ended")

    async def carry(self, front: DatagramPort, passage: Passage) -> Parting:
        """See `Relay.carry`."""
        entry = self._fronts.get(front)
        if entry is None:
            await trio.lowlevel.checkpoint()
            return Parting.CLOSED
        parked = _Parked(trio.lowlevel.current_trio_token())
        conn = cast("SocketDatagramConn", passage.conn)
        lane = Lane(entry, passage, conn, lambda lane: parked.wake_soon(by_itself=lane.parting is not None))
        self._lanes[passage] = lane
        try:
            await trio.lowlevel.checkpoint_if_cancelled()
            self.loop.call(lambda: entry.enter(lane))
            await parked.wait(lambda: self.loop.call(lambda: entry.part(lane, None)))
        finally:
            del self._lanes[passage]
        if lane.parting is Parting.TROUBLE:
            conn.look_for_reports()
        return lane.parting or Parting.CLOSED

    def divert(self, passage: Passage) -> None:
        """See `Relay.divert`."""
        lane = self._lanes.get(passage)
        if lane is not None:
            lane.front.divert(lane)


class _Parked:
    """A task that waits for the engine to be done with something."""

    __slots__ = ("_detach", "_raise_cancel", "_task", "_token")

    def __init__(self, token: trio.lowlevel.TrioToken) -> None:
        self._token = token
        self._task: trio.lowlevel.Task | None = None
        self._raise_cancel: Callable[[], NoReturn] | None = None

    async def wait(self, detach: Callable[[], None]) -> None:
        """Returns when the engine is done. *Cancellation:* takes effect when `detach` has been carried out."""
        self._task = trio.lowlevel.current_task()
        self._detach = detach
        await trio.lowlevel.wait_task_rescheduled(self._abort)

    def _abort(self, raise_cancel: Callable[[], NoReturn]) -> trio.lowlevel.Abort:
        self._raise_cancel = raise_cancel
        self._detach()
        return trio.lowlevel.Abort.FAILED

    def flow_is_over(self, flow: EngineFlow) -> None:
        """The engine has let go of a flow."""
        self.wake_soon(by_itself=flow.reason is not None or flow.timed_out is not None or flow.crashed)

    def wake_soon(self, *, by_itself: bool) -> None:
        """The engine is done; `by_itself` unless it was asked to be."""
        self._token.run_sync_soon(partial(self.wake, by_itself=by_itself))

    def wake(self, *, by_itself: bool) -> None:
        """See `wake_soon`; in Trio's thread."""
        task, self._task = self._task, None
        assert task is not None
        if self._raise_cancel is not None and not by_itself:
            trio.lowlevel.reschedule(task, outcome.capture(self._raise_cancel))
        else:
            trio.lowlevel.reschedule(task)
