"""Flows that the engine begins by itself, with an owner that keeps account of what it was told."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import cast

import attrs
import trio

from sniffgate.address import Address
from sniffgate.net.engine import EngineRelay
from sniffgate.net.engine_direct import begin_flow
from sniffgate.net.ports import Conn, Connecting
from sniffgate.net.relay import Counters, EndReason, RelayLimits
from sniffgate.net.shortcut import PATIENCE, FlowGroup, Shortcut, TakenFlow
from sniffgate.net.tcp_sockets import SocketConn

NOWHERE = Address("127.0.0.1", 9)


@attrs.define(eq=False)
class Owner:
    """Keeps what it is told, in order, as (what, flow)."""

    nursery: trio.Nursery | None = None
    told: list[tuple[str, TakenFlow]] = attrs.field(factory=list)
    reasons: list[EndReason | None] = attrs.field(factory=list)
    given_back: list[tuple[Conn, Connecting, float]] = attrs.field(factory=list)
    on_first_byte: Callable[[], None] | None = None
    over: trio.Event = attrs.field(factory=trio.Event)  # a flow has ended

    def begun(self, flow: TakenFlow) -> None:
        """See `FlowOwner.begun`."""
        self.told.append(("begun", flow))

    def heard(self, flow: TakenFlow) -> None:
        """See `FlowOwner.heard`."""
        self.told.append(("heard", flow))
        if self.on_first_byte is not None:
            self.on_first_byte()

    def ended(self, flow: TakenFlow, reason: EndReason | None) -> None:
        """See `FlowOwner.ended`."""
        self.told.append(("ended", flow))
        self.reasons.append(reason)
        self.over.set()

    def lost(
        self,
        flow: TakenFlow,
        reason: EndReason,
        wait_delivered: Callable[[], Awaitable[None]],
        say_farewell: Callable[[], None],
    ) -> None:
        """See `FlowOwner.lost`."""
        assert self.nursery is not None
        self.nursery.start_soon(self._see_off, flow, reason, wait_delivered, say_farewell)

    async def _see_off(
        self,
        flow: TakenFlow,
        reason: EndReason,
        wait_delivered: Callable[[], Awaitable[None]],
        say_farewell: Callable[[], None],
    ) -> None:
        try:
            await wait_delivered()
        finally:
            say_farewell()
            self.ended(flow, reason)

    def returned(self, client: Conn, begun: Connecting, since: float) -> None:
        """See `FlowOwner.returned`."""
        self.given_back.append((client, begun, since))

    def words(self, flow: TakenFlow) -> list[str]:
        """What was told of a flow."""
        return [word for word, which in self.told if which is flow]


def shortcut_to(
    address: Address,
    owner: Owner,
    *,
    limits: RelayLimits | None = None,
    group: FlowGroup | None = None,
    stands: Callable[[], bool] = lambda: True,
    room: Callable[[], float] = lambda: float("inf"),
    patience: float = PATIENCE,
) -> Shortcut:
    """A shortcut that stands, with room for everybody unless said otherwise."""
    return Shortcut(
        address=address,
        user_timeout=0.0,
        limits=limits or RelayLimits(),
        group=group or FlowGroup(),
        owner=owner,
        stands=stands,
        room=room,
        patience=patience,
    )


class DirectRelay(EngineRelay):
    """The engine, with each flow begun as those of a shortcut are."""

    async def relay(
        self,
        client: Conn,
        node: Conn,
        counters: Counters,
        limits: RelayLimits,
        on_first_byte: Callable[[], None] | None = None,
    ) -> EndReason:
        """See `Relay.relay`."""
        async with trio.open_nursery() as nursery:
            owner = Owner(nursery, on_first_byte=on_first_byte)
            shortcut = shortcut_to(NOWHERE, owner, limits=limits)
            ends = (cast("SocketConn", client), cast("SocketConn", node))
            self.loop.call(partial(begin_flow, self.loop, shortcut, *ends, counters, 0.0))
            nursery.start_soon(self.hold, shortcut.group)
            await owner.over.wait()
            nursery.cancel_scope.cancel()
        (reason,) = owner.reasons
        if reason is EndReason.CRASHED:
            raise RuntimeError("the relay engine met a bug in this flow")
        assert reason is not None
        return reason
