"""Signals: stop, stop now, reload. Only the command line's door listens to them; `serve` never does."""

import logging
import signal
from collections.abc import AsyncIterator, Awaitable, Callable

import trio

log = logging.getLogger(__name__)

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


async def obey_signals(
    signals: AsyncIterator[int],
    *,
    stop: Callable[[float | None], object],
    reload: Callable[[], Awaitable[object]],
) -> None:
    """Obeys until cancelled, which must come after everything else has ended.

    A signal left in the receiver when it closes would be raised again, and kill the process after a clean end.
    SIGTERM or SIGINT: the first calls `stop(None)` (the configured grace), further ones `stop(0.0)`. SIGHUP awaits
    `reload`, beside; those that come during a reload are one more reload.
    """
    ask, asked = trio.open_memory_channel[None](1)
    grace: float | None = None
    async with trio.open_nursery() as nursery, ask:
        nursery.start_soon(_reload_when_asked, asked, reload)
        async for number in signals:
            name = signal.Signals(number).name
            if number == signal.SIGHUP:
                log.info("reloading", extra={"signal": name})
                try:
                    ask.send_nowait(None)
                except trio.WouldBlock:
                    log.debug("a reload is due already", extra={"signal": name})
                continue
            log.info("stopping" if grace is None else "stopping now", extra={"signal": name})
            stop(grace)
            grace = 0.0


async def _reload_when_asked(asked: trio.MemoryReceiveChannel[None], reload: Callable[[], Awaitable[object]]) -> None:
    with asked:
        async for _ in asked:
            await reload()
