"""Plays a history: a gateway, its nodes and a crowd of clients on the virtual network, watched from outside."""

import contextlib
import itertools
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator

import attrs
import trio
from trio.testing import wait_all_tasks_blocked

from sniffgate.address import Address
from sniffgate.config.schema import Config, RouteKey, Transport
from sniffgate.errors import CommandRefused, ConnectFailed, DatagramRefused, PeerReset, Side
from sniffgate.net.ports import Conn, DatagramConn
from sniffgate.net.relay import EndReason
from sniffgate.net.relay_tasks import TaskRelay
from sniffgate.net.resolver import Resolver
from sniffgate.simulation.drains import DrainBook
from sniffgate.simulation.reach import DUST, Promise, Weather, detection_time, recovery_time, wrong_verdicts
from sniffgate.simulation.routes import wrong_routes
from sniffgate.state.events import Event
from sniffgate.state.log_lines import header_to_json
from sniffgate.state.model import State
from sniffgate.state.replay import PartEnded, replay_lines
from sniffgate.state.routing import candidates
from sniffgate.state.serial import event_to_json
from sniffgate.tasks.flow_log import FlowLog, FlowRecord
from sniffgate.tasks.gateway import Gateway, run_gateway
from sniffgate.tasks.listener import Listener
from sniffgate.tasks.udp import UdpIntake
from sniffgate.testing.backends import Node
from sniffgate.testing.embedding import CLIENT, NoJitter
from sniffgate.testing.virtual import VirtualHost, VirtualNetwork
from tests.tasks.configs import GATEWAY
from tests.tasks.history import (
    NAMES,
    PLACES,
    TCP,
    UDP,
    Client,
    Door,
    Drop,
    Fault,
    History,
    Open,
    Operator,
    Put,
    Recover,
    Set,
    Shape,
    Shut,
    Step,
    Wait,
    host_of,
)
from tests.tasks.history_rules import Watched, too_many_hedges, too_many_tries

PATIENCE = 0.5  # seconds an answer may take beyond all the connects that may hang
UDP_WINDOW = 4.0  # seconds in which a client that keeps sending has an answer: a trial's silence, refusals, a pause
TALK_EVERY = 0.25
_TAG = re.compile(rb"#(\d+)\.(\d+);")


class Broken(Exception):
    """A rule does not hold; nothing more is to be learned from this history."""


