"""The gateway: the nursery tree that everything hangs from, and the object through which it is driven.

    root nursery            hub and relay, which leave last
    └── house nursery       ticker and companions (control server, config watcher)
        └── doors nursery   one listener each, with its sockets, leases and flows

Order of death is nesting: the doors close first, then the house, and the hub when nobody is left to report.
"""

import contextlib
import logging
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypedDict

import attrs
import trio

from ..address import Address
from ..config.schema import Config, ListenerConfig, Transport
from ..errors import CommandRefused
from ..net.ports import Acceptor, DatagramPort, Names, Network
from ..net.relay import EndReason, Relay
from ..state.events import (
    ConfigApplied,
    Event,
    OperatorDisabled,
    OperatorDrained,
    OperatorEnabled,
    OperatorMarked,
    OperatorReleased,
    OperatorSwitched,
)
from ..state.model import Mark, State
from ..state.reducer import initial_state
from .binding import SocketKey, open_new_sockets, socket_key
from .board import Board
from .clock import Clock
from .farewell import Farewell
from .flow_log import FlowLog
from .hub import CHANNEL_SLOTS, Item, Observer, Reporter, run_hub
from .incidents import Incidents
from .leases import LeaseView
from .ledger import Ledger
from .listener import Listener
from .reload import Reloader
from .services import Services, Slots
from .ticker import tick_forever
from .transitions import log_transitions

log = logging.getLogger("sniffgate")

Companion = Callable[["Gateway"], Awaitable[None]]


class _Times(TypedDict):
    at: float
    wall_ms: int


@attrs.frozen(kw_only=True)
class ReloadReport:
    """How the last attempt to apply a configuration ended."""

    at_ms: int
    ok: bool
    message: str
    path: str
    epoch: int


