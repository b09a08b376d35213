"""Who connects to which node for which client, and how often that may be: rules that `sniffgate.simulation` lacks."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from types import TracebackType

import attrs
import trio

from sniffgate.address import Address
from sniffgate.net.ports import Acceptor, Conn, Connecting, DatagramConn, DatagramPort
from sniffgate.simulation.reach import DUST
from sniffgate.testing.connecting import VirtualConnecting
from sniffgate.testing.virtual import VirtualHost
from tests.tasks.history import INF

_client: ContextVar[Address | None] = ContextVar("client", default=None)


# --- tries: who connects to which node for which client -------------------------------------------


@attrs.define(eq=False)
class Try:
    """One connect of the gateway for a client."""

    node: Address
    began: float
    ended: float = INF
    ok: bool = False
    given_up: bool = False  # cancelled: its endpoint fell, or its time was over
    pool: str = ""
    beside: bool = False  # begun beside another one, and not because one had failed
    conn: Conn | None = None


class Watched:
    """The gateway's network, on which each connect knows the client it is for: the task inherits it from the accept."""

    def __init__(self, host: VirtualHost, pool_of: Callable[[str], str]) -> None:
        self._host = host
        self._pool_of = pool_of
        self.tries: dict[Address, list[Try]] = defaultdict(list)
        self.accepted: list[tuple[float, Address]] = []

    async def look_up(self, host: str) -> tuple[str, ...]:
        return await self._host.look_up(host)

    async def listen_tcp(self, address: Address) -> Acceptor:
        return _WatchedAcceptor(await self._host.listen_tcp(address), self.accepted)

    async def listen_udp(self, address: Address) -> DatagramPort:
        return await self._host.listen_udp(address)

    async def connect_tcp(self, address: Address, *, user_timeout: float = 0.0) -> Conn:
        return await self.begin_connect(address, user_timeout=user_timeout).wait()

    def begin_connect(self, address: Address, *, user_timeout: float = 0.0) -> Connecting:
        client = _client.get()
        if client is None:  # a probe or a tripwire
            return self._host.begin_connect(address, user_timeout=user_timeout)
        return VirtualConnecting(lambda: self._connect_for(client, address, user_timeout))

    async def _connect_for(self, client: Address, address: Address, user_timeout: float) -> Conn:
        others, now = self.tries[client], trio.current_time()
        after_failure = any(each.ended == now and not each.ok for each in others)
        this = Try(
            address,
            now,
            pool=self._pool_of(address.host),
            beside=any(each.ended == INF for each in others) and not after_failure,
        )
        others.append(this)
        try:
            this.conn = await self._host.connect_tcp(address, user_timeout=user_timeout)
            this.ok = True
        except trio.Cancelled:
            this.given_up = True
            raise
        finally:
            this.ended = trio.current_time()
        return this.conn

    def connect_udp(self, address: Address) -> DatagramConn:
        return self._host.connect_udp(address)


class _WatchedAcceptor:
    def __init__(self, acceptor: Acceptor, accepted: list[tuple[float, Address]]) -> None:
        self._acceptor = acceptor
        self._accepted = accepted

    @property
    def address(self) -> Address:
        return self._acceptor.address

    async def accept(self) -> Conn:
        return self._known(await self._acceptor.accept())

    def accept_nowait(self) -> Conn | None:
        conn = self._acceptor.accept_nowait()
        return None if conn is None else self._known(conn)

    def _known(self, conn: Conn) -> Conn:
        _client.set(conn.peer)
        self._accepted.append((trio.current_time(), conn.peer))
        return conn

    def close(self) -> None:
        self._acceptor.close()

    def __enter__(self) -> "_WatchedAcceptor":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()


def too_many_tries(network: Watched, most: int, connect_timeout: float) -> Iterator[str]:
    """No client costs more than `connect_retry` nodes a connect.

    A try that was given up because its endpoint fell is not counted: before its time, or just when it had connected,
    which is why of those that connected only the last one counts.
    """
    for client, tries in network.tries.items():
        connected = [each.node for each in tries if each.ok]
        counted = {
            each.node
            for each in tries
            if not each.ok and (each.ended - each.began >= connect_timeout or not each.given_up)
        }
        counted.update(connected[-1:])
        if len(counted) > most:
            yield f"client {client.port} was tried at {len(counted)} nodes, more than {most}"
        nodes = [each.node for each in tries]
        if len(nodes) != len(set(nodes)):
            yield f"client {client.port} was tried at one node twice"


def too_many_hedges(network: Watched) -> Iterator[str]:
    """At most a tenth of a route's new flows, and at least three, are hedged within ten seconds."""
    hedges = [each for tries in network.tries.values() for each in tries if each.beside]
    for first in hedges:
        count = sum(first.began <= each.began < first.began + 10 - DUST and each.pool == first.pool for each in hedges)
        flows = sum(first.began - 12 <= when < first.began + 10 for when, _ in network.accepted)
        if count > max(3, 0.1 * flows):
            yield f"{count} hedges within ten seconds of {first.began:.3f}, with {flows} flows"
