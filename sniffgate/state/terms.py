"""How long the flows of a lease may live: pure, from the state and from the terms so far.

A lease is what a listener holds per endpoint. It is `standby` while its endpoint is outside the active set (a retry, a trial,
fail-open), `active` inside, and `retiring` once an active endpoint has left it, or whenever the endpoint has fallen:
turned unhealthy, disabled, readdressed or removed. Only a retiring lease has a deadline. It is lifted when the endpoint
is back in the active set in time.
"""

import enum

import attrs

from ..address import Address
from ..config.schema import PoolConfig
from .model import Endpoint, RouteKey, State
from .verdict import is_enabled, is_usable, override_of

NEVER = float("inf")


class LeaseKind(enum.Enum):
    """Where a lease stands."""

    STANDBY = "standby"
    ACTIVE = "active"
    RETIRING = "retiring"


@attrs.frozen(kw_only=True)
class Subject:
    """What a lease is about: the endpoint as it was configured when the lease was opened, and the pool it served."""

    endpoint: Endpoint
    configured: Address
    pool: PoolConfig  # as it was then: its timeouts serve when the pool itself is gone

    @property
    def route(self) -> RouteKey:
        """The route that the flows of the lease came by."""
        return RouteKey(self.pool.name, self.endpoint.transport)


@attrs.frozen(kw_only=True)
class Terms:
    """What holds for a lease now. `deadline` is seconds since the gateway's start; inf = none."""

    kind: LeaseKind = LeaseKind.STANDBY
    deadline: float = NEVER
    was_usable: bool = False  # the endpoint has been usable at some time of the lease
    fallen: bool = False  # retiring because the endpoint may not be used, rather than because another is preferred
    ordered: tuple[float, float] | None = None  # the operator's drain (when, seconds) that set the deadline


def terms_at(state: State, now: float, subject: Subject, before: Terms, *, gone: bool = False) -> Terms:
    """The terms that follow from `state` at `now`. `gone`: the flows' address left the name's answer for good.

    A deadline moves closer, or is lifted; only an operator's drain order may set it anew.
    """
    node = state.config.node(subject.endpoint.node)
    is_present = (
        not gone
        and node is not None
        and node.pool == subject.pool.name
        and node.address(subject.endpoint.transport) == subject.configured
        and is_enabled(state, node)
    )
    usable = is_present and node is not None and is_usable(state, node, subject.endpoint)
    route = state.routes.get(subject.route)
    if usable and route is not None and subject.endpoint.node in route.active:  # usable: so it is no fail-open
        return Terms(kind=LeaseKind.ACTIVE, was_usable=True)
    pool = _pool(state, subject)
    if not is_present or (before.was_usable and not usable):
        return _fallen(state, now, subject, pool, before)
    if before.kind is LeaseKind.ACTIVE:
        return Terms(kind=LeaseKind.RETIRING, deadline=now + pool.failback_drain_timeout, was_usable=True)
    return attrs.evolve(before, was_usable=before.was_usable or usable)


def _fallen(state: State, now: float, subject: Subject, pool: PoolConfig, before: Terms) -> Terms:
    wish = override_of(state, subject.endpoint.node)
    ordered = None if wish.drain is None else (wish.drain_at, wish.drain)
    if before.fallen and ordered == before.ordered:
        return before
    deadline = min(before.deadline, now + pool.drain_timeout) if ordered is None else sum(ordered)
    return Terms(kind=LeaseKind.RETIRING, deadline=deadline, was_usable=before.was_usable, fallen=True, ordered=ordered)


def _pool(state: State, subject: Subject) -> PoolConfig:
    return next((pool for pool in state.config.pools if pool.name == subject.pool.name), subject.pool)
