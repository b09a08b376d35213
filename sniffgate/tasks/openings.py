"""Openings: finding a session an endpoint, and a leg to it.

A name has to be looked up, and meanwhile the world may change: another node is active, the listener serves another
pool, the session is over. So the choice is looked at again after the wait, and made anew if it no longer stands.
"""

import contextlib
import enum
import logging
from collections.abc import Callable

import attrs
import trio

from ..address import Address
from ..config.schema import NodeConfig, Transport
from ..errors import ConnectFailed, LocalShortage, NameUnresolved
from ..net.ports import DatagramConn
from ..net.relay import EndReason
from ..state.events import FailureKind
from ..state.model import Endpoint, Route, RouteKey
from .leases import LeaseBook
from .legs import Legs
from .repeats import Repeats
from .services import Services
from .sessions import Leg, Session
from .tcp import Settings

log = logging.getLogger("sniffgate")

LINES_PER_S = 1  # of one trouble: every client of a flood meets the same


class _Outcome(enum.Enum):
    OPEN = "open"
    FAILED = "failed"  # another node may do
    STALE = "stale"  # the choice no longer stands


@attrs.frozen(kw_only=True)
class _Choice:
    """A node for a session, and the route as it was when it was chosen."""

    node: NodeConfig
    route: Route
    trial_until: float | None = None  # Trio's clock; the session holds the token of an endpoint in probation
    doubted: bool = False  # it refused at one of its addresses; is there another?

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(self.node.name, Transport.UDP)


class Openings:
    """Opens legs, one task per session that needs one."""

    def __init__(
        self,
        services: Services,
        leases: LeaseBook,
        openers: trio.Nursery,
        settings: Settings,
        legs: Legs,
        end: Callable[[Session, EndReason], None],
    ) -> None:
        """`openers` holds the tasks, and the keepers of leases."""
        self._services = services
        self._leases = leases
        self._openers = openers
        self._settings = settings
        self._legs = legs
        self._end = end
        self._told: Repeats[tuple[int, str]] = Repeats(LINES_PER_S)

    def open_soon(self, session: Session) -> None:
        """Starts looking for a leg, unless that is under way."""
        if not session.opening:
            session.opening = True
            self._openers.start_soon(self._open, session)

    async def _open(self, session: Session) -> None:
        """Gives a session a leg; the session ends when there is none to be had."""
        outcome: EndReason | None = EndReason.SHUTDOWN  # unless it is cancelled
        work = self._services.containing("a UDP session")
        try:
            with work:
                outcome = await self._find(session)
        finally:
            session.opening = False
            if work.crashed:
                self._end(session, EndReason.CRASHED)
            elif outcome is not None:
                self._end(session, outcome)

    async def _find(self, session: Session) -> EndReason | None:
        """None when the session has a leg (or is over), else why it cannot have one."""
        ledger, tried = self._services.ledger, set(session.refused_by)
        while not session.ended:
            choice = self._choose(session, tried)
            if choice is None:
                return EndReason.NO_NODE
            ledger.enter(choice.route.key, choice.node.name)  # now: others who choose meanwhile have to see it
            outcome = _Outcome.FAILED
            try:
                outcome = await self._try(session, choice)
            except LocalShortage as error:
                ledger.shortages["connect"] += 1
                self._tell(logging.WARNING, "cannot open a UDP session", error)
                return EndReason.LOCAL_SHORTAGE
            finally:
                if outcome is not _Outcome.OPEN:
                    ledger.leave(choice.route.key, choice.node.name)
                    if choice.trial_until is not None:
                        ledger.end_trial(choice.endpoint)
            if outcome is _Outcome.OPEN:
                return None
            if outcome is _Outcome.FAILED:
                tried.add(choice.node.name)
            elif choice.doubted:
                session.doubted = choice.node.name
        return None

    def _choose(self, session: Session, tried: set[str]) -> _Choice | None:
        """The next node for a session; None when there is none left."""
        services = self._services
        route = services.board.state.routes.get(self._route_key())
        if route is None:  # a reload took the pool away
            return None
        doubted, session.doubted = session.doubted, None
        if doubted is not None:
            node = services.board.state.config.node(doubted)
            if node is not None and doubted in (*route.active, *route.standbys, route.trial):
                return _Choice(node=node, route=route, doubted=True)
        until = None if tried or session.had_leg else self._take_trial(route)
        name = services.ledger.choose(route, tried) if until is None else route.trial
        node = services.board.state.config.node(name) if name is not None else None
        return None if node is None else _Choice(node=node, route=route, trial_until=until)

    def _route_key(self) -> RouteKey:
        return RouteKey(self._settings().pool, Transport.UDP)

    def _take_trial(self, route: Route) -> float | None:
        """Until when (Trio's clock) a new session may prove the endpoint in probation; None when it may not."""
        services = self._services
        if route.trial is None:
            return None
        lasting = services.board.state.config.globals.probe_timeout
        if services.ledger.take_trial(Endpoint(route.trial, Transport.UDP), services.clock.now(), lasting):
            return trio.current_time() + lasting
        return None

    async def _try(self, session: Session, choice: _Choice) -> _Outcome:
        """Starts a leg at the chosen node. Errors: `LocalShortage`."""
        services, node, endpoint = self._services, choice.node, choice.endpoint
        assert node.udp is not None
        try:
            addresses = await services.names.addresses(node.udp)
        except NameUnresolved as error:
            self._tell(logging.INFO, f"no address for {endpoint}", error)
            return _Outcome.FAILED
        if session.ended or not self._still_stands(choice):
            return _Outcome.STALE
        fresh = tuple(address for address in addresses if address not in session.refused_at)
        if choice.doubted and not fresh:
            self._legs.blame(session, endpoint, FailureKind.REFUSED)
            return _Outcome.FAILED
        conn = self._connect(fresh or addresses)
        if conn is None:
            self._legs.blame(session, endpoint, FailureKind.UNREACHABLE)
            return _Outcome.FAILED
        state, key = services.board.state, choice.route.key
        lease = self._leases.lease_for(state, endpoint, node.udp, conn.peer, state.config.pool(key.pool), self._openers)
        leg = Leg(session, endpoint, key, lease, conn, trio.current_time(), choice.trial_until)
        if not lease.start(self._legs.run, leg):
            conn.close()
            return _Outcome.FAILED
        session.take_leg(leg)
        self._legs.flush(session, leg)
        return _Outcome.OPEN

    def _still_stands(self, choice: _Choice) -> bool:
        """Whether the node would be chosen still: nothing moved, or it is in the active set as it was configured."""
        state, key = self._services.board.state, self._route_key()
        route, name = state.routes.get(key), choice.node.name
        if key != choice.route.key or route is None or state.config.node(name) != choice.node:
            return False
        return route == choice.route or name in route.active

    def _connect(self, addresses: tuple[Address, ...]) -> DatagramConn | None:
        """A socket to the first address that there is a way to. Errors: `LocalShortage`."""
        for address in addresses:
            with contextlib.suppress(ConnectFailed):
                return self._services.network.connect_udp(address)
        return None

    def _tell(self, level: int, trouble: str, error: Exception) -> None:
        for (old_level, old), more in self._told.ended(trio.current_time()):
            log.log(old_level, "%s: %d times more", old, more)
        if self._told.admits((level, trouble)):
            log.log(level, "%s: %s", trouble, error)