class Gateway:
    """A running gateway. Everything an operator asks returns the state after it was folded."""

    def __init__(self, services: Services, flow_log: FlowLog, path: str = "") -> None:
        self.services = services
        self.listeners: dict[SocketKey, Listener] = {}
        self._leaving: list[Listener] = []  # listeners that a reload removed, while their flows drain
        self.path = path
        self.loaded_at_ms = services.clock.wall_ms()
        self.reload_report: ReloadReport | None = None
        self.reloader: Reloader | None = None  # None: it was not started from a file
        self.stopping = trio.Event()
        self._flow_log = flow_log
        self._doors: trio.Nursery | None = None
        self._changing = trio.Lock()
        self._farewell: Farewell | None = None

    # --- reading --------------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """The state as published last."""
        return self.services.board.state

    @property
    def ledger(self) -> Ledger:
        """The counters."""
        return self.services.ledger

    @property
    def addresses(self) -> Mapping[str, Address]:
        """Where each listener is bound, with its real port."""
        return {listener.settings.name: listener.address for listener in self.listeners.values()}

    @property
    def leaving(self) -> tuple[Listener, ...]:
        """The listeners that a reload removed, while their flows drain."""
        return tuple(self._leaving)

    def leases(self) -> tuple[LeaseView, ...]:
        """The leases of every listener, those that are leaving included, oldest first."""
        return tuple(
            LeaseView(
                listener=listener.settings.name,
                endpoint=lease.endpoint,
                address=lease.address,
                flows=lease.flows,
                kind=lease.terms.kind,
                deadline=self.services.clock.deadline(lease.terms.deadline),
            )
            for listener in (*self._leaving, *self.listeners.values())
            for lease in listener.leases
        )

    async def wait_for(self, predicate: Callable[[State], bool]) -> State:
        """Returns the first published state that `predicate` is true of, the present one included."""
        state = self.state
        while not predicate(state):
            state = await self.services.board.wait_revision(state)
        return state

    # --- the operator's commands: each raises `CommandRefused` with a sentence when it cannot be done ------

    async def switch(self, node: str, transport: Transport | None = None) -> State:
        """Pins `node`, over one transport or each that it has."""
        return await self._ask(OperatorSwitched(**self._times(), node=node, transport=transport))

    async def release(self, transport: Transport | None = None) -> State:
        """Back to automatic choice."""
        return await self._ask(OperatorReleased(**self._times(), transport=transport))

    async def enable(self, node: str) -> State:
        """Lets `node` have traffic; undoes `disable` and `drain`."""
        return await self._ask(OperatorEnabled(**self._times(), node=node))

    async def disable(self, node: str) -> State:
        """Keeps new traffic from `node`; its flows drain as configured."""
        return await self._ask(OperatorDisabled(**self._times(), node=node))

    async def drain(self, node: str, timeout: float | None = None) -> State:
        """Disables `node` and gives its flows `timeout` seconds (0 = none, inf = for ever; None = as configured)."""
        return await self._ask(OperatorDrained(**self._times(), node=node, timeout=timeout))

    async def mark(self, node: str, mark: Mark | None) -> State:
        """Declares `node` up or down whatever the evidence says; None gives it back to the evidence."""
        return await self._ask(OperatorMarked(**self._times(), node=node, mark=mark))

    async def _ask(self, event: Event) -> State:
        return await self.services.reporter.ask(event)

    def _times(self) -> _Times:
        return {"at": self.services.clock.now(), "wall_ms": self.services.clock.wall_ms()}

    # --- configuration --------------------------------------------------------------------------------

    async def apply(self, config: Config) -> State:
        """Puts `config` in force: binds, then folds, then lets go of what is not needed any more.

        Unchanged listeners, flows and health are untouched. Errors: `CannotBind`, or `CommandRefused` while stopping;
        then everything is as it was.
        """
        async with self._changing:
            if self.stopping.is_set():
                raise CommandRefused("the gateway is stopping")
            rebinding = await open_new_sockets(self.services.network, self.listeners, config, self._leaving)
            with trio.CancelScope(shield=True):  # half applied is worse than a moment late: the hub answers at once
                state = await self._ask(ConfigApplied(**self._times(), config=config))
                self._adopt(config, rebinding.opened)
            self.loaded_at_ms = self.services.clock.wall_ms()
            return state

    async def reload(self) -> ReloadReport:
        """Reads the configuration file and puts it in force; what is wrong with it is in the report, never raised."""
        if self.reloader is None:
            await trio.lowlevel.checkpoint()
            return self.report_reload(ok=False, message="there is no configuration file to read")
        return await self.reloader.reload(self)

    def report_reload(self, *, ok: bool, message: str) -> ReloadReport:
        """Remembers how an attempt to reload ended, for `status`."""
        self.reload_report = ReloadReport(
            at_ms=self.services.clock.wall_ms(), ok=ok, message=message, path=self.path, epoch=self.state.epoch
        )
        return self.reload_report

    def _adopt(self, config: Config, opened: Mapping[SocketKey, Acceptor | DatagramPort]) -> None:
        assert self._doors is not None
        wanted = {socket_key(listener): listener for listener in config.listeners}
        for key in [key for key in self.listeners if key not in wanted]:
            listener = self.listeners.pop(key)
            self._leaving.append(listener)
            listener.stop(self.services.clock.now() + listener.drain_timeout)
        self._leaving = [listener for listener in self._leaving if not listener.is_over]
        for key, settings in wanted.items():
            if key in self.listeners:
                self.listeners[key].change(settings)
                if key in opened:  # an earlier change took its socket and could not give it back
                    self.listeners[key].resume(opened[key])
            else:
                self._open(settings, opened[key])
        self._flow_log.mode = config.globals.flow_log
        known = set(self.state.health)
        self.services.forget(known)

    def _open(self, settings: ListenerConfig, socket: Acceptor | DatagramPort) -> None:
        assert self._doors is not None
        if self.stopping.is_set():  # the end overtook a reload
            socket.close()
            return
        listener = Listener(self.services, settings, socket)
        self.listeners[socket_key(settings)] = listener
        self._doors.start_soon(listener.run)

    # --- the end --------------------------------------------------------------------------------------

    def stop(self, grace: float | None = None) -> None:
        """Stops taking clients; flows may finish for `grace` seconds (None = `shutdown_grace_ms`), then are cut.

        May be called again: the end only moves closer.
        """
        grace = self.state.config.globals.shutdown_grace if grace is None else grace
        for listener in (*self.listeners.values(), *self._leaving):
            listener.stop(self.services.clock.now() + grace, EndReason.SHUTDOWN)
        self._farewell = self._farewell or Farewell(self.ledger, self.services.clock)
        self.stopping.set()

    # --- the nursery tree -----------------------------------------------------------------------------

    async def run(
        self,
        items: trio.MemoryReceiveChannel[Item],
        reports: trio.MemorySendChannel[Item],
        sockets: Mapping[SocketKey, Acceptor | DatagramPort],
        companions: Sequence[Companion],
        observe: Observer,
        task_status: trio.TaskStatus["Gateway"],
    ) -> None:
        """Runs until stopped and every flow has ended; a crash in the hub comes out. *Closes:* what it is given."""
        services = self.services
        async with trio.open_nursery() as root:
            root.start_soon(run_hub, items, services.board, observe)
            with reports, contextlib.ExitStack() as stack:
                await root.start(services.relay.run)
                stack.callback(services.relay.stop)
                await self._keep_house(sockets, companions, task_status)

    async def _keep_house(
        self,
        sockets: Mapping[SocketKey, Acceptor | DatagramPort],
        companions: Sequence[Companion],
        task_status: trio.TaskStatus["Gateway"],
    ) -> None:
        services = self.services
        async with trio.open_nursery() as house:
            house.start_soon(tick_forever, services.board, services.clock, services.reporter)
            for companion in companions:
                house.start_soon(companion, self)
            async with trio.open_nursery() as self._doors:
                for settings in self.state.config.listeners:
                    self._open(settings, sockets[socket_key(settings)])
                task_status.started(self)
                await self.stopping.wait()
            if self._farewell is not None:
                self._farewell.say()
            house.cancel_scope.cancel()


