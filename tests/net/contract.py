"""The promises of `sniffgate/net/ports.py`, as scenarios that any network must pass.

`PROMISES` maps a promise's name to an async function of one network. A scenario uses only the ports, literal loopback
addresses and `localhost`, so the kernel's network and the virtual one answer the same questions. Scenarios live in
`contract_tcp.py`, `contract_endings.py`, `contract_listen.py` and `contract_udp.py`; importing those fills `PROMISES`.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import trio

from sniffgate.address import Address
from sniffgate.net.ports import Acceptor, Conn, Network

HOST = "127.0.0.1"
HOST6 = "::1"
ANY_PORT = Address(HOST, 0)
ANY_PORT6 = Address(HOST6, 0)
QUIET = 0.1
"""Seconds without news after which a scenario believes that none will come."""
MORE_THAN_ALL_BUFFERS = 32 * 1024 * 1024

Promise = Callable[[Network], Awaitable[None]]
PROMISES: dict[str, Promise] = {}


def promise(scenario: Promise) -> Promise:
    """Enters a scenario into the contract under its function's name."""
    name = scenario.__name__
    assert name not in PROMISES, f"two promises are called {name}"
    PROMISES[name] = scenario
    return scenario


@asynccontextmanager
async def connected(network: Network, address: Address = ANY_PORT) -> AsyncIterator[tuple[Conn, Conn]]:
    """One established connection: the end that connected and the end that accepted, both closed afterwards."""
    with await network.listen_tcp(address) as acceptor:
        client, server = await connect_to(network, acceptor)
        with client, server:
            yield client, server


async def connect_to(network: Network, acceptor: Acceptor) -> tuple[Conn, Conn]:
    """Connects to `acceptor` and accepts: the two ends."""
    client = await network.connect_tcp(acceptor.address)
    return client, await acceptor.accept()


async def receive_exactly(conn: Conn, size: int) -> bytes:
    """Receives `size` bytes; fewer only at an end of stream."""
    got = bytearray()
    while len(got) < size and (chunk := await conn.receive_some(size - len(got))):
        got += chunk
    return bytes(got)


async def receive_to_end(conn: Conn) -> bytes:
    """Receives up to the end of stream."""
    got = bytearray()
    while chunk := await conn.receive_some(65536):
        got += chunk
    return bytes(got)


async def until(condition: Callable[[], bool]) -> None:
    """Returns once `condition` holds; looked at again and again, since kernels announce nothing of the kind."""
    while not condition():  # noqa: ASYNC110  # a kernel sets no trio.Event
        await trio.sleep(0.001)


async def acknowledged(conn: Conn) -> None:
    """Returns once the peer's machine has everything that was sent."""
    await until(lambda: conn.unsent() == 0)


async def unserved(network: Network, address: Address = ANY_PORT) -> Address:
    """A TCP address where nobody listens (any more)."""
    with await network.listen_tcp(address) as acceptor:
        return acceptor.address


async def unserved_udp(network: Network, address: Address = ANY_PORT) -> Address:
    """A UDP address where nobody listens (any more)."""
    with await network.listen_udp(address) as port:
        return port.address
