"""How many datagrams are read at an event, by what came before."""

import itertools
from collections.abc import Iterable

import pytest

from sniffgate.net.burst import BATCH, Burst


def reads(burst: Burst, arrivals: Iterable[int], polls: "itertools.count[int]") -> list[int]:
    """The reads, the one that finds nothing included, that each arrival of so many datagrams takes."""
    taken = []
    for waiting in arrivals:
        calls = 0
        next(polls)  # one that tells of another socket
        while waiting:
            most = burst.at(next(polls))
            if most <= waiting:
                waiting, calls = waiting - most, calls + most
            else:
                burst.ended_at(waiting)
                waiting, calls = 0, calls + waiting + 1
        taken.append(calls)
    return taken


def test_single_datagrams_are_read_singly() -> None:
    """Half of the reads of a question and its answer would be for nothing."""
    assert [1] * 100 == reads(Burst(), [1] * 100, itertools.count())


@pytest.mark.parametrize("size", [2, 4, 7, 32, BATCH, BATCH + 1, 1000])
def test_a_burst_is_known_when_it_comes_again(size: int) -> None:
    """A flood is to be read in few events, and to find its end costs one read at most."""
    burst, polls = Burst(), itertools.count()
    assert all(each <= size + 1 for each in reads(burst, [size] * 10, polls))

    before = next(polls)
    reads(burst, [size], polls)
    events = next(polls) - before - 2
    assert events == -(-size // BATCH)


def test_after_a_flood_single_datagrams_are_read_singly_again() -> None:
    """One burst in the morning must not cost every question of the day a read."""
    _, first, *others = reads(Burst(), [1000, *[1] * 11], itertools.count())

    assert 2 == first
    assert [1] * 10 == others


def test_no_event_reads_more_than_a_batch() -> None:
    """One socket's flood must leave the others their turn."""
    burst = Burst()
    assert BATCH == max(burst.at(poll) for poll in range(1000))
