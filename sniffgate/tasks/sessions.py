"""UDP sessions and their legs: the bookkeeping, without any waiting.

A session is one client at one local address. It reaches its node through a leg: a socket connected to that node, inside
the endpoint's lease. When a session moves it gets a new leg at once; the old one stays a while for replies under way.
"""

from collections import OrderedDict, deque
from collections.abc import Iterator

import attrs
import trio

from ..address import Address, canonical_host
from ..net.ports import DatagramConn
from ..net.relay import Counters, EndReason
from ..state.model import Endpoint, RouteKey
from .leases import Lease

WAITING_DATAGRAMS = 64  # per session, while its leg is being opened (a look-up may take a while)
REFUSED_LINGER = 1.0  # seconds a refused leg is still read for the refusals of what was sent before the first came
LAST_LINGER = 0.05  # the same once its session is over: then they are only counted, and sockets are dear in a flood


@attrs.define(eq=False)
class Leg:
    """A session's socket to one node. Times are Trio's."""

    session: "Session"
    endpoint: Endpoint
    route: RouteKey
    lease: Lease
    conn: DatagramConn
    opened_at: float
    trial_until: float | None = None  # while it may prove an endpoint in probation
    last_reply: float = float("-inf")
    refused: bool = False
    left_at: float | None = None  # when the session moved on
    second_tries: deque[bytes] = attrs.field(factory=lambda: deque(maxlen=WAITING_DATAGRAMS))  # since the last reply
    counters: Counters = attrs.field(factory=Counters)
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    reason: EndReason | None = None

    def is_lost_trial(self, now: float) -> bool:
        """A trial that stayed silent: its client goes back to the nodes that are known to answer."""
        return self.trial_until is not None and now >= self.trial_until and self.last_reply < self.opened_at

    def end(self, reason: EndReason) -> None:
        """Ends the leg's task, for `reason` unless it has one already."""
        self.reason = self.reason or reason
        self.scope.cancel()

    def expires(self, timeout: float) -> float:
        """When a leg that its session has left has nothing more to wait for (its lease may end it earlier)."""
        assert self.left_at is not None
        if self.refused:
            return self.left_at + (LAST_LINGER if self.session.ended else REFUSED_LINGER)
        return max(self.last_reply, self.opened_at) + timeout


@attrs.define(eq=False)
class Session:
    """One client at one local address."""

    client: Address
    local: Address
    began: float
    seen: float  # the last datagram either way
    awaits_reply: bool = True  # none came after the client's last datagram
    leg: Leg | None = None
    left: set[Leg] = attrs.field(factory=set)  # the legs that it has left and that still wait for late replies
    had_leg: bool = False
    opening: bool = False
    ended: bool = False
    waiting: deque[tuple[bytes, bool]] = attrs.field(factory=deque)  # (datagram, whether it was refused once)
    doubted: str | None = None  # a node that refused at one of its addresses: its others come first
    refused_by: set[str] = attrs.field(factory=set)  # nodes, since the last reply
    refused_at: set[Address] = attrs.field(factory=set)  # addresses, since the last reply
    reported: set[str] = attrs.field(factory=set)  # nodes whose refusal was reported: one per session and node

    def take_leg(self, leg: Leg) -> None:
        """Goes on at `leg`."""
        self.leg = leg
        self.had_leg = True

    def put_off(self, payload: bytes, *, again: bool = False) -> bool:
        """Keeps a datagram until the leg is open; False, and dropped, when too many wait already."""
        if len(self.waiting) >= WAITING_DATAGRAMS:
            return False
        self.waiting.append((payload, again))
        return True


def _key(client: Address, local: Address) -> tuple[str, int, Address]:
    return canonical_host(client.host), client.port, local


class SessionTable:
    """The sessions of one listener, longest idle first, and the legs they have left behind."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[tuple[str, int, Address], Session] = OrderedDict()
        self.left: set[Leg] = set()
        self._poked = trio.Event()

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[Session]:
        return iter(list(self._sessions.values()))

    def find(self, client: Address, local: Address) -> Session | None:
        """The session of a client; an IPv4 client and its IPv4-mapped form are one."""
        return self._sessions.get(_key(client, local))

    def add(self, session: Session) -> None:
        """Adds a session as the one heard of last."""
        self._sessions[_key(session.client, session.local)] = session
        if len(self._sessions) == 1:
            self.poke()

    def touch(self, session: Session, now: float) -> None:
        """A datagram of `session` passed, either way."""
        session.seen = now
        self._sessions.move_to_end(_key(session.client, session.local))

    def remove(self, session: Session) -> None:
        """Forgets a session."""
        session.ended = True
        if session.left:
            self.poke()
        del self._sessions[_key(session.client, session.local)]

    def oldest(self) -> Session | None:
        """The session that has been idle longest."""
        return next(iter(self._sessions.values()), None)

    def leave(self, leg: Leg) -> None:
        """Notes that a session has left `leg`."""
        self.left.add(leg)
        leg.session.left.add(leg)
        self.poke()

    def forget(self, leg: Leg) -> None:
        """Notes that `leg` is over."""
        self.left.discard(leg)
        leg.session.left.discard(leg)

    def next_expiry(self, timeout: float) -> float:
        """When the next session or left leg expires; inf when there is none."""
        oldest = self.oldest()
        times = [leg.expires(timeout) for leg in self.left]
        if oldest is not None:
            times.append(oldest.seen + timeout)
        return min(times, default=float("inf"))

    def poke(self) -> None:
        """Wakes `wait_poked`: something may expire sooner than was thought."""
        self._poked.set()
        self._poked = trio.Event()

    async def wait_poked(self) -> None:
        """Returns at the next poke."""
        await self._poked.wait()
