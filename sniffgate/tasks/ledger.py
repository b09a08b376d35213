"""What is counted: flows and bytes per endpoint, drops and endings for the whole gateway.

Beside the counting, the ledger keeps what `choose` needs (flows in progress and the rotation's cursor, per route) and
the tokens of trials. All of it survives reloads, and none of it decides health.
"""

from collections import Counter
from collections.abc import Collection

import attrs

from ..config.schema import Transport
from ..net.relay import Counters, EndReason, Passage
from ..state.model import Endpoint, Route, RouteKey
from ..state.routing import Cursor, choose
from .hedging import HedgeBudget


@attrs.define(eq=False)
class Traffic:
    """The traffic of one endpoint since the start. Bytes as the operator sees them: `tx` to the node, `rx` from it."""

    total: int = 0
    failed: int = 0
    active: int = 0
    finished_tx: int = 0
    finished_rx: int = 0
    drain_kills: int = 0
    last_connect: float = 0.0  # seconds the last successful connect took
    live: set[Counters] = attrs.field(factory=set)

    @property
    def bytes_tx(self) -> int:
        """Bytes sent to the node, flows in progress included."""
        return self.finished_tx + sum(counters.up for counters in self.live)

    @property
    def bytes_rx(self) -> int:
        """Bytes received from the node, flows in progress included."""
        return self.finished_rx + sum(counters.down for counters in self.live)


class Ledger:
    """Counts for the whole gateway."""

    def __init__(self) -> None:
        self.traffic: dict[Endpoint, Traffic] = {}
        self.endings: Counter[EndReason] = Counter()
        self.passages: set[Passage] = set()  # under way: what they lost is read while they last
        self.cut_by_stop = 0  # connections that a stop did not wait for
        self._dropped: Counter[str] = Counter()
        self.shortages: Counter[str] = Counter()
        self.crashes = 0
        self._in_progress: dict[RouteKey, Counter[str]] = {}
        self._cursors: dict[RouteKey, Cursor] = {}
        self._hedges: dict[RouteKey, HedgeBudget] = {}
        self.hedged = 0  # tries that were begun beside one that hung
        self._trials: dict[Endpoint, float] = {}  # until when the token is out, gateway seconds
        self._gone: set[Endpoint] = set()  # not configured any more, but with flows left

    def of(self, endpoint: Endpoint) -> Traffic:
        """The traffic of `endpoint`, zero if there was none yet."""
        return self.traffic.get(endpoint) or self.traffic.setdefault(endpoint, Traffic())

    def choose(self, route: Route, tried: Collection[str]) -> str | None:
        """The node for a new flow of `route`; None when all have been tried."""
        counts = self._in_progress.setdefault(route.key, Counter())
        name, self._cursors[route.key] = choose(route, counts, self._cursors.get(route.key, Cursor()), tried)
        return name

    def hedges(self, route: RouteKey) -> HedgeBudget:
        """The hedge budget of a route."""
        return self._hedges.get(route) or self._hedges.setdefault(route, HedgeBudget())

    def enter(self, route: RouteKey, node: str) -> None:
        """A flow of `route` is at `node` from now on, connecting included."""
        counts = self._in_progress.get(route)
        if counts is None:
            counts = self._in_progress[route] = Counter()
        counts[node] += 1

    def leave(self, route: RouteKey, node: str) -> None:
        """The flow is there no longer."""
        counts = self._in_progress[route]
        counts[node] -= 1
        if not counts[node]:
            del counts[node]

    def flow_began(self, endpoint: Endpoint, counters: Counters) -> None:
        """A flow was established."""
        traffic = self.of(endpoint)
        traffic.total += 1
        traffic.active += 1
        traffic.live.add(counters)

    def flow_ended(self, endpoint: Endpoint, counters: Counters, reason: EndReason) -> None:
        """An established flow is over."""
        traffic = self.of(endpoint)
        traffic.active -= 1
        traffic.live.discard(counters)
        traffic.finished_tx += counters.up
        traffic.finished_rx += counters.down
        if reason in (EndReason.DRAINED, EndReason.DNS_GONE):
            traffic.drain_kills += 1
        if reason is EndReason.SHUTDOWN and endpoint.transport is Transport.TCP:
            self.cut_by_stop += 1
        if endpoint in self._gone and not traffic.active:
            del self.traffic[endpoint]
            self._gone.discard(endpoint)

    # --- datagrams that went nowhere, by reason: a closed list, see docs/control.md -------------------

    @property
    def dropped_datagrams(self) -> Counter[str]:
        """All of them so far, those of sessions under way included."""
        dropped = Counter(self._dropped)
        for passage in self.passages:
            dropped += _losses(passage)
        return dropped

    def drop(self, reason: str) -> None:
        """Counts one."""
        self._dropped[reason] += 1

    def passage_ended(self, passage: Passage) -> None:
        """Keeps what a passage lost."""
        self.passages.discard(passage)
        self._dropped += _losses(passage)

    # --- trials: one token per endpoint, shared by all listeners --------------------------------------

    def take_trial(self, endpoint: Endpoint, now: float, lasting: float) -> bool:
        """Takes the token of an endpoint in probation, for at most `lasting` seconds; False when it is out."""
        if self._trials.get(endpoint, now) > now:
            return False
        self._trials[endpoint] = now + lasting
        return True

    def end_trial(self, endpoint: Endpoint) -> None:
        """Gives the token back."""
        self._trials.pop(endpoint, None)

    # --------------------------------------------------------------------------------------------------

    def flows(self, transport: Transport) -> int:
        """Flows in progress over `transport`."""
        return sum(traffic.active for endpoint, traffic in self.traffic.items() if endpoint.transport is transport)

    def forget(self, known: set[Endpoint]) -> None:
        """Drops the counts of endpoints that are not `known`: now, or when their last flow has ended."""
        self._gone = self.traffic.keys() - known
        for endpoint in [each for each in self._gone if not self.traffic[each].active]:
            del self.traffic[endpoint]
            self._gone.discard(endpoint)
        for endpoint in [each for each in self._trials if each not in known]:
            del self._trials[endpoint]


def _losses(passage: Passage) -> Counter[str]:
    return Counter({"send": passage.lost_up, "reply": passage.lost_down})
