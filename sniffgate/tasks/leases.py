"""Leases: what a listener holds per endpoint, flows under one cancel scope.

Draining is one assignment to that scope's deadline. A lease whose scope was cancelled is never used again: the next flow
opens a new one, so after a drain a lease is empty by construction.
"""

from collections.abc import Awaitable, Callable, Iterator

import attrs
import trio

from ..address import Address
from ..config.schema import PoolConfig
from ..net.relay import EndReason
from ..state.model import Endpoint, State
from ..state.terms import LeaseKind, Subject, Terms, terms_at
from .clock import Clock


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
    opened: trio.Event = attrs.field(factory=trio.Event)
    _nursery: trio.Nursery | None = None

    @property
    def endpoint(self) -> Endpoint:
        """Whose flows these are."""
        return self.subject.endpoint

    @property
    def is_over(self) -> bool:
        """Whether the scope was cancelled, or its deadline has passed: no flow may enter any more."""
        return self.scope.cancel_called

    def start(self, flow: Callable[..., Awaitable[object]], *args: object) -> bool:
        """Starts a flow inside the lease and passes ownership of `args` to it; False, and nothing done, when it is over."""
        if self.is_over or self._nursery is None:
            return False
        self.flows += 1
        self._nursery.start_soon(self._run, flow, *args)
        return True

    async def keep(self) -> None:
        """Holds the lease open for flows until it is cut, or retires and is empty."""
        with self.scope:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                self.opened.set()
                await trio.sleep_forever()

    async def _run(self, flow: Callable[..., Awaitable[object]], *args: object) -> None:
        try:
            await flow(*args)
        finally:
            self.flows -= 1
            self.close_if_idle()

    def close_if_idle(self) -> None:
        """Ends an empty lease that is not active: the next flow opens a new one."""
        if not self.flows and self.terms.kind is LeaseKind.RETIRING:
            self.scope.cancel()


class LeaseBook:
    """The leases of one listener, by endpoint and address."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._leases: dict[tuple[Endpoint, Address, Address], Lease] = {}
        self._named = trio.Event()
        self._closing: EndReason | None = None
        self._last_deadline = float("inf")

    def __iter__(self) -> Iterator[Lease]:
        return iter(list(self._leases.values()))

    async def lease_for(
        self, state: State, endpoint: Endpoint, configured: Address, address: Address, pool: PoolConfig,
        keepers: trio.Nursery,
    ) -> Lease:  # fmt: skip
        """The lease for flows to `address` of `endpoint`, opened now (kept by a task in `keepers`) unless there is one."""
        key = (endpoint, configured, address)
        lease = self._leases.get(key)
        if lease is None or lease.is_over:
            subject = Subject(endpoint=endpoint, configured=configured, pool=pool)
            lease = Lease(subject, address, terms_at(state, self._clock.now(), subject, Terms()))
            self._leases[key] = lease
            if self._closing is not None:
                self._retire(lease, self._last_deadline, self._closing)
            else:
                self._apply_deadline(lease)
            keepers.start_soon(self._keep, key, lease)
            if not configured.is_literal:
                self._named.set()
        await lease.opened.wait()
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
                self._apply_deadline(lease)
            lease.close_if_idle()

    def retire_all(self, at: float, reason: EndReason) -> None:
        """Ends the listener's flows at `at` (gateway seconds) at the latest; no new terms after that, only earlier ends."""
        self._closing, self._last_deadline = reason, min(self._last_deadline, at)
        for lease in self:
            self._retire(lease, self._last_deadline, reason)

    def _retire(self, lease: Lease, at: float, reason: EndReason) -> None:
        if at < lease.terms.deadline:
            lease.cut_reason = reason
        lease.terms = attrs.evolve(
            lease.terms, kind=LeaseKind.RETIRING, deadline=min(lease.terms.deadline, at), fallen=True
        )
        self._apply_deadline(lease)
        lease.close_if_idle()

    def _apply_deadline(self, lease: Lease) -> None:
        if not lease.is_over:
            lease.scope.deadline = self._clock.deadline(lease.terms.deadline)
            lease.cut_reason = EndReason.DNS_GONE if lease.gone else lease.cut_reason

    async def _keep(self, key: tuple[Endpoint, Address, Address], lease: Lease) -> None:
        try:
            await lease.keep()
        finally:
            if self._leases.get(key) is lease:
                del self._leases[key]
