"""TCP clients: accept them, find each a node that takes it, hand both to a flow inside the endpoint's lease.

Nothing is read from a client before its node is connected: until then the kernel's buffer holds what it says, so no
byte can go to two nodes and none is lost.
"""

import logging
from collections.abc import Callable

import trio

from ..config.schema import ListenerConfig
from ..errors import LocalShortage
from ..net.ports import Acceptor, Conn
from ..net.relay import EndReason
from ..state.model import State
from .leases import LeaseBook
from .search import Searches
from .services import Services, Slots
from .shortcuts import Shortcuts
from .tcp_flow import Arrival, Offer, record

log = logging.getLogger("sniffgate")

STARVED_PAUSE = 0.1  # seconds between accepts while descriptors are short, as trio.serve_listeners has it
BATCH = 8  # clients taken in before others get their turn: each costs some 100 us
BACKLOG = 4096  # net.core.somaxconn, which bounds every backlog

Settings = Callable[[], ListenerConfig]  # the listener's configuration as it is now: a reload may change it


class TcpIntake:
    """The TCP side of one listener."""

    def __init__(
        self, services: Services, leases: LeaseBook, slots: Slots, arrivals: trio.Nursery, settings: Settings
    ) -> None:
        """`arrivals` holds the clients without a node, the tries to connect and the keepers of leases."""
        self._services = services
        self._leases = leases
        self._slots = slots
        self._arrivals = arrivals
        self._settings = settings
        self._shortcuts = Shortcuts(services, leases, slots, settings, self._take_in, self._leave)
        self._searches = Searches(services, leases, arrivals, settings, self._leave, self._shortcuts.heard)

    async def serve_forever(self, acceptor: Acceptor) -> None:
        """Accepts clients until cancelled; full slots leave them in the kernel's backlog."""
        while True:
            await self._slots.wait_room()
            try:
                if await self._shortcuts.serve(acceptor):
                    continue
                self._take_in(await acceptor.accept())
                for _ in range(BATCH - 1):
                    if self._slots.has_no_room or (client := acceptor.accept_nowait()) is None:
                        break
                    self._take_in(client)
            except LocalShortage as error:
                self._services.ledger.shortages["accept"] += 1
                log.warning("cannot accept: %s", error)
                await trio.sleep(STARVED_PAUSE)

    async def take_rest(self, acceptor: Acceptor) -> None:
        """Takes in the clients that wait already: closing the socket would reset them. No more than a backlog holds."""
        for taken in range(BACKLOG):
            try:
                client = acceptor.accept_nowait()
            except LocalShortage:
                return
            if client is None:
                return
            self._take_in(client)
            if taken % BATCH == BATCH - 1:
                await trio.lowlevel.checkpoint()

    def follow(self, state: State) -> None:
        """Cancels the tries at endpoints that may not be used any more; their clients are routed again."""
        self._searches.follow(state)
        self._shortcuts.follow()

    def _take_in(self, client: Conn, offer: Offer | None = None) -> None:
        """Starts the flow of a client whose node takes it at once, or else a task for it. Synchronous: none is lost."""
        began = self._services.clock.now() if offer is None else self._services.clock.at(offer.since)
        arrival = Arrival(client, self._settings(), began, offer=offer)
        arrival.has_slot = self._slots.take_nowait()
        if arrival.has_slot:
            with self._services.containing("a TCP client"):
                if self._searches.start_at_once(arrival):
                    return
        self._arrivals.start_soon(self._welcome, arrival)

    async def _welcome(self, arrival: Arrival) -> None:
        """Finds a node for a client and starts its flow; the client is reset when there is none."""
        outcome: EndReason | None = EndReason.CRASHED
        cancelled = True
        try:
            with self._services.containing("a TCP client"):
                if not arrival.has_slot:  # another listener took the last one at the same moment
                    await self._slots.take()
                    arrival.has_slot = True
                outcome = await self._searches.find_node(arrival)
            cancelled = False
        finally:
            self._searches.end(arrival)
            if cancelled:
                outcome = self._leases.closing or EndReason.SHUTDOWN
            if outcome is not None:
                arrival.client.abort()
                self._leave(arrival)
                if outcome is EndReason.NO_NODE:
                    self._services.incidents.lost(arrival.route)
                record(self._services, arrival, outcome)

    def _leave(self, arrival: Arrival) -> None:
        if arrival.has_slot:
            self._slots.give_back()
