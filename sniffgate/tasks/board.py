"""The board: where the hub publishes the state, and where everybody else reads it or waits for it to change.

Waiting is level-triggered: a task says what it last acted on and waits until that is no longer what stands there, so no
change can be missed and none needs to be queued. Reading is an attribute read, without a lock or an await.
"""

from collections.abc import Iterable

import trio

from ..config.schema import Config
from ..state.difference import changed_health
from ..state.model import Endpoint, Health, State


class Board:
    """The published state. Grains of waiting: any revision, the routing table, the file, one endpoint's health."""

    def __init__(self, state: State) -> None:
        self.state = state
        self._revised = trio.Event()
        self._table_moved = trio.Event()
        self._config_moved = trio.Event()
        self._health_moved: dict[Endpoint, trio.Event] = {}

    def publish(self, state: State) -> None:
        """Puts `state` up and wakes those whose cell changed. Synchronous: the hub awaits nothing but its channel."""
        before, self.state = self.state, state
        if state is before:
            return
        self._revised.set()
        self._revised = trio.Event()
        if _table_differs(before, state):
            self._table_moved.set()
            self._table_moved = trio.Event()
        if before.config is not state.config:
            self._config_moved.set()
            self._config_moved = trio.Event()
            moved: Iterable[Endpoint] = [*changed_health(before, state), *(before.health.keys() - state.health.keys())]
        else:
            moved = changed_health(before, state)
        for endpoint in moved:
            if (event := self._health_moved.pop(endpoint, None)) is not None:
                event.set()

    def is_table_of(self, seen: State) -> bool:
        """Whether routes, operator's wishes and configuration are still those of `seen`. From any thread."""
        return not _table_differs(seen, self.state)

    async def wait_revision(self, seen: State) -> State:
        """Returns the state once it is not `seen` any more."""
        await trio.lowlevel.checkpoint()
        while self.state is seen:
            await self._revised.wait()
        return self.state

    async def wait_table(self, seen: State) -> State:
        """Returns the state once its routes, operator's wishes or configuration differ from those of `seen`."""
        await trio.lowlevel.checkpoint()
        while self.is_table_of(seen):
            await self._table_moved.wait()
        return self.state

    async def wait_config(self, seen: Config) -> State:
        """Returns the state once its configuration is not `seen` any more."""
        await trio.lowlevel.checkpoint()
        while self.state.config is seen:
            await self._config_moved.wait()
        return self.state

    async def wait_health(self, endpoint: Endpoint, seen: Health | None) -> Health | None:
        """Returns the endpoint's health once it is not `seen`; None when the endpoint is gone."""
        await trio.lowlevel.checkpoint()
        while (health := self.state.health.get(endpoint)) is seen:
            await self._health_moved.setdefault(endpoint, trio.Event()).wait()
        return health


def _table_differs(before: State, after: State) -> bool:
    return (
        before.epoch != after.epoch
        or before.config is not after.config
        or before.overrides is not after.overrides
        or before.routes is not after.routes
    )