@attrs.define(eq=False)
class Play:
    """One history under way."""

    history: History
    network: VirtualNetwork
    client: VirtualHost
    watched: Watched
    machines: dict[str, Node]
    weather: Weather = attrs.field(factory=Weather)
    drains: DrainBook = attrs.field(factory=DrainBook)
    timeline: list[str] = attrs.field(factory=list)
    recorded: list[str] = attrs.field(factory=list)
    flows: list[FlowRecord] = attrs.field(factory=list)
    seen: Counter[str] = attrs.field(factory=Counter)  # by machine: what has been looked at of what it received
    served: dict[int, Address] = attrs.field(factory=dict)  # by client: the connection that its bytes came by
    datagrams: Counter[bytes] = attrs.field(factory=Counter)
    disturbances: int = 0
    serial: int = 0
    most_tries: int = 0
    connect_timeout: float = 0.0
    gone: dict[Listener, float] = attrs.field(factory=dict)  # removed listeners, and when they have to be over
    ended: trio.Event = attrs.field(factory=trio.Event)
    shape: Shape = attrs.field(init=False)
    promise: Promise = attrs.field(init=False)
    gateway: Gateway = attrs.field(init=False)
    nursery: trio.Nursery = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.shape = self.history.shape
        self.promise = Promise(self.weather)

    def say(self, text: str) -> None:
        """Adds a line to the story."""
        self.timeline.append(f"{trio.current_time():9.3f}  {text}")

    def fail(self, text: str) -> None:
        """A rule is broken."""
        self.say(f"BROKEN: {text}")
        raise Broken(text)

    def pool_at(self, host: str) -> str:
        """The pool of the node that is configured at a machine."""
        return next((spec.pool for spec in self.shape.nodes if spec.host == host), "")

    # --- watching -----------------------------------------------------------------------------------

    def observe(self, before: State, event: Event, after: State) -> None:
        """Sees every event of the hub."""
        self.recorded.append(event_to_json(event))
        now = trio.current_time()
        if after is before:
            return
        for listener in (*self.gateway.listeners.values(), *self.gateway.leaving):
            self.drains.follow(listener, before, after, now)
        for switch in after.switches:
            if switch.epoch > before.epoch:
                self.say(f"  {switch.route}: {switch.before} -> {switch.after} ({switch.reason.value})")

    def note_flow(self, record: FlowRecord) -> None:
        """Sees every flow that ends."""
        self.flows.append(record)
        if record.reason not in (EndReason.COMPLETE, EndReason.CLIENT_RESET):
            self.say(
                f"  flow of {record.client.port} at {record.node} over {record.protocol.value}: {record.reason.value}"
            )

    def check(self) -> None:
        """What holds at every moment."""
        gateway, now = self.gateway, trio.current_time()
        if gateway.services.crashes:
            self.fail(f"crashed: {gateway.services.crashes}")
        for text in wrong_routes(gateway.state):
            self.fail(text)
        for listener in (*gateway.listeners.values(), *gateway.leaving):
            for text in self.drains.overdue(listener, now, gateway.services.clock.started):
                self.fail(f"{listener.settings.name}: {text}")
        for listener, end in self.gone.items():
            if now > end + DUST and not listener.is_over:
                self.fail(f"{listener.settings.name} was removed and is not over at {end}")
        for text in wrong_verdicts(gateway.state, self.weather, now):
            self.fail(text)
        for text in (*self.exposed(), *self.stranded(), *self.lost_tokens()):
            self.fail(text)

    def stranded(self) -> Iterator[str]:
        """Sessions that did not move with their route."""
        if not self.gateway.state.config.globals.udp_rebind_on_switch:
            return
        for listener in self.gateway.listeners.values():
            if isinstance(listener._intake, UdpIntake):
                for session in listener._intake._table:
                    if session.leg is not None and self.drains.stranded(session.leg.lease, trio.current_time()):
                        yield f"the session of {session.client.port} stayed at {session.leg.endpoint}"

    def lost_tokens(self) -> Iterator[str]:
        """Tokens of trials that nobody holds."""
        ledger, now = self.gateway.ledger, self.gateway.services.clock.now()
        for endpoint, until in ledger._trials.items():
            key = next(
                (
                    key
                    for key in ledger._in_progress
                    if ledger._in_progress[key][endpoint.node] and key.transport is endpoint.transport
                ),
                None,
            )
            if until > now + DUST and key is None:
                yield f"nobody holds the token of {endpoint}"

    def exposed(self) -> Iterator[str]:
        """Bytes that went where they must not. Looks only at what came since the last look."""
        for node in self.machines.values():
            fresh = node.received[self.seen[node.host] :]
            self.seen[node.host] += len(fresh)
            for each in fresh:
                for tag in _TAG.finditer(each.data):
                    if each.transport is UDP:
                        self.datagrams[tag.group()] += 1
                        if self.datagrams[tag.group()] > 1:
                            yield f"datagram {tag.group()!r} was delivered twice"
                    elif self.served.setdefault(int(tag.group(1)), each.peer) != each.peer:
                        yield f"bytes of client #{int(tag.group(1))} reached several connections"

    async def check_forever(self) -> None:
        """Checks twice a second."""
        while True:
            await trio.sleep(0.5)
            await wait_all_tasks_blocked()
            self.check()

    # --- steps --------------------------------------------------------------------------------------

    async def do(self, step: Step) -> None:
        """Does one thing."""
        self.say(repr(step))
        match step:
            case Wait(seconds=seconds):
                await trio.sleep(seconds)
            case Client():
                self.nursery.start_soon(self.crowd, step)
            case Fault():
                self._inflict(step)
            case Recover(name=name):
                self._recover(name)
            case Operator():
                await self._command(step)
            case Put(spec=spec):
                self._changed(spec.name)
                self.shape = self.shape.with_node(spec)
                await self._apply()
            case Drop(name=name):
                self._changed(name)
                self.shape = attrs.evolve(self.shape, nodes=tuple(n for n in self.shape.nodes if n.name != name))
                await self._apply()
            case Set(key=key, value=value):
                self.weather.everything = trio.current_time()
                self.shape = attrs.evolve(self.shape, settings={**self.shape.settings, key: value})
                await self._apply()
            case Open(door=door):
                self.weather.everything = trio.current_time()
                self.shape = self.shape.with_door(door)
                await self._apply()
            case Shut(name=name):
                self.weather.everything = trio.current_time()
                self.shape = attrs.evolve(self.shape, doors=tuple(d for d in self.shape.doors if d.name != name))
                await self._apply()
        await wait_all_tasks_blocked()
        self.check()

    def _changed(self, *names: str) -> None:
        self.disturbances += 1
        for name in names:
            self.weather.changed[name] = trio.current_time()

    def _inflict(self, fault: Fault) -> None:
        host = host_of(fault.name, fault.place)
        self._changed(host)
        self.weather.spoiled.add(host)
        node = self.machines[host]
        if fault.kind == "reset_clients":
            node.reset_clients()
            return
        if fault.kind == "power_off":
            node.power_off()
        else:
            getattr(node, fault.kind)(fault.transport)
        for transport in Transport:
            if fault.kind == "power_off" or fault.transport in (None, transport):
                self.weather.faults[host, transport] = self._worse(
                    self.weather.faults.get((host, transport)), fault.kind
                )

    def _worse(self, one: str | None, other: str) -> str:
        order = ("freeze", "refuse", "kill", "unreachable", "black_hole", "power_off")
        return max(one or other, other, key=order.index)

    def _recover(self, name: str) -> None:
        for place in PLACES:
            host = host_of(name, place)
            if (host, TCP) in self.weather.faults or (host, UDP) in self.weather.faults:
                self._changed(host)
                for transport in Transport:
                    self.weather.faults.pop((host, transport), None)
                self.machines[host].recover()

    async def _command(self, step: Operator) -> None:
        if step.command != "release" and step.name is not None:
            self._changed(step.name)
        arguments = [each for each in (step.name, step.value) if each is not None or step.command == "mark"]
        with contextlib.suppress(CommandRefused):
            await getattr(self.gateway, step.command)(*arguments)

    async def _apply(self) -> None:
        self.disturbances += 1
        config, gateway = self.shape.config(), self.gateway
        before = dict(gateway.listeners)
        timeouts = {listener: listener.drain_timeout for listener in before.values()}
        self.most_tries = max(self.most_tries, config.globals.connect_retry)
        self.connect_timeout = min(self.connect_timeout, config.globals.connect_timeout)
        await gateway.apply(config)
        for key in before.keys() - gateway.listeners.keys():
            listener = before[key]
            pool = next((each for each in config.pools if each.name == listener.settings.pool), None)
            self.gone[listener] = trio.current_time() + (pool.drain_timeout if pool else timeouts[listener])

    # --- clients ------------------------------------------------------------------------------------

    def door(self, name: str) -> Door | None:
        """A listener as it is configured now."""
        return next((door for door in self.shape.doors if door.name == name), None)

    def _next(self) -> int:
        self.serial += 1
        return self.serial

    async def crowd(self, step: Client) -> None:
        """One client."""
        door = self.door(step.door)
        if door is None:
            return
        if door.protocol is UDP:
            await self.talk(door, step.lasting)
            return
        number, promised = self._next(), self._promised(door)
        disturbances = self.disturbances
        answered = False
        with trio.move_on_after(self._bound() + (step.lasting if step.kind in ("chat", "mute") else 0.0)):
            try:
                with await self.client.connect_tcp(door.listener().listen) as conn:
                    await self._behaviour(step.kind)(conn, number, step.lasting)
                    answered = True
            except (ConnectFailed, PeerReset):
                pass
        if promised and not answered and disturbances == self.disturbances and step.kind in ("ask", "half"):
            self.fail(f"client #{number} of {door.name} was not served, though {promised} was there")

    def _behaviour(self, kind: str) -> Callable[[Conn, int, float], Awaitable[None]]:
        known = {"chat": self.chat, "half": self.half, "rude": self.rude, "mute": self.mute}
        return known.get(kind, self.ask)

    def _bound(self) -> float:
        return len(self.shape.nodes) * self.gateway.state.config.globals.connect_timeout + PATIENCE

    def _promised(self, door: Door) -> str | None:
        if self.gateway.stopping.is_set():
            return None
        return self.promise.holds(self.gateway.state, RouteKey(door.pool, door.protocol), trio.current_time())

    async def ask(self, conn: Conn, number: int, lasting: float) -> None:
        """A question and its answer."""
        await self._echo(conn, number, 0)

    async def half(self, conn: Conn, number: int, lasting: float) -> None:
        """A client that has said all that it had to say."""
        await conn.send_all(b"#%d.0;" % number)
        await conn.send_eof()
        answer = b""
        while chunk := await conn.receive_some(1000):
            answer += chunk
        if not answer.endswith(b":#%d.0;" % number):
            raise PeerReset(Side.UPSTREAM, "cut before the answer")

    async def rude(self, conn: Conn, number: int, lasting: float) -> None:
        """A client that resets its connection."""
        await conn.send_all(b"#%d.0;" % number)
        conn.abort()

    async def mute(self, conn: Conn, number: int, lasting: float) -> None:
        """A client that says nothing."""
        with trio.move_on_after(lasting):
            await conn.receive_some(1)

    async def chat(self, conn: Conn, number: int, lasting: float) -> None:
        """Questions and answers, until one is cut off."""
        end = trio.current_time() + lasting
        count = 0
        while trio.current_time() <= end:
            await self._echo(conn, number, count)
            count += 1
            await trio.sleep(0.5)

    async def _echo(self, conn: Conn, number: int, count: int) -> None:
        text = b"#%d.%d;" % (number, count)
        await conn.send_all(text)
        answer = b""
        while not answer.endswith(b":" + text):
            chunk = await conn.receive_some(1000)
            if not chunk:
                raise PeerReset(Side.UPSTREAM, "cut before the answer")
            answer += chunk

    async def talk(self, door: Door, lasting: float) -> None:
        """A UDP client that keeps sending; wherever a node was promised all the time, an answer comes in time."""
        number, count = self._next(), 0
        answers = [trio.current_time()]
        with self.client.connect_udp(door.listener().listen) as conn:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._listen, conn, answers)
                end = trio.current_time() + lasting
                calm, disturbances = trio.current_time(), self.disturbances
                while trio.current_time() <= end:
                    now = trio.current_time()
                    if self.disturbances != disturbances or self.door(door.name) != door or not self._promised(door):
                        calm, disturbances = now, self.disturbances
                    if now - max(calm, answers[-1]) > UDP_WINDOW:
                        self.fail(
                            f"client #{number} of {door.name} has no answer, though {self._promised(door)} is there"
                        )
                    conn.send_nowait(b"#%d.%d;" % (number, count))
                    count += 1
                    await trio.sleep(TALK_EVERY)
                nursery.cancel_scope.cancel()

    async def _listen(self, conn: DatagramConn, answers: list[float]) -> None:
        while True:
            with contextlib.suppress(DatagramRefused):
                await conn.receive()
                answers.append(trio.current_time())

    async def keep_busy(self) -> None:
        """Short requests and longer talks at every TCP listener, and one talker at each UDP one."""
        talking: set[str] = set()

        async def talk(door: Door) -> None:
            await self.talk(door, 5.0)
            talking.discard(door.name)

        for count in itertools.count():
            for door in self.shape.doors:
                if door.protocol is TCP:
                    self.nursery.start_soon(self.crowd, Client("ask", door.name))
                    if count % 4 == 0:
                        self.nursery.start_soon(self.crowd, Client("chat", door.name, 8.0))
                elif door.name not in talking:
                    talking.add(door.name)
                    self.nursery.start_soon(talk, door)
            await trio.sleep(0.5)

    # --- the end ------------------------------------------------------------------------------------

    async def recover(self) -> None:
        """Everything is well again, and nobody wishes anything."""
        self.say("everything recovers")
        for name in NAMES:
            self._recover(name)
            for step in (Operator("enable", name), Operator("mark", name, None)):
                await self._command(step)
        await self.gateway.release()
        await trio.sleep(settling_time(self.gateway.state.config) + UDP_WINDOW)
        self.check()

    async def serve_everyone(self) -> None:
        """With every node well, every client is served; the first may have to prove a node."""
        for door in self.shape.doors:
            if not candidates(self.gateway.state, RouteKey(door.pool, door.protocol)):
                continue
            for _ in range(3):
                with trio.move_on_after(self._bound() + UDP_WINDOW) as patience:
                    if door.protocol is TCP:
                        await self._must_be_served(door)
                    else:
                        await self._must_be_answered(door)
                if patience.cancelled_caught:
                    self.fail(f"nobody answers at {door.name} in the end")

    async def _must_be_served(self, door: Door) -> None:
        number = self._next()
        try:
            with await self.client.connect_tcp(door.listener().listen) as conn:
                await self._echo(conn, number, 0)
        except (ConnectFailed, PeerReset) as error:
            self.fail(f"client #{number} of {door.name} is not served in the end: {error!r}")

    async def _must_be_answered(self, door: Door) -> None:
        with self.client.connect_udp(door.listener().listen) as conn:
            conn.send_nowait(b"#%d.0;" % self._next())
            await conn.receive()

    async def come_to_rest(self) -> None:
        """All clients have left: what was counted comes back to zero, and nothing but listeners and probes is open."""
        rules = self.gateway.state.config.globals
        await trio.sleep(max(rules.udp_session_timeout + 2 * rules.probe_timeout, 4.0 + rules.connect_timeout) + 8.0)
        self.check()
        gateway = self.gateway
        ledger = gateway.ledger
        counts = {str(key): dict(count) for key, count in ledger._in_progress.items() if count}
        active = {str(key): each.active for key, each in ledger.traffic.items() if each.active}
        held = {each.settings.name: each._slots.held for each in gateway.listeners.values() if each._slots.held}
        left = [
            each
            for tries in self.watched.tries.values()
            for each in tries
            if each.conn is not None and _is_open(each.conn)
        ]
        leases = {
            lease.endpoint: lease.flows for door in gateway.listeners.values() for lease in door.leases if lease.flows
        }
        now = gateway.services.clock.now()
        tokens = [str(key) for key, until in ledger._trials.items() if until > now]
        found = (counts, active, held, gateway.services.flow_slots.held, left, leases, tokens)
        if any(found):
            self.fail(f"something is left when all have gone: {found}")

    async def stop(self, grace: float) -> None:
        """The gateway ends within its grace, and leaves nothing behind."""
        self.say(f"stop({grace})")
        self.disturbances += 1
        self.gateway.stop(grace)
        with trio.move_on_after(grace + DUST) as patience:
            await self.ended.wait()
        if patience.cancelled_caught:
            self.fail("the gateway did not end in time")
        if left := self.network.host(GATEWAY).open_sockets():
            self.fail(f"the gateway left sockets open: {left}")
        if self.gateway.services.crashes:
            self.fail(f"crashed: {self.gateway.services.crashes}")

    def look_back(self) -> None:
        """What can be told only in the end."""
        for text in (
            *too_many_tries(self.watched, self.most_tries, self.connect_timeout),
            *too_many_hedges(self.watched),
            *self.exposed(),
        ):
            self.fail(text)
        *_, part = replay_lines(self.recorded)
        if not isinstance(part, PartEnded) or part.state != self.gateway.state:
            self.fail("the recorded events fold to another state")
        endings = Counter(each.reason for each in self.flows)
        if endings != self.gateway.ledger.endings:
            self.fail(f"endings {self.gateway.ledger.endings} are not those of the flow log, {endings}")
        if endings[EndReason.CRASHED]:
            self.fail("a flow crashed")


