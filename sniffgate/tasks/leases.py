"""Leases: what a listener holds per endpoint, flows under one cancel scope.

Draining is one assignment to that scope's deadline. A lease that retires takes no new flow, and one whose scope was
cancelled is never used again: the next flow opens a new lease, without a deadline that was meant for others. So after a
drain a lease is empty by construction.
"""

from collections.abc import Awaitable, Callable, Iterator

import attrs
import trio

from ..address import Address
from ..config.schema import PoolConfig
from ..net.relay import EndReason
from ..net.shortcut import FlowGroup
from ..state.model import Endpoint, State
from ..state.terms import LeaseKind, Subject, Terms, terms_at
from .clock import Clock

_NAME = "a flow of a lease"  # shared: Trio would make a string for each task
_Key = tuple[str, Endpoint, Address, Address]  # pool, endpoint, its configured address, and the literal one


@attrs.frozen(kw_only=True)
class LeaseView:
    """What a lease is at one moment, as a value. `deadline` is on Trio's clock, inf without one."""

    listener: str
    endpoint: Endpoint
    address: Address
    flows: int
    kind: LeaseKind
    deadline: float


@attrs.define(eq=False)
class Lease:
    """Flows of one listener at one address of one endpoint."""

    subject: Subject
    address: Address  # literal: a name's answers are leased one by one, since each can leave the answer
    terms: Terms
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    gone: bool = False  # the address left the name's answer for good
    missing_since: float | None = None  # Trio's clock; None while the address is in the answer
    flows: int = 0
    cut_reason: EndReason = EndReason.DRAINED
    group: FlowGroup | None = None  # flows that have no task of their own; counted among `flows`
    admitting: int = 0  # shortcuts by which more may come
    _nursery: trio.Nursery | None = None
    _early: list[tuple[Callable[..., Awaitable[object]], tuple[object, ...]]] = attrs.field(factory=list)

    @property
    def endpoint(self) -> Endpoint:
        """Whose flows these are."""
        return self.subject.endpoint

    @property
    def is_over(self) -> bool:
        """Whether the scope was cancelled, or its deadline has passed: no flow may enter any more."""
        return self.scope.cancel_called

    def start(self, flow: Callable[..., Awaitable[object]], *args: object) -> bool:
        """Starts a flow inside the lease and passes ownership of `args` to it.

        False, and nothing done, when it is over.
        """
        if self.is_over:
            return False
        self.flows += 1
        if self._nursery is None:
            self._early.append((flow, args))
        else:
            self._nursery.start_soon(self._run, flow, *args, name=_NAME)
        return True

    async def keep(self, hold: Callable[[FlowGroup], Awaitable[object]] | None = None) -> None:
        """Holds the lease open for flows until it is cut, or retires and is empty. `hold` keeps those of `group`."""
        with self.scope:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                for flow, args in self._early:
                    nursery.start_soon(self._run, flow, *args, name=_NAME)
                self._early.clear()
                if hold is None or self.group is None:
                    await trio.sleep_forever()
                else:
                    await hold(self.group)

    async def _run(self, flow: Callable[..., Awaitable[object]], *args: object) -> None:
        try:
            await flow(*args)
        finally:
            self.leave()

    def leave(self) -> None:
        """A flow is over."""
        self.flows -= 1
        self.close_if_idle()

    def close_if_idle(self) -> None:
        """Ends an empty lease that is not active: the next flow opens a new one."""
        if not self.flows and not self.admitting and self.terms.kind is LeaseKind.RETIRING:
            self.scope.cancel()