async def run_gateway(
    config: Config,
    *,
    network: Network,
    names: Names,
    relay: Relay,
    companions: Sequence[Companion] = (),
    observers: Sequence[Observer] = (),
    path: str = "",
    max_flows: int | None = None,
    dice: random.Random | None = None,
    flow_log: FlowLog | None = None,
    task_status: trio.TaskStatus[Gateway] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Runs a gateway on any network, and reports it as started once every listener is bound.

    `companions` run beside it until the last flow has ended. `max_flows` bounds the flows and sessions of all listeners
    together. Returns after `Gateway.stop`; *Cancellation:* ends it at once, with nothing left behind.
    Errors: `CannotBind` before it has started.
    """
    clock = Clock()
    board = Board(initial_state(config, wall_ms=clock.wall_ms()))
    reports, items = trio.open_memory_channel[Item](CHANNEL_SLOTS)
    flow_log = flow_log or FlowLog(config.globals.flow_log)
    ledger = Ledger()
    services = Services(
        board=board,
        reporter=Reporter(reports, board, clock),
        clock=clock,
        network=network,
        names=names,
        relay=relay,
        dice=dice or random.Random(),
        write_flow=flow_log.write,
        flow_slots=Slots(max_flows),
        incidents=Incidents(clock.now, lambda endpoint: ledger.of(endpoint).active),
        ledger=ledger,
    )
    gateway = Gateway(services, flow_log, path)

    def observe(before: State, event: Event, after: State) -> None:
        log_transitions(before, event, after)
        services.incidents.observe(before, event, after)
        for observer in observers:
            observer(before, event, after)

    rebinding = await open_new_sockets(network, {}, config)
    try:
        await gateway.run(items, reports, rebinding.opened, companions, observe, task_status)
    finally:
        for socket in rebinding.opened.values():
            socket.close()
        flow_log.flush()
