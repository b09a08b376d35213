"""The clients of the demonstration. They know the gateway's address and nothing else."""

import math

import trio

from ...address import Address
from ...config.schema import Transport
from .tally import Request, Tally

TCP_INTERVAL = 0.02  # seconds from one request to the next
UDP_INTERVAL = 0.01
HELD_INTERVAL = (
    0.15  # no divisor of a drain: a connection that is cut between requests is closed, in the middle of one reset
)
PATIENCE = 2.0  # seconds that a TCP client waits for an answer


class SteadyClient:
    """Sends a numbered request per interval, whatever became of the ones before: a slow answer holds nothing up."""

    def __init__(self, gateway: Address, transport: Transport) -> None:
        self.tally = Tally(transport)
        self._gateway = gateway
        self._asking = trio.CancelScope()

    def stop(self) -> None:
        """Sends no more; answers are still taken."""
        self._asking.cancel()

    async def run(self) -> None:
        """Runs until cancelled."""
        if self.tally.transport is Transport.TCP:
            await self._run_tcp()
        else:
            await self._run_udp()

    # --- TCP: a connection per request ----------------------------------------------------------------

    async def _run_tcp(self) -> None:
        async with trio.open_nursery() as requests:
            with self._asking:
                while True:
                    requests.start_soon(self._ask, self.tally.begin())
                    await sleep_to_next(TCP_INTERVAL)
            await trio.sleep_forever()

    async def _ask(self, request: Request) -> None:
        why = "no answer"
        try:
            with trio.move_on_after(PATIENCE), trio.socket.socket() as conn:
                await conn.connect((self._gateway.host, self._gateway.port))
                lines = Lines(trio.SocketStream(conn))
                node = await lines.ask(request.number)
                if node:
                    self.tally.answer(request, node)
                    return
                why = "closed"
        except (OSError, trio.BrokenResourceError) as error:
            why = str(error.__cause__ or error)
        self.tally.fail(request, why)

    # --- UDP: one socket for all ----------------------------------------------------------------------

    async def _run_udp(self) -> None:
        with trio.socket.socket(type=trio.socket.SOCK_DGRAM) as conn:
            await conn.connect((self._gateway.host, self._gateway.port))
            async with trio.open_nursery() as both:
                both.start_soon(self._take_answers, conn)
                with self._asking:
                    while True:
                        await conn.send(str(self.tally.begin().number).encode())
                        await sleep_to_next(UDP_INTERVAL)

    async def _take_answers(self, conn: trio.socket.SocketType) -> None:
        while True:
            node, _, number = (await conn.recv(65535)).decode().partition(" ")
            self.tally.answer(self.tally.requests[int(number)], node)


class HeldConnection:
    """One TCP connection that is kept for as long as the gateway lets it live, with a request per interval."""

    def __init__(self, gateway: Address) -> None:
        self.answers: list[tuple[float, str]] = []  # (when, which node)
        self.ended_at: float | None = None
        self.ending = ""
        self.began = trio.Event()  # answered for the first time
        self.ended = trio.Event()
        self._gateway = gateway

    async def run(self) -> None:
        """Runs until the connection ends."""
        number = 0
        try:
            with trio.socket.socket() as conn:
                await conn.connect((self._gateway.host, self._gateway.port))
                lines = Lines(trio.SocketStream(conn))
                while node := await lines.ask(number):
                    self.answers.append((trio.current_time(), node))
                    self.began.set()
                    number += 1
                    if await lines.ends_within(HELD_INTERVAL):
                        break
                self.ending = "closed"
        except (OSError, trio.BrokenResourceError):
            self.ending = "reset"
        self.ended_at = trio.current_time()
        self.ended.set()


class Lines:
    """A line there, a line back."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream

    async def ask(self, number: int) -> str:
        """The tag of the node that answers; "" when the connection is closed instead."""
        await self._stream.send_all(b"%d\n" % number)
        line = b""
        while not line.endswith(b"\n"):
            more = await self._stream.receive_some(1024)
            if not more:
                return ""
            line += more
        return line.decode().partition(" ")[0]

    async def ends_within(self, seconds: float) -> bool:
        """Waits for `seconds`, in which nothing is due: True as soon as the connection is closed."""
        with trio.move_on_after(seconds):
            return not await self._stream.receive_some(1024)
        return False


async def sleep_to_next(interval: float) -> None:
    """Until the next multiple of `interval`: the pace does not slip by what the work between takes."""
    await trio.sleep_until((math.floor(trio.current_time() / interval) + 1) * interval)