def settling_time(config: Config) -> float:
    """Seconds after which the gateway knows all there is to know about nodes that stay as they are."""
    known = [max(recovery_time(config, node), detection_time(config, node)) for node in config.nodes]
    return max(config.globals.eject_time, config.globals.eject_time_max) + max(known, default=0.0)


def _is_open(conn: Conn) -> bool:
    return bool(getattr(conn, "is_open", False))


async def play(history: History, told: list[str]) -> str | None:
    """Plays a history and says which rule did not hold, if any; `told` becomes the story of it."""
    network = VirtualNetwork()
    machines = {host_of(name, place): Node(network, name, host_of(name, place)) for name in NAMES for place in PLACES}
    for host in machines:
        network.set_latency(history.latency, host)
    game = Play(
        history,
        network,
        network.host(CLIENT),
        Watched(network.host(GATEWAY), lambda host: game.pool_at(host)),
        machines,
        timeline=told,
    )
    broken: list[str] = []
    try:
        await _run(game)
    except* Broken as found:
        broken = [str(each) for each in _leaves(found)]
    return broken[0] if broken else None


def _leaves(group: BaseExceptionGroup[Broken]) -> Iterator[BaseException]:
    for each in group.exceptions:
        if isinstance(each, BaseExceptionGroup):
            yield from _leaves(each)
        else:
            yield each


