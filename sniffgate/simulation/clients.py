"""The clients of a simulation: they ask, stay or leave, and count on an answer where one was promised."""

import contextlib
from collections import Counter

import attrs
import trio

from ..address import Address
from ..config.schema import ListenerConfig, RouteKey, Transport
from ..errors import ConnectFailed, DatagramRefused, PeerReset, Side
from ..net.ports import Conn, DatagramConn, Network
from ..tasks.gateway import Gateway
from .history import Visit
from .reach import Promise
from .watch import Watch

PATIENCE = 1.0  # seconds an answer may take beyond all the connects that may hang
UDP_PATIENCE = 4.0  # seconds in which one who keeps asking has an answer: a trial's silence, refusals, a pause
UDP_AGAIN = 0.5  # seconds after which a datagram is sent again
TALK_EVERY = 2.0  # seconds from one question of a chat to the next
SHORT_DRAIN = 1.0  # seconds: a flow that is cut this soon after a switch may not have had its answer
ANSWER = 4096


@attrs.define(eq=False)
class Crowd:
    """All clients. `disturbances` counts, by pool, what was done to its nodes."""

    network: Network
    gateway: Gateway
    watch: Watch
    promise: Promise
    disturbances: Counter[str] = attrs.field(factory=Counter)
    _serial: int = 0

    async def visit(self, step: Visit) -> None:
        """One client, from its coming to its leaving."""
        found = [each for each in self.gateway.listeners.values() if each.settings.name == step.listener]
        if not found:
            return
        door, address = found[0].settings, found[0].address
        self._serial += 1
        expected = self._expected(door)
        client = _Client(self.watch, b"#%d;" % self._serial, step)
        began = trio.current_time()
        bound = self._bound(door)
        with trio.move_on_after(bound + step.seconds):
            if door.protocol is Transport.UDP:
                await client.keep_asking(self.network, address)
            else:
                await client.call(self.network, address)
        answered = client.answered is not None and client.answered <= began + bound
        if not answered and step.kind != "leave" and expected is not None and expected == self._expected(door):
            over = door.protocol.value
            self.watch.breaks(
                "service",
                f"a client of {door.name} over {over} had no answer from {began:.3f} to {trio.current_time():.3f}, "
                f"though {expected[0]} was there all the time",
            )

    def _bound(self, door: ListenerConfig) -> float:
        if door.protocol is Transport.UDP:
            return UDP_PATIENCE
        state = self.gateway.state
        return len(state.config.members(RouteKey(door.pool, door.protocol))) * self._connect_timeout() + PATIENCE

    def _connect_timeout(self) -> float:
        return self.gateway.state.config.globals.connect_timeout

    def _expected(self, door: ListenerConfig) -> tuple[str, int, tuple[str, ...]] | None:
        """Who must answer, and what must stay as it is until then; None when nobody has to."""
        state, key = self.gateway.state, RouteKey(door.pool, door.protocol)
        promised = self.promise.holds(state, key, trio.current_time())
        if promised is None or self.gateway.stopping.is_set():
            return None
        pool = state.config.pool(door.pool)
        cuts_early = min(pool.drain_timeout, pool.failback_drain_timeout) < SHORT_DRAIN
        return promised, self.disturbances[door.pool], state.routes[key].active if cuts_early else ()


@attrs.define(eq=False)
class _Client:
    """One client. `answered` is when it had its first answer."""

    watch: Watch
    text: bytes
    step: Visit
    answered: float | None = None

    async def call(self, network: Network, address: Address) -> None:
        """Comes by TCP."""
        end = trio.current_time() + self.step.seconds
        try:
            with await network.connect_tcp(address) as conn:
                if self.step.kind == "leave":
                    await conn.send_all(self.text)
                    conn.abort()
                    return
                await self._ask(conn)
                while trio.current_time() + TALK_EVERY <= end:
                    await trio.sleep(TALK_EVERY)
                    await self._ask(conn)
        except (ConnectFailed, PeerReset):
            pass  # whether it should have been served is told by `answered`

    async def _ask(self, conn: Conn) -> None:
        await conn.send_all(self.text)
        answer = b""
        while not answer.endswith(b":" + self.text):
            chunk = await conn.receive_some(ANSWER)
            if not chunk:
                raise PeerReset(Side.UPSTREAM, "cut before the answer")
            answer += chunk
        self._note(Transport.TCP, conn.local)

    async def keep_asking(self, network: Network, address: Address) -> None:
        """Comes by UDP."""
        end = trio.current_time() + self.step.seconds
        with network.connect_udp(address) as conn:
            while self.answered is None:
                await self._send_and_listen(conn, UDP_AGAIN)
            while trio.current_time() + TALK_EVERY <= end:
                await trio.sleep(TALK_EVERY)
                await self._send_and_listen(conn, UDP_AGAIN)

    async def _send_and_listen(self, conn: DatagramConn, patience: float) -> None:
        with trio.move_on_after(patience):
            with contextlib.suppress(DatagramRefused):
                conn.send_nowait(self.text)
            while True:
                with contextlib.suppress(DatagramRefused):
                    await conn.receive()
                    self._note(Transport.UDP, conn.local)
                    return

    def _note(self, transport: Transport, local: Address) -> None:
        if self.answered is None:
            self.answered = trio.current_time()
            self.watch.served.add((transport, local))
