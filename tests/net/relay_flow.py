"""A relayed flow with both peers in the test's hands, and what the tests do with them."""

import enum
import hashlib
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import attrs
import pytest
import trio

from sniffgate.address import Address
from sniffgate.errors import PeerReset
from sniffgate.net.ports import Conn, Network
from sniffgate.net.relay import Counters, EndReason, Relay, RelayLimits

MB = 1_000_000
UNLIMITED = RelayLimits(idle=0.0, half_close=300.0)


class End(enum.Enum):
    """How a stream ended, as its reader saw it."""

    EOF = "eof"
    RESET = "reset"


@attrs.frozen
class World:
    """A network to run a flow on. On the virtual one times are exact, on real sockets they are bounds."""

    network: Network
    exact: bool

    @property
    def limit(self) -> float:
        """Seconds that a test may take: a hang is a failure. Virtual ones cost nothing until something polls."""
        return 100.0 if self.exact else 10.0


@attrs.define
class Flow:
    """A flow being relayed. `client` and `node` are the peers' own ends, in the test's hands."""

    client: Conn
    node: Conn
    counters: Counters = attrs.field(factory=Counters)
    cut: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    reason: EndReason | None = None
    ended: trio.Event = attrs.field(factory=trio.Event)
    ended_at: float = 0.0

    @property
    def moved(self) -> tuple[int, int]:
        """The bytes counted so far, up and down."""
        return self.counters.up, self.counters.down

    def has_moved(self, up: int, down: int) -> bool:
        """Whether exactly so many bytes were counted."""
        return (up, down) == self.moved

    async def wait_reason(self) -> EndReason | None:
        """Returns the reason once the relay has returned; None when it was cut."""
        await self.ended.wait()
        return self.reason


async def connect_pair(network: Network) -> tuple[Conn, Conn]:
    """One connection: the end that connected, and the end that was accepted."""
    async with trio.open_nursery() as nursery:
        with await network.listen_tcp(Address("127.0.0.1", 0)) as acceptor:
            accepted: list[Conn] = []

            async def accept() -> None:
                accepted.append(await acceptor.accept())

            nursery.start_soon(accept)
            connected = await network.connect_tcp(acceptor.address)
            await wait_until(lambda: bool(accepted))
    return connected, accepted[0]


@asynccontextmanager
async def relayed(
    relay: Relay,
    world: World,
    limits: RelayLimits = UNLIMITED,
    on_first_byte: Callable[[Flow], None] | None = None,
) -> AsyncIterator[Flow]:
    """Relays a flow between two fresh connections for the length of the block."""
    with trio.fail_after(world.limit):
        client, client_inside = await connect_pair(world.network)
        node_inside, node = await connect_pair(world.network)
        flow = Flow(client, node)

        async def run() -> None:
            callback = None if on_first_byte is None else lambda: on_first_byte(flow)
            try:
                with flow.cut:
                    flow.reason = await relay.relay(client_inside, node_inside, flow.counters, limits, callback)
            finally:
                flow.ended_at = trio.current_time()
                flow.ended.set()

        with client, node, client_inside, node_inside:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(run)
                yield flow
                nursery.cancel_scope.cancel()


async def read_to_end(conn: Conn, max_bytes: int = 65536) -> tuple[bytes, End]:
    """Everything that still comes, and how it ended."""
    received = bytearray()
    try:
        while chunk := await conn.receive_some(max_bytes):
            received += chunk
    except PeerReset:
        return bytes(received), End.RESET
    return bytes(received), End.EOF


async def read_exactly(conn: Conn, size: int) -> bytes:
    """The next `size` bytes."""
    received = b""
    while len(received) < size:
        chunk = await conn.receive_some(size - len(received))
        assert chunk, "the stream ended early"
        received += chunk
    return received


async def wait_acknowledged(conn: Conn) -> None:
    """Returns when all that was sent has reached the other machine, so that a reset no longer destroys it."""
    await wait_until(lambda: not conn.unsent())


async def wait_until(condition: Callable[[], bool]) -> None:
    """Returns when the condition holds."""
    while not condition():  # noqa: ASYNC110 (a kernel's send queue and plain counters have no event)
        await trio.sleep(0.001)


async def fill(conn: Conn) -> None:
    """Sends until cancelled or reset."""
    try:
        while True:
            await conn.send_all(bytes(65536))
    except PeerReset:
        pass


async def wait_stalled(flow: Flow) -> None:
    """Returns when the flow's bytes stopped moving: every buffer on the way is full."""
    while True:
        before = flow.moved
        await trio.sleep(0.15)
        if before == flow.moved and any(before):
            return


async def send_in_pieces(conn: Conn, content: bytes, seed: int) -> None:
    """Sends all of `content` in chunks of random sizes."""
    dice = random.Random(seed)
    rest = memoryview(content)
    while rest:
        size = dice.choice((1, 100, 1460, 65536, 300_000))
        await conn.send_all(rest[:size])
        rest = rest[size:]


def digest(content: bytes) -> str:
    """A short stand-in for megabytes in an assertion's message."""
    return f"{len(content)} bytes, {hashlib.sha256(content).hexdigest()[:16]}"


def noise(size: int, seed: int) -> bytes:
    """The same random bytes each time."""
    return random.Random(seed).randbytes(size)


async def read_digest(conn: Conn, size: int) -> str:
    """The digest of the next `size` bytes, without keeping them."""
    state, left = hashlib.sha256(), size
    while left:
        chunk = await conn.receive_some(min(left, 65536))
        assert chunk, "the stream ended early"
        state.update(chunk)
        left -= len(chunk)
    return f"{size} bytes, {state.hexdigest()[:16]}"


def assert_lasted(expected: float, seconds: float, world: World) -> None:
    """Checks a duration: exactly on the virtual network, as a bound on real sockets."""
    if world.exact:
        assert pytest.approx(expected, abs=1e-9) == seconds
    else:
        assert expected - 0.01 <= seconds < expected + 1.0