async def _run(game: Play) -> None:
    history, config = game.history, game.history.shape.config()
    game.most_tries, game.connect_timeout = config.globals.connect_retry, config.globals.connect_timeout
    names = Resolver(game.watched.look_up)
    flow_log = FlowLog(config.globals.flow_log, lambda _: None)

    async def gateway_task(*, task_status: trio.TaskStatus[Gateway]) -> None:
        await run_gateway(
            config, network=game.watched, names=names, relay=TaskRelay(), dice=NoJitter(),
            observers=(lambda *args: game.observe(*args),), flow_log=flow_log, task_status=task_status,
        )  # fmt: skip
        game.ended.set()

    async with trio.open_nursery() as machines:
        for node in game.machines.values():
            await machines.start(node.serve)
        game.gateway = await machines.start(gateway_task)
        game.recorded.append(header_to_json(game.gateway.state, 0))
        game.gateway.services.write_flow = game.note_flow
        async with trio.open_nursery() as game.nursery:
            game.nursery.start_soon(game.check_forever)
            if history.busy:
                game.nursery.start_soon(game.keep_busy)
            for step in history.steps:
                await game.do(step)
            if history.stop is None:
                await game.recover()
                await game.serve_everyone()
                game.nursery.cancel_scope.cancel()
            else:
                await game.stop(history.stop)
                game.nursery.cancel_scope.cancel()
        if history.stop is None:
            await game.come_to_rest()
            await game.stop(0.0)
        game.look_back()
        names.close()
        machines.cancel_scope.cancel()
