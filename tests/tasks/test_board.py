"""The board: nobody misses a change, and nobody wakes for another's."""

from collections.abc import Awaitable, Callable

import attrs
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from sniffgate.config.schema import ProbeKind
from sniffgate.state.events import ConfigApplied, OperatorDisabled, OperatorMarked, ProbeFailed, ProbeSucceeded
from sniffgate.state.model import Endpoint, Mark, State
from sniffgate.state.reducer import initial_state, reduce
from sniffgate.tasks.board import Board
from tests.tasks.configs import QA, QB, TCP, tcp_config

A_TCP, B_TCP = Endpoint("node-a", TCP), Endpoint("node-b", TCP)
PROBED = tuple(attrs.evolve(node, probe=ProbeKind.TCP) for node in (QA, QB))
FIRST: State = initial_state(tcp_config(*PROBED))


async def woken_by(wait: Callable[[Board], Awaitable[object]], after: State, nursery: trio.Nursery) -> bool:
    """Whether `wait` on a board that shows `FIRST` returns when `after` is published."""
    board, woken = Board(FIRST), trio.Event()

    async def watch() -> None:
        await wait(board)
        woken.set()

    nursery.start_soon(watch)
    await wait_all_tasks_blocked()
    assert not woken.is_set()
    board.publish(after)
    await wait_all_tasks_blocked()
    return woken.is_set()


async def test_each_grain_wakes_for_its_own_changes(autojump_clock: MockClock) -> None:
    """With 500 nodes probed every second, a listener must not wake for each of them."""
    waits: dict[str, Callable[[Board], Awaitable[object]]] = {
        "revision": lambda board: board.wait_revision(FIRST),
        "table": lambda board: board.wait_table(FIRST),
        "file": lambda board: board.wait_config(FIRST.config),
        "health of a": lambda board: board.wait_health(A_TCP, FIRST.health[A_TCP]),
        "health of b": lambda board: board.wait_health(B_TCP, FIRST.health[B_TCP]),
    }
    changes = {
        "a probe": reduce(FIRST, ProbeSucceeded(at=1.0, endpoint=A_TCP, latency=0.1)),
        "a mark": reduce(FIRST, OperatorMarked(at=1.0, node="node-b", mark=Mark.UP)),
        "a disabled node": reduce(FIRST, OperatorDisabled(at=1.0, node="node-a")),
        "a reload": attrs.evolve(FIRST, config=attrs.evolve(FIRST.config), revision=9),
        "nothing": FIRST,
    }
    async with trio.open_nursery() as nursery:
        woken = {
            what: {name for name, wait in waits.items() if await woken_by(wait, after, nursery)}
            for what, after in changes.items()
        }
        nursery.cancel_scope.cancel()

    assert {
        "a probe": {"revision", "health of a"},
        "a mark": {"revision", "table"},
        "a disabled node": {"revision", "table", "health of b"},  # whose promotion is counted
        "a reload": {"revision", "table", "file"},
        "nothing": set(),
    } == woken


async def test_a_change_before_the_wait_is_not_missed(autojump_clock: MockClock) -> None:
    """Waiting says what was acted on last, so it does not matter when it begins."""
    board = Board(FIRST)
    after = reduce(
        reduce(FIRST, OperatorDisabled(at=1.0, node="node-a")), ProbeFailed(at=2.0, endpoint=A_TCP, error="refused")
    )
    board.publish(after)

    with trio.fail_after(1.0):
        assert after is await board.wait_revision(FIRST)
        assert after is await board.wait_table(FIRST)
        moved = reduce(after, ConfigApplied(at=3.0, config=tcp_config(PROBED[1])))
        board.publish(moved)
        assert moved is await board.wait_config(FIRST.config)
        board.publish(after)
        assert after.health[A_TCP] is await board.wait_health(A_TCP, FIRST.health[A_TCP])
    assert 0.0 == trio.current_time()


async def test_the_health_of_an_endpoint_that_is_gone_is_none(autojump_clock: MockClock) -> None:
    """A prober learns that there is nothing left to probe."""
    board = Board(FIRST)
    async with trio.open_nursery() as nursery:

        async def remove() -> None:
            await trio.sleep(1.0)
            board.publish(reduce(FIRST, ConfigApplied(at=1.0, config=tcp_config(PROBED[1]))))

        nursery.start_soon(remove)
        assert None is await board.wait_health(A_TCP, FIRST.health[A_TCP])
    assert 1.0 == trio.current_time()


async def test_many_changes_while_a_waiter_acts_are_one(autojump_clock: MockClock) -> None:
    """Levels, not edges: the waiter sees the last state and none of those between."""
    board = Board(FIRST)
    seen: list[State] = []

    async def watch() -> None:
        while True:
            seen.append(await board.wait_revision(seen[-1] if seen else FIRST))
            await trio.sleep(1.0)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        await wait_all_tasks_blocked()
        state = FIRST
        for number in range(5):
            state = reduce(state, ProbeFailed(at=float(number), endpoint=A_TCP, error=str(number)))
            board.publish(state)
            await wait_all_tasks_blocked()
        await trio.sleep(10.0)
        nursery.cancel_scope.cancel()

    assert 2 == len(seen)
    assert state is seen[-1]
