"""Many seeds in many processes: each plays every so-manieth seed and tells what came of it."""

import contextlib
import gc
import logging
import multiprocessing
import signal
from collections.abc import Generator, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import NamedTuple

from ..config.schema import Config
from ..errors import SniffgateError
from .broken import Broken
from .chance import history_from
from .play import play

LAZY_COLLECTOR = (20_000, 20, 20)  # what a history leaves behind is small, and looking for it is a tenth of the time


class WorkerLost(SniffgateError):
    """A process that played seeds has ended before its time."""


class Played(NamedTuple):
    """A seed and what it broke, if anything."""

    seed: int
    broken: Broken | None


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without the log of the gateways that are simulated."""
    log = logging.getLogger("sniffgate")
    level = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        log.setLevel(level)


def play_seeds(config: Config, seeds: Sequence[int], seconds: float, jobs: int) -> Generator[Played, None, None]:
    """Plays each seed, `jobs` at a time, and yields what came of it as soon as it is known, in any order.

    Leaving the iteration ends the processes. Errors: `WorkerLost`.
    """
    context = multiprocessing.get_context("spawn")  # a fork would inherit whatever threads and runs there are
    workers: dict[Connection, multiprocessing.process.BaseProcess] = {}
    try:
        for number in range(min(jobs, len(seeds))):
            ours, theirs = context.Pipe(duplex=False)
            share = seeds[number::jobs]
            worker: multiprocessing.process.BaseProcess = context.Process(
                target=_work, args=(theirs, config, share, seconds), daemon=True
            )
            with _without_interrupts():
                worker.start()
            theirs.close()
            workers[ours] = worker
        while workers:
            for ready in wait(list(workers)):
                assert isinstance(ready, Connection)
                yield from _received(ready, workers)
    finally:
        for worker in workers.values():
            worker.terminate()
            worker.join()


@contextlib.contextmanager
def _without_interrupts() -> Iterator[None]:
    """A process that is started in the block never hears of Ctrl-C: that is for its parent, who hears of it later."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _received(ready: Connection, workers: dict[Connection, multiprocessing.process.BaseProcess]) -> Iterator[Played]:
    try:
        result = ready.recv()
    except EOFError:
        worker = workers.pop(ready)
        worker.join()
        raise WorkerLost(f"a process that played seeds ended with status {worker.exitcode}") from None
    if result is None:
        workers.pop(ready).join()
    else:
        yield result


def _work(results: Connection, config: Config, seeds: Sequence[int], seconds: float) -> None:
    """A process: plays its seeds, then says None."""
    gc.freeze()
    gc.set_threshold(*LAZY_COLLECTOR)
    with quiet(), contextlib.suppress(BrokenPipeError):  # whoever asked has gone
        for seed in seeds:
            results.send(Played(seed, play(config, history_from(config, seed, seconds))))
        results.send(None)
