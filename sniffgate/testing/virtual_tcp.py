"""A TCP connection of the virtual network, as an application has it."""

import trio

from ..address import Address
from ..errors import PeerReset, Side
from .fabric import Fabric
from .machine import Machine
from .tcp_end import TcpEnd


class VirtualConn(TcpEnd):
    """One end of a connection; a `net.ports.Conn`."""

    def __init__(self, fabric: Fabric, machine: Machine, local: Address, peer: Address, side: Side) -> None:
        super().__init__(fabric, machine, local, peer, side)
        self._receiving = self._sending = False

    async def receive_some(self, max_bytes: int) -> bytes:
        """Waits for data; b"" is the peer's end of stream, again and again. Errors: `PeerReset`."""
        await self._begin()
        if self._receiving:
            raise trio.BusyResourceError("another task is receiving")
        self._receiving = True
        try:
            while True:
                self._check_open()
                if not self._frozen:
                    if self._inbox:
                        return self._take(max_bytes)
                    if self._ended:
                        return b""
                    if self._broken:
                        raise PeerReset(self.side, self._broken)
                await self._wait_change()
        finally:
            self._receiving = False

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Returns when the send buffer has taken all of `data`. Errors: `PeerReset`."""
        await self._begin()
        if self._sending:
            raise trio.BusyResourceError("another task is sending")
        self._sending = True
        left = memoryview(data).cast("B")
        try:
            while True:
                self._check_open()
                if not self._frozen:
                    if self._broken:
                        raise PeerReset(self.side, self._broken)
                    if self._fin_asked:
                        raise trio.ClosedResourceError("this direction was ended")
                    room = max(0, self._fabric.buffers.send - self.unsent())
                    self._outbox += left[:room]
                    left = left[room:]
                    self._push()
                    if not left:
                        return
                    if room:
                        continue
                await self._wait_change()
        finally:
            self._sending = False

    def is_broken(self) -> bool:
        """Whether the connection was broken off, read so far or not."""
        self._fabric.wire.settle()
        return bool(self._broken)

    async def send_eof(self) -> None:
        """Ends our direction after what was sent; receiving goes on. Nothing happens if the peer is gone."""
        await self._begin()
        self._check_open()
        self._fin_asked = True
        self._push()

    def close(self) -> None:
        """Ends the stream after what was sent; resets instead if received data was left unread."""
        if self._closed:
            return
        if self._inbox:
            self.abort()
            return
        self._leave()
        self._fin_asked = True
        self._push()
        self._retire_if_over()  # the peer's end may have come before

    def abort(self) -> None:
        """Closes with a reset; what is unsent is lost."""
        if self._closed:
            return
        self._leave()
        if not self.gone:
            self._forget()
            self._send_reset()

    def _take(self, max_bytes: int) -> bytes:
        data = bytes(self._inbox[:max_bytes])
        del self._inbox[: len(data)]
        self._tell_peer(read=len(data))
        return data
