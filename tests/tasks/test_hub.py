"""The hub folds what it is told, in order, answers who asked, and nothing that floods it stops traffic."""

import math

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from sniffgate.errors import CommandRefused
from sniffgate.state.events import Event, FailureKind, ForwardFailed, ForwardSucceeded, OperatorDisabled, ProbeFailed
from sniffgate.state.model import Endpoint, State, Verdict
from sniffgate.state.reducer import initial_state
from sniffgate.tasks.board import Board
from sniffgate.tasks.clock import Clock
from sniffgate.tasks.hub import AT_ONCE, CHANNEL_SLOTS, Item, Reporter, run_hub
from sniffgate.testing import open_gateway
from tests.tasks.configs import QA, QB, TCP, tcp_config

A_TCP = Endpoint("node-a", TCP)


@attrs.define(eq=False)
class Hub:
    """A hub that does not run until it is started."""

    items: trio.MemoryReceiveChannel[Item]
    reports: trio.MemorySendChannel[Item]
    board: Board
    reporter: Reporter
    told: list[Event] = attrs.field(factory=list)

    async def run(self) -> None:
        await run_hub(self.items, self.board, self.observe)

    def observe(self, before: State, event: Event, after: State) -> None:
        self.told.append(event)


def a_hub(slots: int = CHANNEL_SLOTS, **settings: object) -> Hub:
    reports, items = trio.open_memory_channel[Item](slots)
    board = Board(initial_state(tcp_config(QA, QB, **settings)))
    return Hub(items, reports, board, Reporter(reports, board, Clock()))


async def test_whoever_asks_gets_the_state_after_the_event(autojump_clock: MockClock) -> None:
    """An operator's command is done when it says so."""
    hub = a_hub()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(hub.run)
        state = await hub.reporter.ask(OperatorDisabled(at=0.0, node="node-a"))
        assert state is hub.board.state
        assert ("node-b",) == next(iter(state.routes.values())).active
        with pytest.raises(CommandRefused, match="no node is named 'node-x'"):
            await hub.reporter.ask(OperatorDisabled(at=0.0, node="node-x"))
        hub.reports.close()
    assert [OperatorDisabled(at=0.0, node="node-a")] == hub.told


