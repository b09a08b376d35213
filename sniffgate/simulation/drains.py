"""When the flows of each lease have to be over: a second opinion, told from the published states alone."""

from collections.abc import Iterator

import attrs

from ..config.schema import RouteKey
from ..state.model import State
from ..state.verdict import is_enabled, is_usable, override_of
from ..tasks.leases import Lease
from ..tasks.listener import Listener
from .reach import DUST

INF = float("inf")


@attrs.define(eq=False)
class _Drain:
    """What is known of one lease."""

    deadlines: set[float] = attrs.field(factory=lambda: {INF})  # several, where much happened in one moment
    was_usable: bool = False
    was_active: bool = False
    fallen: bool = False
    ordered: tuple[float, float] | None = None
    changed: float = 0.0


class DrainBook:
    """When each lease has to be over, told from the published states alone."""

    def __init__(self) -> None:
        self._drains: dict[Lease, _Drain] = {}

    def follow(self, listener: Listener, before: State, after: State, now: float) -> None:
        """Takes note of a new state."""
        if listener.leases.closing is not None:
            return
        for lease in listener.leases:
            drain = self._drains.get(lease)
            if drain is None:
                drain = self._drains[lease] = _Drain()
                self._step(drain, lease, listener, before, now)
            self._step(drain, lease, listener, after, now)

    def _step(self, drain: _Drain, lease: Lease, listener: Listener, state: State, now: float) -> None:
        endpoint, pool = lease.endpoint, lease.subject.pool
        node = state.config.node(endpoint.node)
        pool = next((each for each in state.config.pools if each.name == pool.name), pool)
        there = (
            node is not None
            and node.pool == pool.name == _pool_of(listener, state)
            and node.address(endpoint.transport) == lease.subject.configured
            and is_enabled(state, node)
        )
        usable = there and node is not None and is_usable(state, node, endpoint)
        route = state.routes.get(RouteKey(pool.name, endpoint.transport))
        if usable and route is not None and endpoint.node in route.active:
            self._note(drain, now, {INF})
            drain.was_active, drain.fallen, drain.ordered = True, False, None
        elif not there or (drain.was_usable and not usable):
            wish = override_of(state, endpoint.node)
            ordered = None if wish.drain is None else (wish.drain_at, wish.drain)
            if not drain.fallen or ordered != drain.ordered:
                fresh = {min(each, now + pool.drain_timeout) for each in drain.deadlines | {INF}}
                self._note(drain, now, fresh if ordered is None else {sum(ordered)})
            drain.fallen, drain.ordered, drain.was_active = True, ordered, False
        elif drain.was_active:
            self._note(drain, now, {now + pool.failback_drain_timeout})
            drain.was_active = False
        drain.was_usable |= usable

    def _note(self, drain: _Drain, now: float, deadlines: set[float]) -> None:
        """A new deadline; within one moment the gateway may look at any of the states, so all of them may stand."""
        drain.deadlines = deadlines | (drain.deadlines if drain.changed == now else set())
        drain.changed = now

    def overdue(self, listener: Listener, now: float, started: float) -> Iterator[str]:
        """Leases that live too long, or have a deadline that they should not have."""
        if listener.leases.closing is not None:
            return
        for lease in listener.leases:
            drain = self._drains.get(lease)
            if drain is None or not lease.flows or drain.changed >= now:
                continue
            latest = max(drain.deadlines)
            if latest < now - DUST:
                yield f"{lease.flows} flows at {lease.endpoint} live past {latest:.3f}"
            actual = lease.scope.deadline - started
            if not any(actual == each or abs(actual - each) < DUST for each in drain.deadlines):
                yield f"flows at {lease.endpoint} end at {actual}, not at {sorted(drain.deadlines)}"

    def stranded(self, lease: Lease, now: float) -> bool:
        """Whether a session that moves with its route should not be at `lease` any more."""
        drain = self._drains.get(lease)
        return drain is not None and drain.changed < now and (drain.fallen or max(drain.deadlines) < INF)


def _pool_of(listener: Listener, state: State) -> str:
    """The listener's pool in `state`: the listener itself learns of a new one only when that state stands."""
    identity = listener.settings.socket_identity
    found = (each.pool for each in state.config.listeners if each.socket_identity == identity)
    return next(found, listener.settings.pool)
