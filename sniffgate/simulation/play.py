"""Plays one history: a gateway, its nodes and its clients on virtual time, until a rule breaks or it is over."""

import contextlib

import attrs
import trio

from ..config.schema import Config, Transport
from ..errors import CommandRefused
from ..state.model import Mark
from ..tasks.gateway import Gateway
from ..testing.embedding import open_gateway
from ..testing.seeding import run_virtual
from ..testing.subject import VirtualGateway
from ..testing.timeline import Timeline
from .broken import Broken
from .clients import Crowd
from .history import MOMENTARY, Fault, History, Order, Recover, Reload, Step, Visit
from .reach import DUST, Promise, Weather
from .stage import Stage, moved_to_stage
from .watch import Watch

LOOK_EVERY = 5.0  # seconds between two looks when nothing happens
EMPTY_HANDED = 600.0  # seconds of a long history after which nodes forget who asked them
AS_FAULT = {"partition": "black_hole", "close_udp": "refuse"}  # what a fault is to who knows fewer words


def play(config: Config, history: History, timeline: Timeline | None = None) -> Broken | None:
    """Plays a history of a configuration; what did not hold, if anything. A `timeline` hears of all that happened.

    The same arguments always lead to the same end. No other run of Trio may be under way in this process.
    """
    under_way = _Play(moved_to_stage(config), history, timeline)
    try:
        return run_virtual(under_way.run, seed=history.seed)
    except* Exception as crash:  # the gateway contains what it can: what comes out is the hub's, or a network's
        inner: BaseException = crash
        while isinstance(inner, BaseExceptionGroup):
            inner = inner.exceptions[0]
        found = under_way.watch.found
        under_way.watch.found = found or Broken("crashes", f"the gateway ended: {inner!r}", under_way.watch.seen_at)
    return under_way.watch.found


@attrs.define(eq=False)
class _Play:
    config: Config
    history: History
    timeline: Timeline | None
    weather: Weather = attrs.field(factory=Weather)
    watch: Watch = attrs.field(init=False)
    stage: Stage = attrs.field(init=False)
    crowd: Crowd = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.watch = Watch(self.weather)
        self.stage = Stage(self.config, seed=self.history.seed, latency=self.history.latency)

    async def run(self) -> Broken | None:
        """The whole of it."""
        observers = [self.watch.observe] if self.timeline is None else [self.watch.observe, self.timeline.observe]
        async with trio.open_nursery() as nursery:
            for node in self.stage.nodes.values():
                await nursery.start(node.serve)
            nursery.start_soon(self._leave_when_broken, nursery.cancel_scope)
            opened = open_gateway(self.config, self.stage.network, serve_nodes=False, observers=observers)
            async with opened as subject:
                gateway = self.watch.gateway = subject.gateway
                gateway.services.write_flow = self.watch.note_flow
                self.crowd = Crowd(subject.client, gateway, self.watch, Promise(self.weather))
                async with trio.open_nursery() as living:
                    living.start_soon(self.watch.watch_forever, gateway, LOOK_EVERY)
                    await self._do_all(gateway, living)
                    living.cancel_scope.cancel()
                await self._stop(subject)
            nursery.cancel_scope.cancel()
        return self.watch.found

    async def _leave_when_broken(self, scope: trio.CancelScope) -> None:
        await self.watch.broke.wait()
        self._tell(f"BROKEN: {self.watch.found.text if self.watch.found else ''}")
        scope.cancel()

    def _tell(self, what: str) -> None:
        if self.timeline is not None:
            self.timeline.tell(trio.current_time(), what)

    # --- steps ------------------------------------------------------------------------------------

    async def _do_all(self, gateway: Gateway, living: trio.Nursery) -> None:
        tidied = 0.0
        for step in self.history.steps:
            if step.at > trio.current_time():
                await trio.sleep_until(step.at)
            if not isinstance(step, Visit) or step.kind == "chat":
                self._tell(str(step))
            await self._do(step, gateway, living)
            if trio.current_time() - tidied > EMPTY_HANDED:
                tidied = trio.current_time()
                self.stage.forget()
        await trio.sleep_until(self.history.seconds)

    async def _do(self, step: Step, gateway: Gateway, living: trio.Nursery) -> None:
        match step:
            case Visit():
                living.start_soon(self.crowd.visit, step)
                return
            case Fault(node=name, kind=kind):
                self._recover(name)
                self.stage.inflict(name, kind)
                self._spoil(name, kind)
            case Recover(node=name):
                self._recover(name)
            case Order():
                self._disturb(step.node)
                with contextlib.suppress(CommandRefused):
                    await _command(gateway, step)
            case Reload(without=without):
                nodes = tuple(each for each in self.config.nodes if each.name not in without)
                before = {each.name for each in gateway.state.config.nodes}
                for name in sorted(before.symmetric_difference(each.name for each in nodes)):
                    self._disturb(name)
                await gateway.apply(attrs.evolve(self.config, nodes=nodes))
        self.watch.stir()

    def _disturb(self, name: str) -> None:
        """Something concerns a node; "" is all of them."""
        node = self.config.node(name)
        if node is None:
            self.weather.everything = trio.current_time()
        else:
            self.weather.changed[name] = trio.current_time()
        for pool in self.config.pools:
            if node is None or node.pool == pool.name:
                self.crowd.disturbances[pool.name] += 1

    def _recover(self, name: str) -> None:
        self._disturb(name)
        self.stage.recover(name)
        for place in self._places(name):
            self.weather.faults.pop(place, None)

    def _spoil(self, name: str, kind: str) -> None:
        for host, transport in self._places(name):
            if kind in MOMENTARY or (kind == "close_udp" and transport is Transport.TCP):
                continue
            self.weather.faults[host, transport] = AS_FAULT.get(kind, kind)
        self.weather.spoiled.update(host for host, _ in self._places(name))

    def _places(self, name: str) -> list[tuple[str, Transport]]:
        node = self.config.node(name)
        addresses = [] if node is None else [(node.address(each), each) for each in node.transports]
        return [(address.host, transport) for address, transport in addresses if address is not None]

    # --- the end ----------------------------------------------------------------------------------

    async def _stop(self, subject: VirtualGateway) -> None:
        """All clients have left: the gateway ends at once, and leaves nothing behind."""
        with trio.move_on_after(DUST) as patience:
            await subject.stop(0.0)
        if patience.cancelled_caught:
            self.watch.breaks("endings", "the gateway was to stop at once, and did not")
        elif left := self.stage.gateway.open_sockets():
            self.watch.breaks("endings", f"the gateway has ended and left open {left[0][0].value} {left[0][1]}")
        else:
            self.watch.look_back(subject.gateway)


async def _command(gateway: Gateway, step: Order) -> None:
    match step.command:
        case "switch":
            await gateway.switch(step.node)
        case "release":
            await gateway.release()
        case "enable":
            await gateway.enable(step.node)
        case "disable":
            await gateway.disable(step.node)
        case "drain":
            await gateway.drain(step.node, step.seconds)
        case "mark_up" | "mark_down" | "mark_auto":
            mark = {"mark_up": Mark.UP, "mark_down": Mark.DOWN}.get(step.command)
            await gateway.mark(step.node, mark)
