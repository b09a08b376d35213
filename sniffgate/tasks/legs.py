"""The life of a leg: datagrams to the node, replies to the client, refusals to whoever must know."""

from collections.abc import Callable
from typing import Protocol

import trio

from ..config.schema import Transport
from ..errors import DatagramRefused, LocalShortage
from ..net.ports import DatagramPort
from ..net.relay import EndReason, Passage
from ..state.events import FailureKind
from ..state.model import Endpoint
from .copies import Copies
from .flow_log import FlowRecord
from .services import Services
from .sessions import Leg, Session, SessionTable
from .tcp import Settings

CARRY_AFTER = 2  # datagrams of a session after which the relay passes them by itself: one question is not worth it
UNPROBED_INTERVAL = 1.0  # seconds between two replies that are looked at, where only traffic tells of a node's health


class Move(Protocol):
    """Gives a session another leg."""

    def __call__(self, session: Session, *, refused: bool = False) -> None: ...


class Legs:
    """Runs the legs of one listener's sessions."""

    def __init__(
        self,
        services: Services,
        settings: Settings,
        table: SessionTable,
        move: Move,
        end: Callable[[Session, EndReason], None],
    ) -> None:
        self.front: DatagramPort | None = None  # where replies leave from
        self.winding_down: EndReason | None = None
        self._services = services
        self._settings = settings
        self._table = table
        self._move = move
        self._end = end
        self._copies = Copies()

    async def run(self, leg: Leg) -> None:
        """Passes the node's replies on until the leg ends. It has been entered in the ledger by whoever chose its node.

        *Closes:* its socket. *Cancellation:* as ended by the lease.
        """
        services, work = self._services, self._services.containing("a UDP session at %s", leg.endpoint)
        services.ledger.flow_began(leg.endpoint, leg.counters)
        try:
            with leg.conn, work, leg.scope:
                await self._pass_replies_on(leg)
        finally:
            self._finish(leg, EndReason.CRASHED if work.crashed else leg.reason or leg.lease.cut_reason)

    async def _pass_replies_on(self, leg: Leg) -> None:
        while True:
            if self._may_carry(leg):
                await self._carry(leg)
            with trio.CancelScope() as leg.nap:
                try:
                    payload = await leg.conn.receive()
                except DatagramRefused as refusal:
                    self._refused(leg, refusal)
                else:
                    self._replied(leg, payload)

    def forward(self, leg: Leg, payload: bytes, now: float, *, again: bool = False) -> None:
        """Sends a client's datagram to the node. `again`: it was refused once already."""
        if again:
            leg.second_tries.append(payload)
            self._ask_to_be_told(leg)
        self._copies.keep(leg, leg.conn.peer, payload, now)
        size = len(payload)
        try:
            leg.conn.send_nowait(payload)
        except LocalShortage:
            self.drop("send")
        else:
            leg.counters.up += size  # no call in this line: the relay's thread may be adding to the same counter
        leg.sent += 1
        if leg.sent >= CARRY_AFTER and self._may_carry(leg):
            leg.nap.cancel()  # let the relay take over

    # --- letting the relay pass the datagrams by itself -----------------------------------------------

    def _may_carry(self, leg: Leg) -> bool:
        """Whether nothing about the leg needs anybody's attention, and it has shown to be more than one question."""
        return (
            self._services.relay.has_passages
            and leg.sent >= CARRY_AFTER
            and leg is leg.session.leg
            and leg.trial_until is None
            and not leg.session.waiting
            and self.front is not None
            and self.winding_down is None
        )

    async def _carry(self, leg: Leg) -> None:
        """Lets datagrams pass until the node's socket has something to say, or the listener's was given up."""
        assert self.front is not None
        leg.passage = passage = Passage(
            client=leg.session.client,
            local=leg.session.local,
            conn=leg.conn,
            counters=leg.counters,
            keep=lambda payload, now: self._copies.keep(leg, leg.conn.peer, payload, now),
            on_reply=lambda: self._told_of_reply(leg),
        )
        leg.sent = 0
        self._services.ledger.passages.add(passage)
        try:
            await self._services.relay.carry(self.front, passage)
        finally:
            leg.note_reply(leg.last_reply)  # the next passage knows nothing of it
            leg.session.note_passage(passage)
            self._services.ledger.passage_ended(passage)
        if self.winding_down is not None and not leg.session.is_asking:  # answered after it was asked about that
            self._end(leg.session, self.winding_down)

    def divert(self, leg: Leg) -> None:
        """The session has left `leg`: its client's datagrams are not for it any more."""
        if leg.passage is not None:
            leg.session.note_passage(leg.passage)
            self._services.relay.divert(leg.passage)

    def _ask_to_be_told(self, leg: Leg) -> None:
        if leg.passage is not None:
            leg.passage.tell_after = float("-inf")

    def look_at_replies(self, session: Session) -> None:
        """Something may have changed for which the next reply matters."""
        if session.leg is not None:
            self._ask_to_be_told(session.leg)

    def _told_of_reply(self, leg: Leg) -> None:
        """The relay passed a reply after it had been asked to tell."""
        with self._services.containing("a UDP session at %s", leg.endpoint):
            self._note_reply(leg)
            node = self._services.board.state.config.node(leg.endpoint.node)
            if leg.passage is not None and node is not None and not node.is_probed:
                # its live traffic is all that tells of its health
                leg.passage.tell_after = trio.current_time() + UNPROBED_INTERVAL

    def flush(self, session: Session, leg: Leg) -> None:
        """Sends what waited for the leg."""
        now = trio.current_time()
        if session.waiting:
            self._table.touch(session, now)
        while session.waiting:
            payload, again = session.waiting.popleft()
            self.forward(leg, payload, now, again=again)

    def _replied(self, leg: Leg, payload: bytes) -> None:
        now = trio.current_time()
        leg.note_reply(now)
        leg.session.awaits_reply = False
        if not leg.session.ended:
            self._table.touch(leg.session, now)
        self._pass_on(leg, payload)
        self._note_reply(leg)

    def _note_reply(self, leg: Leg) -> None:
        """The node answers: what spoke against it for this session is forgotten."""
        session = leg.session
        leg.second_tries.clear()
        if leg is session.leg:
            session.refused_by.clear()
            session.refused_at.clear()
        self.end_trial(leg)
        self._services.first_byte(leg.route, leg.endpoint)
        if self.winding_down is not None:
            self._end(session, self.winding_down)
            leg.end(self.winding_down)  # the session may have ended before

    def _pass_on(self, leg: Leg, payload: bytes) -> None:
        assert self.front is not None
        try:
            self.front.send_nowait(payload, leg.session.client, leg.session.local)
        except (LocalShortage, trio.ClosedResourceError):  # closed while a reload tries to bind in its place
            self.drop("reply")
        else:
            leg.counters.down += len(payload)

    def end_trial(self, leg: Leg) -> None:
        """Gives the token of a trial back, if it is this leg's still and was not taken by another since."""
        if leg.trial_until is not None:
            if trio.current_time() < leg.trial_until:
                self._services.ledger.end_trial(leg.endpoint)
            leg.trial_until = None

    # --- refusals -------------------------------------------------------------------------------------

    def _refused(self, leg: Leg, refusal: DatagramRefused) -> None:
        """The node refused a datagram: its session moves, and the datagram is sent once more, to the new node."""
        session, now = leg.session, trio.current_time()
        payload = self._payload_of(leg, refusal, now)
        if leg is session.leg:
            session.refused_at.add(leg.conn.peer)
            if leg.lease.subject.configured.is_literal:
                self.blame(session, leg.endpoint, FailureKind.REFUSED)
            else:
                session.doubted = leg.endpoint.node  # it may have other addresses: the next leg finds out
            self._move(session, refused=True)
        if payload is None or session.ended:
            self._lose(leg)
        elif payload in leg.second_tries:
            leg.second_tries.remove(payload)
            self._lose(leg)
        elif session.leg is not None:
            self._services.incidents.slow(leg.route)
            self.forward(session.leg, payload, now, again=True)
        elif session.put_off(payload, again=True):
            self._services.incidents.slow(leg.route)
        else:
            self.drop("waiting")

    def _lose(self, leg: Leg) -> None:
        self.drop("refused")
        self._services.incidents.lost(leg.route)

    def _payload_of(self, leg: Leg, refusal: DatagramRefused, now: float) -> bytes | None:
        """The refused datagram, whole; None when it cannot be had."""
        if refusal.quote is None or not refusal.cut:
            return refusal.quote
        return self._copies.find(leg, refusal.quote, leg.last_reply, now)

    def blame(self, session: Session, endpoint: Endpoint, kind: FailureKind) -> None:
        """Reports that a node failed a session: once per session and node."""
        session.refused_by.add(endpoint.node)
        if endpoint.node not in session.reported:
            session.reported.add(endpoint.node)
            self._services.ledger.of(endpoint).failed += 1
            self._services.reporter.failed(endpoint, kind, session.client.host)

    # --- the books ------------------------------------------------------------------------------------

    def drop(self, reason: str) -> None:
        """Counts a datagram that went nowhere."""
        self._services.ledger.drop(reason)

    def _finish(self, leg: Leg, reason: EndReason) -> None:
        services, session = self._services, leg.session
        self._table.forget(leg)
        services.ledger.flow_ended(leg.endpoint, leg.counters, reason)
        services.incidents.flow_ended(leg.endpoint)
        services.ledger.leave(leg.route, leg.endpoint.node)
        self.end_trial(leg)
        self.record(session, leg, reason)
        if session.leg is leg:
            session.leg = None
            if not session.ended:  # the lease ended it: the next datagram is a new session's first
                self._end(session, reason)

    def record(self, session: Session, leg: Leg | None, reason: EndReason) -> None:
        """Counts an ending and puts it in the flow log: one line per leg, or for a session that never had one."""
        self._services.ledger.endings[reason] += 1
        now = trio.current_time()
        self._services.write_flow(
            FlowRecord(
                listener=self._settings().name,
                protocol=Transport.UDP,
                client=session.client,
                node=leg.endpoint.node if leg else None,
                up=leg.counters.up if leg else 0,
                down=leg.counters.down if leg else 0,
                duration=now - (leg.opened_at if leg else session.began),
                reason=reason,
                at=now,
            )
        )
