"""Leases: one scope for the flows of an endpoint, never used again once it is over."""

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from sniffgate.address import Address
from sniffgate.config.schema import Config
from sniffgate.net.relay import EndReason
from sniffgate.state.events import OperatorDisabled, OperatorEnabled
from sniffgate.state.model import Endpoint, State
from sniffgate.state.reducer import initial_state, reduce
from sniffgate.state.terms import LeaseKind
from sniffgate.tasks.clock import Clock
from sniffgate.tasks.leases import Lease, LeaseBook
from tests.tasks.configs import QA, QB, TCP, tcp_config

CONFIG: Config = tcp_config(QA, QB, drain_timeout=5.0)


@attrs.define(eq=False)
class Desk:
    """A lease book, the state it follows, and flows that last until they are told to end."""

    book: LeaseBook
    keepers: trio.Nursery
    state: State = attrs.field(factory=lambda: initial_state(CONFIG))
    ended: list[tuple[str, float, EndReason]] = attrs.field(factory=list)
    leave: trio.Event = attrs.field(factory=trio.Event)

    def lease(self, node: str = "node-a", *, address: str = "10.0.0.1", configured: Address | None = None) -> Lease:
        return self.book.lease_for(
            self.state,
            Endpoint(node, TCP),
            configured or Address(address, 7000),
            Address(address, 7000),
            self.state.config.pool("default"),
            self.keepers,
        )

    async def flow(self, name: str, lease: Lease) -> None:
        """Lasts until `leave` or until it is cut."""
        try:
            await self.leave.wait()
        finally:
            self.ended.append((name, trio.current_time(), lease.cut_reason))

    def start(self, name: str, lease: Lease) -> bool:
        return lease.start(self.flow, name, lease)

    def disable(self, node: str = "node-a") -> None:
        self.state = reduce(self.state, OperatorDisabled(at=trio.current_time(), node=node))
        self.book.follow(self.state, "default")

    def enable(self, node: str = "node-a") -> None:
        self.state = reduce(self.state, OperatorEnabled(at=trio.current_time(), node=node))
        self.book.follow(self.state, "default")


@asynccontextmanager
async def desk() -> AsyncIterator[Desk]:
    async with trio.open_nursery() as keepers:
        yield Desk(LeaseBook(Clock()), keepers)
        keepers.cancel_scope.cancel()


async def test_flows_to_one_address_share_a_lease(autojump_clock: MockClock) -> None:
    """So that one assignment drains them all; another address or node has another."""
    async with desk() as at:
        lease = at.lease()
        assert lease is at.lease()
        assert lease is not at.lease("node-b", address="10.0.0.2")
        assert lease is not at.lease(address="10.0.0.9", configured=Address("name.example", 7000))
        await wait_all_tasks_blocked()
        assert lease is at.lease()


async def test_a_flow_may_start_before_the_leases_keeper_has(autojump_clock: MockClock) -> None:
    """No step lies between opening a lease and using it, in which another task could end it."""
    async with desk() as at:
        lease = at.lease()
        assert at.start("early", lease)
        assert 1 == lease.flows
        await wait_all_tasks_blocked()
        at.leave.set()
        await wait_all_tasks_blocked()
        assert ["early"] == [name for name, _, _ in at.ended]
        assert 0 == lease.flows


async def test_every_flow_of_a_retiring_lease_is_cut_at_the_deadline(autojump_clock: MockClock) -> None:
    """And counted as drained."""
    async with desk() as at:
        lease = at.lease()
        at.start("one", lease)
        at.start("two", lease)
        await trio.sleep(1.0)
        at.disable()
        await trio.sleep(30.0)

        assert {("one", 6.0, EndReason.DRAINED), ("two", 6.0, EndReason.DRAINED)} == set(at.ended)
        assert [] == list(at.book)


async def test_a_retiring_lease_takes_no_new_flow(autojump_clock: MockClock) -> None:
    """Its deadline is for those who were there when the endpoint was left."""
    async with desk() as at:
        old = at.lease()
        at.start("old", old)
        await wait_all_tasks_blocked()
        at.disable()
        at.state = reduce(at.state, OperatorEnabled(at=0.0, node="node-a"))  # not followed yet
        new = at.lease()

        assert old is not new
        assert LeaseKind.ACTIVE is new.terms.kind
        assert new is at.lease()


