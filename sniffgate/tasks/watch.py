"""The config watcher: a poll of the file that always works, and watchfiles to be faster where the kernel lets it.

inotify can run out of watches, is silent on network disks, and sees a bind-mounted file as it was. So it only ever
wakes the poll up, and when it fails the poll goes on alone.
"""

import importlib
import logging
import os
from typing import TYPE_CHECKING

import trio

from .config_file import WRITER_PATIENCE

if TYPE_CHECKING:
    from .gateway import Gateway
    from .reload import Reloader

log = logging.getLogger(__name__)

# Milliseconds in which watchfiles gathers changes before it tells of them; the reader waits for more. A thread of its
# wakes that often, whether anything changes or not, and takes the interpreter's lock: 10 ms cost more than all else
# that an idle gateway does.
GATHERING = 50


class Alarm:
    """Rings for one waiter; a ring that nobody waits for is kept."""

    def __init__(self) -> None:
        self._rung = trio.Event()

    @property
    def is_rung(self) -> bool:
        """Whether it rang and nobody was told yet."""
        return self._rung.is_set()

    def ring(self) -> None:
        """Ends the present wait, or else the next one."""
        self._rung.set()

    async def wait(self, most: float) -> None:
        """Returns when it rings, after `most` seconds at the latest."""
        with trio.move_on_after(most):
            await self._rung.wait()
        self._rung = trio.Event()


async def watch_config(gateway: "Gateway", reloader: "Reloader", *, notice: bool = True) -> None:
    """Reloads whenever the file's content changed; runs until cancelled. `notice` lets watchfiles wake it up."""
    alarm = Alarm()
    async with trio.open_nursery() as nursery:
        if notice:
            nursery.start_soon(notice_changes, reloader.file.path, alarm)
        while True:
            seen = await reloader.file.look()
            if seen.key != reloader.judged:
                await reloader.reload(gateway, WRITER_PATIENCE)
            await alarm.wait(gateway.state.config.globals.config_poll_interval)


async def notice_changes(path: str, alarm: Alarm) -> None:
    """Rings when something happens in the file's directory. Returns when that cannot be watched, after one warning.

    The directory is watched and not the file: a file that is replaced takes its watch along. Where the path is a
    symbolic link, the directory that it leads to is watched too. *Cancellation:* takes milliseconds.
    """
    try:
        # tens of milliseconds of imports, which neither the start nor the traffic waits for
        watchfiles = await trio.to_thread.run_sync(importlib.import_module, "watchfiles")
    except ImportError as error:
        _go_on_alone(path, error)
        return
    logging.getLogger("watchfiles").setLevel(logging.WARNING)
    stop = trio.Event()
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_trip, stop)
            async for _ in watchfiles.awatch(
                *directories(path), stop_event=stop, step=GATHERING, debounce=2 * GATHERING, recursive=False,
                watch_filter=None, force_polling=False,
            ):  # fmt: skip
                alarm.ring()
            nursery.cancel_scope.cancel()
    except* (OSError, RuntimeError) as errors:
        _go_on_alone(path, errors.exceptions[0])


async def _trip(stop: trio.Event) -> None:
    """Sets `stop` when cancelled: a thread of watchfiles looks at nothing else, and would be waited for."""
    try:
        await trio.sleep_forever()
    finally:
        stop.set()


def directories(path: str) -> set[str]:
    """The directories in which a change of the file shows: its own and that which symbolic links lead to."""
    return {os.path.dirname(os.path.abspath(path)), os.path.dirname(os.path.realpath(path))}


def _go_on_alone(path: str, error: BaseException) -> None:
    log.warning(
        "changes of the configuration file are noticed by polling only", extra={"path": path, "error": str(error)}
    )
