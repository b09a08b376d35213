"""Sees all that happens in a gateway, and holds it against every rule."""

from collections import Counter
from collections.abc import Iterator

import attrs
import trio
from trio.testing import wait_all_tasks_blocked

from ..address import Address
from ..config.schema import Transport
from ..net.relay import EndReason
from ..state.events import Event, OperatorReleased
from ..state.model import State
from ..tasks.flow_log import FlowRecord
from ..tasks.gateway import Gateway
from .broken import Broken
from .drains import INF, DrainBook
from .ejections import EjectionBook
from .failback import FailbackBook
from .reach import DUST, Weather, wrong_verdicts
from .routes import wrong_routes
from .streaks import StreakBook

Client = tuple[Transport, Address]


@attrs.define(eq=False)
class Watch:
    """The rules, each with its book. `found` is the first that did not hold; then there is no point in going on."""

    weather: Weather
    found: Broken | None = None
    broke: trio.Event = attrs.field(factory=trio.Event)
    served: set[Client] = attrs.field(factory=set)  # clients that had an answer, and whose flow has not ended
    gateway: Gateway | None = None
    seen_at: float = 0.0  # when something was last seen to happen
    _endings: Counter[EndReason] = attrs.field(factory=Counter)
    _moved: trio.Event = attrs.field(factory=trio.Event)
    _drains: DrainBook = attrs.field(factory=DrainBook)
    _streaks: StreakBook = attrs.field(factory=StreakBook)
    _ejections: EjectionBook = attrs.field(factory=EjectionBook)
    _failback: FailbackBook = attrs.field(factory=FailbackBook)

    def breaks(self, rule: str, text: str) -> None:
        """A rule did not hold."""
        if self.found is None:
            self.found = Broken(rule, text, trio.current_time())
            self.broke.set()

    # --- what happens -----------------------------------------------------------------------------

    def observe(self, before: State, event: Event, after: State) -> None:
        """Sees every event of the hub."""
        self.seen_at = trio.current_time()
        if after is before:
            return
        self._judge("streaks", self._streaks.observe(before, event, after))
        self._judge("ejections", self._ejections.observe(before, after))
        self._judge("failback", self._failback.observe(before, event, after))
        if isinstance(event, OperatorReleased) and event.transport is None and after.pins:
            self.breaks("pins", f"{', '.join(map(str, after.pins))} keeps its pin though all were released")
        if after.epoch == before.epoch and after.overrides is before.overrides and after.config is before.config:
            return  # no lease and no route is touched by what is left: streaks and latencies
        if self.gateway is not None:
            for listener in (*self.gateway.listeners.values(), *self.gateway.leaving):
                self._drains.follow(listener, before, after, trio.current_time())
        self.stir()

    def note_flow(self, record: FlowRecord) -> None:
        """Sees every flow that ends."""
        self._endings[record.reason] += 1
        self.served.discard((record.protocol, record.client))

    def stir(self) -> None:
        """Something happened after which it is worth a look."""
        self._moved.set()

    # --- what must be so --------------------------------------------------------------------------

    async def watch_forever(self, gateway: Gateway, every: float) -> None:
        """Looks after whatever happens, just after each deadline, and every so many seconds; runs until cancelled."""
        while True:
            now = trio.current_time()
            ends = (lease.deadline for lease in gateway.leases() if now < lease.deadline < INF)
            with trio.move_on_at(min((now + every, *(each + 2 * DUST for each in ends)))):
                await self._moved.wait()
            await wait_all_tasks_blocked()  # what belongs to this instant has happened
            self._moved = trio.Event()
            self.look(gateway)

    def look(self, gateway: Gateway) -> None:
        """What holds at every moment."""
        now, state = trio.current_time(), gateway.state
        if gateway.ledger.crashes:
            crashes = gateway.services.crashes
            self.breaks("crashes", f"{crashes[0]!r}" if crashes else "a task crashed")
        for text in wrong_routes(state):
            self.breaks("pins" if " is pinned" in text else "routes", text)
        self._judge("verdicts", wrong_verdicts(state, self.weather, now))
        self._judge("failback", self._failback.overdue(state, gateway.services.clock.now()))
        for listener in (*gateway.listeners.values(), *gateway.leaving):
            overdue = self._drains.overdue(listener, now, gateway.services.clock.started)
            self._judge("drains", (f"{listener.settings.name}: {text}" for text in overdue))

    def look_back(self, gateway: Gateway) -> None:
        """What must be so when all has ended."""
        if self.served:
            protocol, client = min(self.served, key=str)
            self.breaks("endings", f"the flow of {client} over {protocol.value} ended without a reason")
        if self._endings != gateway.ledger.endings:
            self.breaks("endings", f"{gateway.ledger.endings} were counted, and {self._endings} were recorded")
        if self._endings[EndReason.CRASHED]:
            self.breaks("crashes", "a flow crashed")

    def _judge(self, rule: str, complaints: Iterator[str]) -> None:
        for text in complaints:
            self.breaks(rule, text)
