"""What a client says on a connection and what it hears, on either network."""

from typing import NamedTuple

import trio

from ..errors import PeerReset
from ..net.ports import Conn, DatagramConn
from .moments import now

LONGEST = 65536  # bytes of an answer
PATIENCE = (
    300.0  # seconds of Trio's clock for an answer: with probes under way, a virtual wait would never end by itself
)
LIFETIME = 3600.0  # the same for a connection's end


class Ending(NamedTuple):
    """How a connection ended: `how` is "end of stream" or "reset", `at` the moment, as `now` has it."""

    how: str
    at: float


async def exchange(conn: Conn | DatagramConn, data: bytes = b"hi") -> bytes:
    """Sends `data` and returns the next chunk or datagram that comes.

    b"" is the end of a TCP connection. Errors: `PeerReset` or `DatagramRefused`, and `trio.TooSlowError` after 300 s.
    """
    with trio.fail_after(PATIENCE):
        if isinstance(conn, DatagramConn):
            conn.send_nowait(data)
            return await conn.receive()
        await conn.send_all(data)
        return await conn.receive_some(LONGEST)


async def ending(conn: Conn) -> Ending:
    """How and when a connection ends, whatever comes before. Errors: `trio.TooSlowError` after an hour."""
    try:
        with trio.fail_after(LIFETIME):
            while await conn.receive_some(LONGEST):
                pass
    except PeerReset:
        return Ending("reset", now())
    return Ending("end of stream", now())


async def silence(conn: Conn | DatagramConn, seconds: float = 0.001) -> bool:
    """Whether nothing comes for that long: no data, and no end."""
    with trio.move_on_after(seconds) as patience:
        if isinstance(conn, DatagramConn):
            await conn.receive()
        else:
            await conn.receive_some(LONGEST)
    return patience.cancelled_caught
