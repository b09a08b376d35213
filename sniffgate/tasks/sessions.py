"""UDP sessions and their legs: the bookkeeping, without any waiting.

A session is one client at one local address. It reaches its node through a leg: a socket connected to that node, inside
the endpoint's lease. When a session moves it gets a new leg at once; the old one stays a while for replies under way.
"""

import heapq
import itertools
from collections import deque
from collections.abc import Iterator

import attrs
import trio

from ..address import Address, canonical_host
from ..net.ports import DatagramConn
from ..net.relay import Counters, EndReason, Passage
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
    sent: int = 0  # datagrams that the tasks have sent since they last let a passage do it
    passage: Passage | None = None  # while the relay passes the datagrams by itself, or once it has
    nap: trio.CancelScope = attrs.field(factory=trio.CancelScope)  # the wait for the node's next datagram
    refused: bool = False
    left_at: float | None = None  # when the session moved on
    second_tries: deque[bytes] = attrs.field(factory=lambda: deque(maxlen=WAITING_DATAGRAMS))  # since the last reply
    counters: Counters = attrs.field(factory=Counters)
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    reason: EndReason | None = None
    _last_reply: float = float("-inf")

    @property
    def last_reply(self) -> float:
        """When the node's last datagram came; -inf when none did."""
        return self._last_reply if self.passage is None else max(self._last_reply, self.passage.replied_at)

    def note_reply(self, now: float) -> None:
        """A datagram of the node came."""
        self._last_reply = now

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
    seen: float  # the last datagram either way, as far as the tasks saw it
    turn: int = 0  # orders what was seen at the same moment
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

    @property
    def last_seen(self) -> float:
        """When the last datagram passed, either way, late replies of legs that were left included."""
        seen = self.seen
        for leg in (self.leg, *self.left):
            if leg is not None and leg.passage is not None:
                seen = max(seen, leg.passage.heard_at, leg.passage.replied_at)
        return seen

    @property
    def is_asking(self) -> bool:
        """Whether the client waits for an answer: none came after its last datagram."""
        passage = None if self.leg is None else self.leg.passage
        if passage is None or max(passage.heard_at, passage.replied_at) <= self.seen:
            return self.awaits_reply
        return passage.heard_at > passage.replied_at

    def note_passage(self, passage: Passage) -> None:
        """Remembers what passed by itself: the passage is over, or its leg is left."""
        if (seen := max(passage.heard_at, passage.replied_at)) > self.seen:
            self.seen, self.awaits_reply = seen, passage.heard_at > passage.replied_at

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
    """The sessions of one listener, and the legs they have left behind.

    The longest idle session is found by a heap whose entries may be out of date: a session that was heard of since goes
    back into it when it comes up. So a datagram costs nothing here, and eviction and expiry are exact all the same.
    """

    def __init__(self) -> None:
        self._sessions: dict[tuple[str, int, Address], Session] = {}
        self._by_idleness: list[tuple[float, int, Session]] = []
        self._order = itertools.count()
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
        session.turn = next(self._order)
        heapq.heappush(self._by_idleness, (session.seen, session.turn, session))
        if len(self._sessions) == 1:
            self.poke()

    def touch(self, session: Session, now: float) -> None:
        """A datagram of `session` passed, either way."""
        session.seen = now
        session.turn = next(self._order)

    def remove(self, session: Session) -> None:
        """Forgets a session."""
        session.ended = True
        if session.left:
            self.poke()
        del self._sessions[_key(session.client, session.local)]

    def oldest(self) -> Session | None:
        """The session that has been idle longest."""
        heap = self._by_idleness
        while heap:
            *noted, session = heap[0]
            if session.ended:
                heapq.heappop(heap)
            elif [seen := session.last_seen, session.turn] != noted:
                heapq.heapreplace(heap, (seen, session.turn, session))
            else:
                return session
        return None

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
            times.append(oldest.last_seen + timeout)
        return min(times, default=float("inf"))

    def poke(self) -> None:
        """Wakes `wait_poked`: something may expire sooner than was thought."""
        self._poked.set()
        self._poked = trio.Event()

    async def wait_poked(self) -> None:
        """Returns at the next poke."""
        await self._poked.wait()
