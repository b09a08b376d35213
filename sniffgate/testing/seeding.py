"""Runs that can be repeated: Trio's order of tasks from a seed.

Tasks that are due together run in an order that Trio leaves to chance, from dice of its own. It has a switch that makes
them the only source of chance, meant for Hypothesis, and no public name for it: `tests/testing/test_seeding.py` fails
on a version of Trio that no longer has it.
"""

import contextlib
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar

import trio
from trio.testing import MockClock

Result = TypeVar("Result")


@contextlib.contextmanager
def deterministic(seed: int) -> Iterator[None]:
    """Each `trio.run` inside the block runs tasks in the order that `seed` gives; the switch is put back at the end.

    The switch is the whole process's: no two threads may be in such a block at once.
    """
    internals: Any = trio._core._run
    allowed, dice = internals._ALLOW_DETERMINISTIC_SCHEDULING, internals._r.getstate()
    internals._ALLOW_DETERMINISTIC_SCHEDULING = True
    internals._r.seed(seed)
    try:
        yield
    finally:
        internals._ALLOW_DETERMINISTIC_SCHEDULING = allowed
        internals._r.setstate(dice)


def run_virtual(main: Callable[..., Awaitable[Result]], *args: object, seed: int = 0) -> Result:
    """`trio.run` on virtual time, with the order of tasks that `seed` gives."""
    with deterministic(seed):
        return trio.run(main, *args, clock=MockClock(autojump_threshold=0))