async def test_what_waits_is_folded_in_one_turn(autojump_clock: MockClock) -> None:
    """A client that comes right after the failure that ejects a node must not be tried there."""
    hub = a_hub()
    failure = ForwardFailed(
        at=0.0, wall_ms=0, endpoint=A_TCP, kind=FailureKind.REFUSED, client="192.0.2.9", client_spoke=False
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(hub.run)
        await wait_all_tasks_blocked()
        for _ in range(AT_ONCE):
            hub.reporter.send_nowait(failure)
        for _ in range(2):  # the turn in which the hub is woken, and the end of it
            await trio.lowlevel.checkpoint()
        folded = len(hub.told)
        hub.reports.close()  # before anything can fail: the hub is shielded
    assert AT_ONCE == folded


async def test_last_words_count_even_when_all_is_cancelled(autojump_clock: MockClock) -> None:
    """The hub leaves last: what cancelled tasks still report is folded."""
    hub = a_hub()
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(hub.run)
            await wait_all_tasks_blocked()
            scope.cancel()
            for _ in range(3):
                hub.reporter.failed(A_TCP, FailureKind.REFUSED, "10.0.0.9")
            hub.reports.close()

    assert 3 == len(hub.told)
    assert Verdict.UNHEALTHY is hub.board.state.health[A_TCP].verdict


async def test_failures_that_find_the_channel_full_travel_with_the_next(autojump_clock: MockClock) -> None:
    """None of them is lost to the verdict, and nobody waits where nothing may wait."""
    hub = a_hub(slots=2)
    for _ in range(5):
        hub.reporter.failed(A_TCP, FailureKind.REFUSED, "10.0.0.9")
    assert 3 == hub.reporter.overflowed

    async with trio.open_nursery() as nursery:
        nursery.start_soon(hub.run)
        await wait_all_tasks_blocked()
        hub.reporter.failed(A_TCP, FailureKind.REFUSED, "10.0.0.9")
        hub.reports.close()
    assert [0, 0, 3] == [event.more for event in hub.told if isinstance(event, ForwardFailed)]


async def test_who_may_wait_waits_for_room(autojump_clock: MockClock) -> None:
    """A full channel slows reporters down; it drops nothing of theirs and stops nobody for good."""
    hub = a_hub(slots=1)
    done: list[int] = []

    async def report(number: int) -> None:
        await hub.reporter.send(ProbeFailed(at=0.0, endpoint=A_TCP, error=str(number)))
        done.append(number)

    async with trio.open_nursery() as nursery:
        for number in range(10):
            nursery.start_soon(report, number)
        await wait_all_tasks_blocked()
        assert 1 == len(done)
        nursery.start_soon(hub.run)
        await wait_all_tasks_blocked()
        assert set(range(10)) == set(done)
        hub.reports.close()
    assert 10 == len(hub.told)


async def test_success_is_reported_only_where_it_changes_something(autojump_clock: MockClock) -> None:
    """Flows that do well must not keep the hub busy: at most one report in 100 ms, and none when all is known."""
    hub = a_hub()
    for _ in range(5):
        hub.reporter.succeeded(A_TCP)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(hub.run)
        await wait_all_tasks_blocked()
        assert [ForwardSucceeded] == [type(event) for event in hub.told]
        assert Verdict.HEALTHY is hub.board.state.health[A_TCP].verdict
        await trio.sleep(1.0)
        hub.reporter.succeeded(A_TCP)
        hub.reports.close()
    assert 1 == len(hub.told)


async def test_what_is_remembered_of_endpoints_that_are_gone_is_forgotten(autojump_clock: MockClock) -> None:
    """Reloads must not make the gateway grow."""
    hub = a_hub(slots=0)
    hub.reporter.failed(A_TCP, FailureKind.REFUSED, "10.0.0.9")
    hub.reporter.forget(set())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(hub.run)
        await wait_all_tasks_blocked()
        hub.reporter.failed(A_TCP, FailureKind.REFUSED, "10.0.0.9")
        hub.reports.close()

    assert [0] == [event.more for event in hub.told if isinstance(event, ForwardFailed)]


async def test_a_flood_of_failing_flows_stops_nobody(autojump_clock: MockClock) -> None:
    """More refusals in one step than the channel holds: every client is served by the standby, and the node is out."""
    flood = CHANNEL_SLOTS + 201  # the hub, which waits, takes one straight away
    async with open_gateway(tcp_config(QA, QB)) as service:
        service.nodes["node-a"].refuse()
        await wait_all_tasks_blocked()
        for _ in range(flood):
            service.gateway.services.reporter.failed(A_TCP, FailureKind.REFUSED, "10.0.0.9")
        assert 200 == service.gateway.services.reporter.overflowed

        assert b"node-b:hi" == await service.ask()
        assert Verdict.UNHEALTHY is service.health("node-a").verdict
        await service.drain("node-a", math.inf)


async def test_many_clients_of_a_dead_node_at_once_are_all_served(autojump_clock: MockClock) -> None:
    """Their evidence goes through one channel; none of them waits for it."""
    async with open_gateway(tcp_config(QA, QB)) as service:
        service.nodes["node-a"].kill()
        answers: list[bytes] = []

        async def ask() -> None:
            answers.append(await service.ask())

        async with trio.open_nursery() as nursery:
            for _ in range(100):
                nursery.start_soon(ask)

        assert [b"node-b:hi"] * 100 == answers
        assert 0.0 == trio.current_time()
        assert Verdict.UNHEALTHY is service.health("node-a").verdict
