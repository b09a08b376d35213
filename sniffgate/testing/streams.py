"""A connection as the stream that Trio's own functions give: for clients that know nothing of sniffgate."""

import trio

from ..errors import PeerReset
from ..net.ports import Conn

CHUNK = 65536


class ConnStream(trio.abc.HalfCloseableStream):
    """A `trio.abc.HalfCloseableStream` of a `Conn`, on either network. *Closes:* it."""

    def __init__(self, conn: Conn) -> None:
        self.conn = conn

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Waits for data; b"" at the end of stream. Errors: `trio.BrokenResourceError` on a reset."""
        try:
            return await self.conn.receive_some(max_bytes or CHUNK)
        except PeerReset as error:
            raise trio.BrokenResourceError(str(error)) from error

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Sends it all. Errors: `trio.BrokenResourceError` on a reset."""
        try:
            await self.conn.send_all(data)
        except PeerReset as error:
            raise trio.BrokenResourceError(str(error)) from error

    async def wait_send_all_might_not_block(self) -> None:
        """Returns at once, as streams may that cannot tell."""
        await trio.lowlevel.checkpoint()

    async def send_eof(self) -> None:
        """Ends our direction; receiving goes on."""
        await self.conn.send_eof()

    async def aclose(self) -> None:
        """Closes it, and is then a checkpoint."""
        self.conn.close()
        await trio.lowlevel.checkpoint()
