"""What every task of one gateway shares, and the boundary at which a flow's bug stops."""

import logging
import random
from collections.abc import Awaitable, Callable
from types import TracebackType

import attrs
import trio

from ..net.ports import Names, Network
from ..net.relay import Relay
from ..state.model import Endpoint, RouteKey
from .board import Board
from .clock import Clock
from .flow_log import FlowRecord
from .hub import Reporter
from .incidents import Incidents
from .ledger import Ledger

log = logging.getLogger("sniffgate")

RESTART_FIRST = 0.1  # seconds before a crashed task is started again, doubled each time
RESTART_MOST = 30.0


@attrs.define(eq=False)
class Slots:
    """A bound on things held at once; whoever finds it full waits. A slot of a part is one of the whole too."""

    most: int | None = None  # None = no bound
    whole: "Slots | None" = None
    held: int = 0
    _freed: trio.Event | None = None  # there is one while somebody waits

    @property
    def has_no_room(self) -> bool:
        """Whether the next one has to wait."""
        return self._full() is not None

    async def wait_room(self) -> None:
        """Waits until there is room, and takes nothing."""
        await trio.lowlevel.checkpoint()
        while (full := self._full()) is not None:
            if full._freed is None:
                full._freed = trio.Event()
            await full._freed.wait()

    async def take(self) -> None:
        """Waits for room and takes it. *Cancellation:* nothing is taken."""
        await self.wait_room()
        while not self.take_nowait():
            await self.wait_room()

    def take_nowait(self) -> bool:
        """Takes a slot if there is one."""
        if self._full() is not None:
            return False
        self.held += 1
        if self.whole is not None:
            self.whole.held += 1
        return True

    @property
    def free(self) -> float:
        """How many more would find room; inf without a bound. From any thread."""
        most = self.most  # once: a reload may change it meanwhile
        own = float("inf") if most is None else most - self.held
        return own if self.whole is None else min(own, self.whole.free)

    def take_granted(self) -> None:
        """Takes a slot that was promised when there were plenty."""
        self.held += 1
        if self.whole is not None:
            self.whole.take_granted()

    def give_back(self) -> None:
        """Gives one back."""
        self.held -= 1
        self._wake()
        if self.whole is not None:
            self.whole.give_back()

    def resize(self, most: int | None) -> None:
        """Changes the bound; what is held beyond it stays."""
        if most != self.most:
            self.most = most
            self._wake()

    def _full(self) -> "Slots | None":
        """Which bound stands in the way, if any."""
        if self.most is not None and self.held >= self.most:
            return self
        return None if self.whole is None else self.whole._full()

    def _wake(self) -> None:
        if self._freed is not None:
            self._freed.set()
            self._freed = None


@attrs.define(eq=False)
class Contained:
    """A piece of work whose bugs stop at its end: logged with the traceback, counted, kept for the tests to fail on.

    A class and no generator: every flow is inside one for as long as it lives.
    """

    services: "Services"
    what: str  # with a `%s` for each of `subject`
    subject: tuple[object, ...] = ()
    crashed: bool = False

    def __enter__(self) -> "Contained":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception | BaseExceptionGroup):  # none, or a cut: of thousands at one deadline
            return False
        group = error if isinstance(error, BaseExceptionGroup) else BaseExceptionGroup("", [error])
        bugs, rest = group.split(Exception)
        if bugs is None:
            return False
        self.crashed = True
        self.services.note_crash(self.what % self.subject, bugs)
        if rest is not None:
            raise rest from None  # a cancellation that came at the same time
        return True


@attrs.define(eq=False, kw_only=True)
class Services:
    """The context of a gateway's tasks."""

    board: Board
    reporter: Reporter
    clock: Clock
    network: Network
    names: Names
    relay: Relay
    dice: random.Random  # for jitter only
    write_flow: Callable[[FlowRecord], None]
    flow_slots: Slots  # TCP flows and UDP sessions of the whole gateway, bounded by descriptors
    incidents: Incidents
    ledger: Ledger
    crashes: list[BaseExceptionGroup[Exception]] = attrs.field(factory=list)
    _probe_locks: dict[Endpoint, trio.Lock] = attrs.field(factory=dict)

    def probe_lock(self, endpoint: Endpoint) -> trio.Lock:
        """The lock that lets one prober of an endpoint probe while those of other listeners stand by."""
        return self._probe_locks.setdefault(endpoint, trio.Lock())

    def first_byte(self, route: RouteKey, endpoint: Endpoint) -> None:
        """A node's first byte goes to a client: the flow got through."""
        self.reporter.succeeded(endpoint)
        self.incidents.good_byte(route, endpoint.node)

    def forget(self, known: set[Endpoint]) -> None:
        """Drops what is kept about endpoints that are not `known` any more."""
        self.reporter.forget(known)
        self.ledger.forget(known)
        for endpoint in [each for each, lock in self._probe_locks.items() if each not in known and not lock.locked()]:
            del self._probe_locks[endpoint]

    def containing(self, what: str, *subject: object) -> Contained:
        """Stops bugs of `what` here; it has a `%s` for each of `subject`."""
        return Contained(self, what, subject)

    def note_crash(self, what: str, bugs: BaseExceptionGroup[Exception]) -> None:
        """A bug was contained."""
        self.ledger.crashes += 1
        self.crashes = [*self.crashes[-15:], bugs]
        log.error("%s crashed; the gateway goes on", what, exc_info=bugs)

    async def run_again_after_crashes(self, what: str, task: Callable[[], Awaitable[None]]) -> None:
        """Runs `task` until it returns, starting it again after a crash, ever later if they follow closely."""
        pause = RESTART_FIRST
        while True:
            began = trio.current_time()
            with self.containing(what) as work:
                await task()
            if not work.crashed:
                return
            if trio.current_time() - began > RESTART_MOST:
                pause = RESTART_FIRST
            await trio.sleep(pause)
            pause = min(2 * pause, RESTART_MOST)
