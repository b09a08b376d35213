"""The gateway under test: its own commands, its nodes, and what a client needs."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import attrs
import trio

from ..address import Address
from ..config.schema import Config, Transport
from ..errors import ConnectFailed
from ..net.ports import Conn, DatagramConn, Network
from ..state.model import Endpoint, Health, Mark, State
from ..tasks.gateway import Gateway
from ..tasks.leases import LeaseView
from .backends import Node
from .faults import FaultyNode
from .real_node import RealNode
from .streams import ConnStream
from .talking import exchange
from .timeline import Timeline
from .virtual import VirtualHost, VirtualNetwork


class GatewayCrashed(AssertionError):
    """Something inside the gateway crashed and was contained: traffic went on, and it is a bug all the same."""


@attrs.define(eq=False)
class GatewayUnderTest:
    """A running gateway with everything around it; see `open_gateway` and `open_real_gateway`.

    `gateway` is the gateway itself, `nodes` are its backends by name, `client` is the network as a client's machine
    sees it, `timeline` tells what happened. Tasks in `nursery` end with the gateway's block. The operator's commands
    are those of `Gateway`.
    """

    gateway: Gateway
    client: Network
    timeline: Timeline
    nursery: trio.Nursery
    nodes: Mapping[str, FaultyNode] = attrs.field(factory=lambda: MappingProxyType({}))
    expected_crashes: int = 0  # contained ones that the test provokes
    ended: trio.Event = attrs.field(factory=trio.Event)
    host: str = "127.0.0.1"  # the gateway's machine, where a listener has every address

    # --- a client ---------------------------------------------------------------------------------

    def address(self, listener: str | None = None, transport: Transport | None = None) -> Address:
        """Where to reach a listener; without a name the first (of `transport`). Errors: `LookupError`."""
        for each in self.gateway.listeners.values():
            settings = each.settings
            if listener in (None, settings.name) and transport in (None, settings.protocol):
                host = self.host if each.address.is_wildcard else each.address.host
                return Address(host, each.address.port)
        raise LookupError(f"no {transport.value + ' ' if transport else ''}listener {listener or ''}".rstrip())

    async def connect(self, listener: str | None = None) -> Conn:
        """A TCP connection of a client. Errors: as `Network.connect_tcp`."""
        return await self.client.connect_tcp(self.address(listener, Transport.TCP))

    async def open_stream(self, listener: str | None = None) -> ConnStream:
        """The same as Trio's kind of stream, for a client that takes one. Errors: `OSError`, as `open_tcp_stream`."""
        try:
            return ConnStream(await self.connect(listener))
        except ConnectFailed as error:
            raise OSError(str(error)) from error

    def datagrams(self, listener: str | None = None) -> DatagramConn:
        """A UDP socket of a client, connected to a listener."""
        return self.client.connect_udp(self.address(listener, Transport.UDP))

    async def ask(self, data: bytes = b"hi", listener: str | None = None) -> bytes:
        """Connects, sends `data` and returns the first chunk of the answer; b"" when the connection was ended.

        Errors: as `connect` and `exchange`.
        """
        with await self.connect(listener) as conn:
            return await exchange(conn, data)

    async def query(self, data: bytes = b"hi", listener: str | None = None) -> bytes:
        """Sends one datagram from a new port and returns the answer. Errors: as `exchange`."""
        with self.datagrams(listener) as conn:
            return await exchange(conn, data)

    # --- draining ---------------------------------------------------------------------------------

    def leases(self) -> tuple[LeaseView, ...]:
        """The flows in progress, by listener and endpoint, with the deadlines that they have (on Trio's clock)."""
        return self.gateway.leases()

    async def drain(self, node: str, timeout: float | None = None, *, deadline: float | None = None) -> State:
        """Takes `node` out; its flows may finish within `timeout`, or until `deadline`, or the sooner of both.

        `timeout` is seconds from now: `drain("a", 3)`. `deadline` is a moment of `trio.current_time()`, as a scope's:
        `drain("a", deadline=scope.deadline)`; one that is past cuts them at once. With neither, as configured.
        """
        if deadline is not None:
            left = max(0.0, deadline - trio.current_time())
            timeout = left if timeout is None else min(timeout, left)
        return await self.gateway.drain(node, timeout)

    async def stop(self, grace: float | None = None) -> None:
        """Stops taking clients, and returns when the last flow has ended; after `grace` seconds they are cut."""
        self.gateway.stop(grace)
        await self.ended.wait()

    async def stop_within(self, scope: trio.CancelScope) -> None:
        """Enters `scope`, which has not been entered yet, and drains inside it; returns when the gateway has ended.

        Flows are told the scope's deadline when it begins. Should the scope be cancelled earlier, they are cut then.
        """
        with scope:
            self.gateway.stop(max(0.0, scope.deadline - trio.current_time()))
            await self.ended.wait()
        if scope.cancelled_caught:
            self.gateway.stop(0.0)
            await self.ended.wait()

    # --- the gateway's own ------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """The state as published last."""
        return self.gateway.state

    def health(self, node: str, transport: Transport = Transport.TCP) -> Health:
        """The published health of one endpoint: its verdict, and the evidence for it. Errors: `KeyError`."""
        return self.gateway.state.health[Endpoint(node, transport)]

    @property
    def addresses(self) -> Mapping[str, Address]:
        """Where each listener is bound, with its real port."""
        return self.gateway.addresses

    async def wait_for(self, predicate: Callable[[State], bool]) -> State:
        """The first published state that `predicate` is true of."""
        return await self.gateway.wait_for(predicate)

    async def switch(self, node: str, transport: Transport | None = None) -> State:
        """Pins `node`."""
        return await self.gateway.switch(node, transport)

    async def release(self, transport: Transport | None = None) -> State:
        """Back to automatic choice."""
        return await self.gateway.release(transport)

    async def enable(self, node: str) -> State:
        """Lets `node` have traffic; undoes `disable` and `drain`."""
        return await self.gateway.enable(node)

    async def disable(self, node: str) -> State:
        """Keeps new traffic from `node`."""
        return await self.gateway.disable(node)

    async def mark(self, node: str, mark: Mark | None) -> State:
        """Declares `node` up or down whatever the evidence says; None gives it back to the evidence."""
        return await self.gateway.mark(node, mark)

    async def apply(self, config: Config) -> State:
        """Puts another configuration in force. Nodes that it adds are for the test to start."""
        return await self.gateway.apply(config)

    def fail_on_crashes(self) -> None:
        """Errors: `GatewayCrashed` when other than the expected number of crashes was contained."""
        count, crashes = self.gateway.ledger.crashes, self.gateway.services.crashes
        if count != self.expected_crashes:
            cause = BaseExceptionGroup("contained in the gateway", crashes) if crashes else None
            expected = f" (expected: {self.expected_crashes})" if self.expected_crashes else ""
            raise GatewayCrashed(f"the gateway contained {count} crash(es){expected}") from cause


@attrs.define(eq=False)
class VirtualGateway(GatewayUnderTest):
    """A gateway on a virtual network, with what is to be seen there alone: see `open_gateway`.

    `flow_log` has the flow log's lines so far, if the configuration asks for any (`flow_log = "all"`).
    """

    client: VirtualHost = attrs.field(kw_only=True)
    nodes: Mapping[str, Node] = attrs.field(kw_only=True)
    network: VirtualNetwork = attrs.field(kw_only=True)
    flow_log: list[str] = attrs.field(factory=list, kw_only=True)


@attrs.define(eq=False)
class RealGateway(GatewayUnderTest):
    """A gateway on this machine, its nodes being processes: see `open_real_gateway`."""

    nodes: Mapping[str, RealNode] = attrs.field(kw_only=True)
