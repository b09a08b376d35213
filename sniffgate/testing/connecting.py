"""Connecting on the virtual network, where nothing is done at once."""

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from ..errors import ConnectFailed, LocalShortage
from ..net.ports import Conn


class VirtualConnecting:
    """A connection that opens once it is waited for."""

    def __init__(self, connect: Callable[[], Awaitable[Conn]]) -> None:
        self._connect = connect

    def result_nowait(self) -> Conn | None:
        """None: a round trip takes time."""
        return None

    def failure_nowait(self) -> ConnectFailed | LocalShortage | None:
        """None: a refusal takes its time too."""
        return None

    async def wait(self) -> Conn:
        """Connects. Errors: as `VirtualHost.connect_tcp`."""
        return await self._connect()

    def close(self) -> None:
        """There is nothing to give up yet."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
