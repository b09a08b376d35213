"""What relaying means, whoever moves the bytes: counters, limits, passages, and the closed list of endings."""

import enum
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import attrs
import trio

from ..address import Address
from .ports import Acceptor, Conn, Datagram, DatagramConn, DatagramPort

if TYPE_CHECKING:
    from .shortcut import FlowGroup, Leaving, Shortcut


class EndReason(enum.Enum):
    """Why a flow ended. The list is closed: the flow log, the counters and docs/control.md share it."""

    COMPLETE = "complete"  # both directions ended with an end of stream
    CLIENT_RESET = "client_reset"
    NODE_RESET = "node_reset"
    CLIENT_GONE = "client_gone"  # reset or closed before a node was connected
    NO_NODE = "no_node"  # every try failed, or nothing may be used
    IDLE = "idle"  # idle_timeout_ms, or udp_session_timeout_ms
    HALF_CLOSE_TIMEOUT = "half_close_timeout"
    DRAINED = "drained"  # cut at a drain deadline
    DNS_GONE = "dns_gone"  # the node's address left the name's answer
    SHUTDOWN = "shutdown"
    MOVED = "moved"  # UDP: the session went on at another node
    EVICTED = "evicted"  # UDP: udp_max_sessions, longest idle first
    LOCAL_SHORTAGE = "local_shortage"  # descriptors, ports or buffers of this machine
    CRASHED = "crashed"  # a bug in sniffgate, logged with its traceback


@attrs.define(eq=False)  # one flow is never another, however equal their numbers
class Counters:
    """Bytes of one flow so far, live: `up` from client to node, `down` from node to client."""

    up: int = 0
    down: int = 0


@attrs.frozen
class RelayLimits:
    """Bounds in seconds for a relayed flow; 0 switches `idle` off."""

    idle: float = 0.0
    half_close: float = 300.0


NEVER = float("inf")


@attrs.define(eq=False, kw_only=True)
class Passage:
    """A UDP session at its node's socket, as whoever passes its datagrams sees it. Times are Trio's clock.

    The times, the counters and the losses are written by the relay and may be read at any moment; `tell_after` is the
    other way round.
    """

    client: Address
    local: Address
    conn: DatagramConn
    counters: Counters
    keep: Callable[[bytes, float], None]  # is given each datagram to the node whose quote would be cut
    on_reply: Callable[[], None]  # called once, soon after a reply at or after `tell_after`
    heard_at: float = -NEVER  # the client's last datagram
    replied_at: float = -NEVER  # the node's last one
    tell_after: float = -NEVER
    lost_up: int = 0  # datagrams that found no room towards the node
    lost_down: int = 0  # and towards the client


class Parting(enum.Enum):
    """Why a passage ended by itself."""

    TROUBLE = "trouble"  # the node's socket has something to say: `DatagramConn.receive` will
    CLOSED = "closed"  # the listening socket was given up


class Relay(Protocol):
    """Moves the bytes of established connections, and the datagrams of listening sockets."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Does what the relay needs to have going on beside its flows, until `stop` and the last flow is over.

        Errors: whatever makes relaying impossible; every flow was let go before.
        """
        ...

    def stop(self) -> None:
        """Makes `run` return once every flow is over."""
        ...

    async def relay(
        self,
        client: Conn,
        node: Conn,
        counters: Counters,
        limits: RelayLimits,
        on_first_byte: Callable[[], None] | None = None,
    ) -> EndReason:
        """Relays until both directions have ended and says how. *Closes:* both connections, whatever happens.

        `on_first_byte` is called once, soon after the node's first byte has arrived. Half-close is kept; a reset is
        passed on as a reset after all that came before it was delivered.

        *Cancellation:* a cut: each side gets an end of stream if no byte of the flow is buffered anywhere, else a
        reset.
        """
        ...

    # --- shortcuts ------------------------------------------------------------------------------------

    @property
    def has_shortcuts(self) -> bool:
        """Whether `admit` and `hold` may be called; if not, every client is the tasks' to accept."""
        ...

    async def admit(self, acceptor: Acceptor, shortcut: "Shortcut") -> "Leaving":
        """Takes in clients by a shortcut until that will not do any more, and says why.

        *Cancellation:* when no client is taken in any more. Either way the owner has been told of each flow that was
        begun. Errors: `LocalShortage`; OSError when the listening socket cannot be used.
        """
        ...

    async def hold(self, group: "FlowGroup") -> None:
        """Keeps the flows that shortcuts begin in `group`, until cancelled.

        *Cancellation:* a cut of each of them, as `relay` makes it; takes effect when the owner has been told of all.
        """
        ...

    # --- datagrams ------------------------------------------------------------------------------------

    @property
    def has_passages(self) -> bool:
        """Whether `carry` may be called; if not, every datagram goes through `take` and `DatagramConn.receive`."""
        ...

    async def receive_forever(self, front: DatagramPort, take: Callable[[Datagram], None]) -> None:
        """Calls `take` with each datagram that no passage carries, in order per client; runs until cancelled."""
        ...

    async def carry(self, front: DatagramPort, passage: Passage) -> Parting:
        """Passes a session's datagrams both ways, without anybody being asked, until something is up.

        Order is kept: what was given to `take` before is dealt with before anything passes.
        *Cancellation:* takes effect once the node's socket is not touched any more.
        """
        ...

    def divert(self, passage: Passage) -> None:
        """From now on the client's datagrams go to `take` again; the node's replies still pass."""
        ...
