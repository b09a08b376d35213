"""What every virtual port has in common: waiting for a change, and closing with `with`."""

from types import TracebackType
from typing import Self

import trio

from ..address import Address
from ..config.schema import Transport
from .conditions import Fault
from .fabric import Fabric


class Waitable:
    """A port whose waiters look again after each change."""

    transport: Transport

    def __init__(self, fabric: Fabric, place: Address) -> None:
        self._fabric = fabric
        self.place = place
        self._closed = False
        self._changed: trio.Event | None = None  # None: nobody waits

    @property
    def is_open(self) -> bool:
        """True until the application closes it."""
        return not self._closed

    def stir(self) -> None:
        """Lets every waiting task look again."""
        if self._changed is not None:
            self._changed.set()
            self._changed = None

    def notice(self) -> None:
        """Looks at the conditions again, for they have changed."""
        self.stir()

    async def _wait_change(self) -> None:
        if self._changed is None:
            self._changed = trio.Event()
        await self._changed.wait()

    async def _begin(self) -> None:
        """Starts a call: whatever is due has happened, and the caller had its checkpoint."""
        await trio.lowlevel.checkpoint()
        self._fabric.wire.settle()

    def _check_open(self) -> None:
        if self._closed:
            raise trio.ClosedResourceError("this port was closed")

    @property
    def _frozen(self) -> bool:
        return self._fabric.fault(self.place, self.transport) is Fault.FREEZE

    def close(self) -> None:
        """Gives it back at once; does nothing the second time."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
