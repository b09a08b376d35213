"""The fault vocabulary: what may happen to a node, said the same way of a virtual one and of a real process."""

from collections.abc import Callable
from types import TracebackType
from typing import Protocol

import attrs

from ..address import Address


@attrs.frozen
class Trouble:
    """A fault that has begun. As a context manager it ends with the block: `with node.freeze(): ...`."""

    end: Callable[[], None]

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()


class FaultyNode(Protocol):
    """A backend to which things happen. Faults add up, and last until `recover`; the end of a block is one.

    docs/testing.md says what each fault is like on either network, and where the two differ.
    """

    @property
    def name(self) -> str:
        """What its answers begin with."""
        ...

    @property
    def tcp(self) -> Address | None:
        """Where it serves TCP."""
        ...

    @property
    def udp(self) -> Address | None:
        """Where it serves UDP."""
        ...

    async def wait_ready(self) -> None:
        """Returns when it serves, and what was asked for last is in force: at once on the virtual network."""
        ...

    def kill(self) -> Trouble:
        """The process dies: connections are reset, ports refuse. Recovering starts it again."""
        ...

    def freeze(self) -> Trouble:
        """The process stands still, its kernel does not: connects succeed, nothing is answered."""
        ...

    def refuse(self) -> Trouble:
        """New connections and datagrams are refused; connections go on."""
        ...

    def black_hole(self) -> Trouble:
        """Nothing is answered and nothing refused, not even a connect."""
        ...

    def close_udp(self) -> Trouble:
        """Datagrams are refused, TCP goes on."""
        ...

    def slow(self, seconds: float) -> Trouble:
        """Each answer comes `seconds` late. Connects are as fast as ever."""
        ...

    def reset_mid_stream(self, after: int) -> Trouble:
        """Each connection is reset when it has had `after` bytes of answers and more would follow."""
        ...

    def recover(self) -> None:
        """Ends every fault. What a fault broke off stays broken off."""
        ...
