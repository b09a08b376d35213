"""Shortcuts: clients that the relay accepts, connects and relays by itself, for as long as a caller's rule stands.

Handing a connection from the thread of the tasks to the one of the relay costs more than all that is done with a
short one. So the tasks say beforehand where new clients go, and hear afterwards what became of them. Whatever does not
succeed soon goes to the tasks, as it always did.
"""

import enum
from collections.abc import Awaitable, Callable
from typing import Protocol

import attrs

from ..address import Address
from .ports import Conn, Connecting
from .relay import Counters, EndReason, RelayLimits

ROOM_LEFT = 64  # slots: with fewer left the tasks count them one by one, since two threads cannot without a lock
PATIENCE = 0.02  # seconds that a node has to take a client: a hundred round trips between machines in one place


@attrs.define(eq=False)
class TakenFlow:
    """A flow that the relay began by itself. It stays the relay's until its owner is told of its end."""

    client: Conn
    node: Conn
    counters: Counters
    began: float  # when the client was accepted, Trio's clock
    connected: float  # the same clock
    ended: float | None = None  # the same, once it is over


class FlowOwner(Protocol):
    """Whose the flows of a shortcut are. Called in Trio's thread outside of any task, in this order for each flow.

    Told in batches, some milliseconds late while there is a lot to tell; at once when a flow ended badly.
    """

    def begun(self, flow: TakenFlow) -> None:
        """It was begun: it counts, holds a slot, and belongs to the lease."""
        ...

    def heard(self, flow: TakenFlow) -> None:
        """The node's first byte has gone to the client."""
        ...

    def ended(self, flow: TakenFlow, reason: EndReason | None) -> None:
        """It is over, and both connections are closed; None: it was cut."""
        ...

    def lost(
        self,
        flow: TakenFlow,
        reason: EndReason,
        wait_delivered: Callable[[], Awaitable[None]],
        say_farewell: Callable[[], None],
    ) -> None:
        """One side is gone, and the other has not had all that was sent to it; nothing more is told of the flow.

        *Closes:* both connections, by `say_farewell`: the owner's, to be called in the end.
        """
        ...

    def returned(self, client: Conn, begun: Connecting, since: float) -> None:
        """A client whose node has not taken it, accepted and the connect begun at `since` on Trio's clock.

        *Closes:* both, from now on the owner's.
        """
        ...


@attrs.define(eq=False)
class FlowGroup:
    """The flows that shortcuts began for one lease. The set belongs to the relay."""

    flows: set[object] = attrs.field(factory=set)
    is_over: bool = False


@attrs.frozen(eq=False, kw_only=True)
class Shortcut:
    """Where the clients of a listening socket go, for as long as `stands` says so.

    `stands` and `room` are called in the relay's thread and may do no more than read a few attributes.
    """

    address: Address  # of the node, a literal one
    user_timeout: float  # seconds, as in `Network.connect_tcp`
    limits: RelayLimits
    group: FlowGroup
    owner: FlowOwner
    stands: Callable[[], bool]
    room: Callable[[], float]  # slots that are free; those of flows that the owner has not heard of are still free
    patience: float = PATIENCE


class Leaving(enum.Enum):
    """Why the relay took no more clients by a shortcut."""

    STALE = "stale"  # it stands no more
    FULL = "full"  # fewer slots than `ROOM_LEFT`
    SLOW = "slow"  # the node did not take a client soon; the owner has it