class LeaseBook:
    """The leases of one listener. For each pool, endpoint and address at most one takes new flows; others retire."""

    def __init__(self, clock: Clock, hold: Callable[[FlowGroup], Awaitable[object]] | None = None) -> None:
        """`hold` keeps flows that have no task of their own, where there are such; see `Relay.hold`."""
        self._clock = clock
        self._hold = hold
        self._leases: dict[Lease, None] = {}  # all of them, oldest first
        self._open: dict[_Key, Lease] = {}  # those that take new flows
        self._named = trio.Event()
        self._closing: EndReason | None = None
        self._last_deadline = float("inf")

    def __iter__(self) -> Iterator[Lease]:
        return iter(list(self._leases))

    @property
    def closing(self) -> EndReason | None:
        """Why every flow of the listener ends, once it does."""
        return self._closing

    def lease_for(
        self, state: State, endpoint: Endpoint, configured: Address, address: Address, pool: PoolConfig,
        keepers: trio.Nursery,
    ) -> Lease:  # fmt: skip
        """The lease for a new flow to `address` of `endpoint`; a new one is kept by a task in `keepers`.

        Start the flow before the next checkpoint: until then a new lease may be taken for one that nobody needs.
        While the listener ends, it ends with it.
        """
        key = (pool.name, endpoint, configured, address)
        lease = self._open.get(key)
        if lease is None or lease.is_over or (lease.terms.kind is LeaseKind.RETIRING and self._closing is None):
            subject = Subject(endpoint=endpoint, configured=configured, pool=pool)
            lease = Lease(subject, address, terms_at(state, self._clock.now(), subject, Terms()))
            self._leases[lease] = None
            self._open[key] = lease
            if self._closing is not None:
                self._retire(lease, self._last_deadline, self._closing)
            else:
                self._apply_deadline(lease)
            if self._hold is not None:
                lease.group = FlowGroup()
            keepers.start_soon(self._keep, key, lease)
            if not configured.is_literal:
                self._named.set()
        return lease

    def active_at(self, pool: str, endpoint: Endpoint, address: Address) -> Lease | None:
        """The lease for new flows to an active endpoint configured by this literal address, if there is one."""
        lease = self._open.get((pool, endpoint, address, address))
        if lease is None or lease.is_over or lease.terms.kind is not LeaseKind.ACTIVE:
            return None
        return lease

    def named(self) -> list[Lease]:
        """The leases whose endpoint is configured by name."""
        return [lease for lease in self if not lease.subject.configured.is_literal]

    async def wait_named(self) -> None:
        """Returns when there is a lease whose endpoint is configured by name."""
        await trio.lowlevel.checkpoint()
        while not self.named():
            self._named = trio.Event()
            await self._named.wait()

    def follow(self, state: State, pool: str) -> None:
        """Gives every lease the terms that follow from `state`: this is what draining is.

        `pool` is the listener's pool now; the flows of another one retire.
        """
        if self._closing is not None:
            return
        now = self._clock.now()
        for lease in self:
            gone = lease.gone or lease.subject.pool.name != pool
            terms = terms_at(state, now, lease.subject, lease.terms, gone=gone)
            if terms != lease.terms:
                lease.terms = terms
                lease.cut_reason = EndReason.DNS_GONE if lease.gone else EndReason.DRAINED
                self._apply_deadline(lease)
            lease.close_if_idle()

    def retire_all(self, at: float, reason: EndReason) -> None:
        """Ends the listener's flows at `at` (gateway seconds) at the latest.

        No new terms after that, only earlier ends.
        """
        self._closing, self._last_deadline = reason, min(self._last_deadline, at)
        for lease in self:
            self._retire(lease, self._last_deadline, reason)
            lease.close_if_idle()

    def _retire(self, lease: Lease, at: float, reason: EndReason) -> None:
        if at < lease.terms.deadline:
            lease.cut_reason = reason
        lease.terms = attrs.evolve(
            lease.terms, kind=LeaseKind.RETIRING, deadline=min(lease.terms.deadline, at), fallen=True
        )
        self._apply_deadline(lease)

    def _apply_deadline(self, lease: Lease) -> None:
        if not lease.is_over:
            lease.scope.deadline = self._clock.deadline(lease.terms.deadline)

    async def _keep(self, key: _Key, lease: Lease) -> None:
        try:
            await lease.keep(self._hold)
        finally:
            del self._leases[lease]
            if self._open.get(key) is lease:
                del self._open[key]
