"""Names to addresses for new flows: fresh within a second, one look-up at a time, never worse than before."""

from collections.abc import Awaitable, Callable

import attrs
import trio

from ..address import Address
from ..errors import NameUnresolved

FRESH = 1.0
"""Seconds that an answer, good or bad, is used without asking again."""
PATIENCE = 0.5
"""Seconds that a look-up may take before the last good answer is used in its place."""
FORGOTTEN = 3600.0
"""Seconds without use after which a name is forgotten; a quiet time should not lose the last good answer."""
MOST_NAMES = 4096
"""Names remembered at once; beyond that the longest unused goes first."""


@attrs.define(eq=False)
class _Asking:
    """A look-up under way."""

    since: float
    done: trio.Event = attrs.field(factory=trio.Event)
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)


@attrs.define(eq=False)
class _Name:
    used: float
    good: tuple[str, ...] | None = None  # the last answer that was one
    failure: Exception | None = None  # what the latest look-up ended with, if it failed
    fresh_until: float = -float("inf")
    asking: _Asking | None = None

    def answer(self, address: Address) -> tuple[Address, ...]:
        if self.failure is not None and not isinstance(self.failure, NameUnresolved):
            raise self.failure  # a bug is not covered up by an old answer
        if self.good is not None:
            return _at(self.good, address.port)
        raise NameUnresolved(str(self.failure or f"{address.host}: the look-up was given up"))


class Resolver:
    """Looks names up for many callers at once.

    An answer serves every caller for one second. While DNS fails, or takes longer than half a second, the last good
    answer goes on serving; a name without one raises `NameUnresolved`, for one second without asking again.
    Look-ups run apart from their callers, so that a cancelled caller takes nothing from the others and a hung look-up
    is one, not one for each caller; `close` ends them.
    """

    def __init__(self, look_up: Callable[[str], Awaitable[tuple[str, ...]]]) -> None:
        """`look_up` gives all literal addresses of a name or raises `NameUnresolved`; `Network.look_up` is one."""
        self._look_up = look_up
        self._names: dict[str, _Name] = {}

    async def addresses(self, address: Address) -> tuple[Address, ...]:
        """Every literal address that `address` stands for now, in the resolver's order; a literal stands for itself.

        Waits at most half a second if the name ever had an answer, else as long as the look-up takes.
        Errors: `NameUnresolved`.
        """
        if address.is_literal or not address.host:
            await trio.lowlevel.checkpoint()
            return (address,)
        now = trio.current_time()
        name = self._name(address.host, now)
        if now < name.fresh_until:
            await trio.lowlevel.checkpoint()
            return name.answer(address)
        asking = name.asking or self._ask(address.host, name, now)
        if name.good is None:
            await asking.done.wait()
        else:
            with trio.move_on_at(asking.since + PATIENCE):
                await asking.done.wait()
        return name.answer(address)

    def cached(self, address: Address) -> tuple[Address, ...] | None:
        """The last good answer, however old, without asking anyone; None if there is none. A literal is its own."""
        if address.is_literal or not address.host:
            return (address,)
        name = self._names.get(address.host)
        return None if name is None or name.good is None else _at(name.good, address.port)

    def close(self) -> None:
        """Ends the look-ups under way; who waits for one has the last good answer or `NameUnresolved`."""
        for name in self._names.values():
            if name.asking:
                name.asking.scope.cancel()

    def _name(self, host: str, now: float) -> _Name:
        name = self._names.pop(host, None)
        if name is None:
            self._forget(now)
            name = _Name(used=now)
        name.used = now
        self._names[host] = name  # at the end: the dictionary is in the order of last use
        return name

    def _forget(self, now: float) -> None:
        for host, name in list(self._names.items()):
            if len(self._names) < MOST_NAMES and now - name.used < FORGOTTEN:
                return
            if not name.asking:
                del self._names[host]

    def _ask(self, host: str, name: _Name, now: float) -> _Asking:
        name.asking = _Asking(since=now)
        # A system task lives outside the callers' nurseries. It raises nothing: that would end the whole run.
        trio.lowlevel.spawn_system_task(self._run_look_up, host, name, name.asking, name=f"look up {host}")
        return name.asking

    async def _run_look_up(self, host: str, name: _Name, asking: _Asking) -> None:
        """Looks one name up and notes the answer; ends then, or when `close` cancels it."""
        try:
            with asking.scope:
                try:
                    answer = await self._look_up(host)
                    if not answer:
                        raise NameUnresolved(f"{host}: the name has no address")
                    name.good, name.failure = answer, None
                except Exception as error:
                    name.failure = error
                name.fresh_until = trio.current_time() + FRESH
        finally:
            name.asking = None
            asking.done.set()


def _at(hosts: tuple[str, ...], port: int) -> tuple[Address, ...]:
    return tuple(Address(host, port) for host in hosts)
