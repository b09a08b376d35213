"""The order of Trio's tasks, from a seed."""

import trio

from sniffgate.testing import deterministic, run_virtual


async def order_of(count: int) -> list[int]:
    """In which order tasks ran that were all due at once, over and over."""
    order: list[int] = []

    async def task(number: int) -> None:
        for _ in range(5):
            await trio.sleep(1.0)
            order.append(number)

    async with trio.open_nursery() as nursery:
        for number in range(count):
            nursery.start_soon(task, number)
    return order


def test_this_version_of_trio_can_be_seeded() -> None:
    """It is no public promise of Trio's: when this fails, `seeding.py` has to learn how the new version does it."""
    orders = [tuple(run_virtual(order_of, 10, seed=seed)) for seed in range(10)]
    again = [tuple(run_virtual(order_of, 10, seed=seed)) for seed in range(10)]

    assert orders == again
    assert 10 == len(set(orders))


def test_the_switch_is_put_back() -> None:
    """Other tests have a right to their chance."""
    internals = trio._core._run
    before = (internals._ALLOW_DETERMINISTIC_SCHEDULING, internals._r.getstate())
    with deterministic(5):
        assert before != (internals._ALLOW_DETERMINISTIC_SCHEDULING, internals._r.getstate())
    assert before == (internals._ALLOW_DETERMINISTIC_SCHEDULING, internals._r.getstate())
