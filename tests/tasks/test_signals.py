"""Signals become wishes: stop, stop now, reload."""

import signal
from collections.abc import AsyncIterator

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from sniffgate.tasks.signals import obey_signals


class Script:
    """Signals that come when the test says so, and what they led to."""

    def __init__(self) -> None:
        self._send, self._signals = trio.open_memory_channel[int](10)
        self.wishes: list[object] = []
        self.reload_may_end = trio.Event()

    async def signals(self) -> AsyncIterator[int]:
        async for number in self._signals:
            yield number

    async def come(self, *numbers: int) -> None:
        for number in numbers:
            self._send.send_nowait(number)
        await wait_all_tasks_blocked()

    async def reload(self) -> None:
        self.wishes.append("reload")
        await self.reload_may_end.wait()
        self.wishes.append("reloaded")

    async def obey(self) -> None:
        await obey_signals(self.signals(), stop=self.wishes.append, reload=self.reload)


async def test_the_first_stops_with_the_configured_grace_and_each_further_one_now(autojump_clock: MockClock) -> None:
    """Whoever asks twice is in a hurry."""
    script = Script()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(script.obey)
        await script.come(signal.SIGTERM)
        assert [None] == script.wishes
        await script.come(signal.SIGINT)
        assert [None, 0.0] == script.wishes
        await script.come(signal.SIGTERM)
        assert [None, 0.0, 0.0] == script.wishes
        nursery.cancel_scope.cancel()


async def test_a_reload_that_hangs_does_not_keep_it_from_stopping(autojump_clock: MockClock) -> None:
    """A file on a dead network disk takes long to read."""
    script = Script()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(script.obey)
        await script.come(signal.SIGHUP, signal.SIGTERM)
        assert [None, "reload"] == sorted(script.wishes, key=str)
        nursery.cancel_scope.cancel()


async def test_hangups_during_a_reload_are_one_more_reload(autojump_clock: MockClock) -> None:
    """The last of them may stand for a change that the reload under way did not see; all of them need no more."""
    script = Script()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(script.obey)
        await script.come(*[signal.SIGHUP] * 5)
        script.reload_may_end.set()
        await wait_all_tasks_blocked()
        assert ["reload", "reloaded"] == script.wishes[:2]
        assert script.wishes in (["reload", "reloaded"], ["reload", "reloaded"] * 2)
        nursery.cancel_scope.cancel()