async def test_a_lease_that_is_back_in_use_takes_flows_again(autojump_clock: MockClock) -> None:
    """Its deadline was lifted: it is as good as new."""
    async with desk() as at:
        lease = at.lease()
        at.start("one", lease)
        await wait_all_tasks_blocked()
        at.disable()
        at.enable()

        assert lease is at.lease()
        assert at.start("two", lease)
        await trio.sleep(60.0)
        assert [] == at.ended


async def test_a_lease_that_is_over_is_never_used_again(autojump_clock: MockClock) -> None:
    """Trio's scopes do not come back to life: lifting its deadline would promise what it cannot keep."""
    async with desk() as at:
        lease = at.lease()
        at.start("one", lease)
        await wait_all_tasks_blocked()
        at.disable()
        await trio.sleep(5.0)
        at.enable()

        assert lease.is_over
        assert not at.start("late", lease)
        new = at.lease()
        assert at.start("new", new)
        await trio.sleep(60.0)
        assert ["one"] == [name for name, _, _ in at.ended]
        assert 1 == new.flows


async def test_an_empty_lease_ends_as_soon_as_it_retires(autojump_clock: MockClock) -> None:
    """After a drain a lease is empty, and an empty one has nothing to wait for."""
    async with desk() as at:
        lease = at.lease()
        await wait_all_tasks_blocked()
        at.disable()
        await wait_all_tasks_blocked()

        assert lease.is_over
        assert [] == list(at.book)


async def test_a_retiring_lease_ends_with_its_last_flow(autojump_clock: MockClock) -> None:
    """Not at its deadline, which may be never."""
    async with desk() as at:
        lease = at.lease()
        at.start("one", lease)
        await wait_all_tasks_blocked()
        at.disable()
        at.leave.set()
        await wait_all_tasks_blocked()

        assert (0.0, True) == (trio.current_time(), lease.is_over)


async def test_an_empty_active_lease_stays_open(autojump_clock: MockClock) -> None:
    """Its next flow is to be expected."""
    async with desk() as at:
        lease = at.lease()
        at.start("one", lease)
        at.leave.set()
        await trio.sleep(100.0)

        assert lease is at.lease()


async def test_the_end_of_a_listener_only_moves_closer(autojump_clock: MockClock) -> None:
    """Neither the state nor a later call with more time gives any back."""
    async with desk() as at:
        lease = at.lease()
        at.start("one", lease)
        await wait_all_tasks_blocked()
        at.book.retire_all(8.0, EndReason.SHUTDOWN)
        at.book.retire_all(4.0, EndReason.SHUTDOWN)
        at.book.retire_all(math.inf, EndReason.DRAINED)
        at.enable()
        await trio.sleep(60.0)

        assert [("one", 4.0, EndReason.SHUTDOWN)] == at.ended


async def test_a_flow_that_comes_while_the_listener_ends_has_until_its_end(autojump_clock: MockClock) -> None:
    """It was accepted before; its lease is opened for it, and is not taken for an empty one."""
    async with desk() as at:
        at.book.retire_all(4.0, EndReason.SHUTDOWN)
        await trio.sleep(1.0)
        assert at.start("late", at.lease())
        assert at.start("later", at.lease())
        await trio.sleep(60.0)

        assert {("late", 4.0, EndReason.SHUTDOWN), ("later", 4.0, EndReason.SHUTDOWN)} == set(at.ended)


async def test_an_address_that_left_its_names_answer_is_named_as_the_reason(autojump_clock: MockClock) -> None:
    """And only as long as it is the reason."""
    async with desk() as at:
        lease = at.lease()
        at.start("one", lease)
        lease.gone = True
        at.book.follow(at.state, "default")
        assert (EndReason.DNS_GONE, 5.0) == (lease.cut_reason, lease.terms.deadline)

        lease.gone = False
        at.book.follow(at.state, "default")
        at.disable()
        assert EndReason.DRAINED is lease.cut_reason


async def test_the_wait_for_named_leases_ends_with_the_first(autojump_clock: MockClock) -> None:
    """Who watches names sleeps while there are none."""
    async with desk() as at:
        at.lease()
        found = trio.Event()

        async def watch() -> None:
            await at.book.wait_named()
            found.set()

        at.keepers.start_soon(watch)
        await wait_all_tasks_blocked()
        assert not found.is_set()
        lease = at.lease(configured=Address("name.example", 7000))
        await wait_all_tasks_blocked()
        assert found.is_set()
        assert [lease] == at.book.named()
