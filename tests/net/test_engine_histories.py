"""Any order of attaching, sending, ending, resetting and cancelling over several flows leaves the books right."""

import contextlib
import os

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from sniffgate.errors import PeerReset
from sniffgate.net.engine import EngineRelay
from sniffgate.net.relay import Counters, RelayLimits
from sniffgate.net.tcp_sockets import SocketConn
from tests.net.direct_flow import DirectRelay
from tests.net.engine_looking import plain_pair, registered
from tests.net.relay_flow import wait_until

pytestmark = pytest.mark.realnet

FLOWS = 3
MOVES = (
    "attach", "client data", "node data", "client bulk", "node bulk", "client end", "node end", "client reset",
    "node reset", "client read", "node read", "cancel", "pause",
)  # fmt: skip
Moves = list[tuple[int, str]]


class Story:
    """One flow, from nothing to its end; it may begin anew, mostly on the same descriptors."""

    def __init__(self, relay: EngineRelay, nursery: trio.Nursery) -> None:
        self.relay = relay
        self.nursery = nursery
        self.peers: dict[str, SocketConn] = {}
        self.inside: tuple[SocketConn, ...] = ()
        self.fds: set[int] = set()
        self.cut = trio.CancelScope()
        self.over = trio.Event()
        self.over.set()

    async def make(self, move: str) -> None:
        """Makes a move, if it can be made."""
        side, _, deed = move.partition(" ")
        if move == "attach":
            if self.over.is_set():
                await self.attach()
        elif move == "cancel":
            self.cut.cancel()
        elif move == "pause":
            await trio.sleep(0.002)
        elif side in self.peers:
            self.act(self.peers[side], deed)

    async def attach(self) -> None:
        self.close_peers()
        (self.peers["client"], client), (node, self.peers["node"]) = await plain_pair(), await plain_pair()
        self.inside, self.fds = (client, node), {client.fileno(), node.fileno()}
        self.cut, self.over = trio.CancelScope(), trio.Event()
        self.nursery.start_soon(self.run, client, node)

    async def run(self, client: SocketConn, node: SocketConn) -> None:
        try:
            with self.cut:
                await self.relay.relay(client, node, Counters(), RelayLimits(idle=50.0, half_close=50.0))
        finally:
            # when the engine has let go it must have done so wholly, or the numbers are used again under it
            assert client.fileno() == node.fileno() == -1
            self.over.set()

    def act(self, peer: SocketConn, deed: str) -> None:
        if peer.fileno() < 0:
            return
        with contextlib.suppress(BlockingIOError, OSError, PeerReset):
            if deed == "data":
                peer.plain.send(b"x" * 100)
            elif deed == "bulk":
                for _ in range(100):
                    peer.plain.send(bytes(65536))
            elif deed == "end":
                peer.plain.shutdown(1)
            elif deed == "reset":
                peer.abort()
            elif deed == "read":
                while peer.plain.recv(1_000_000):
                    pass

    def close_peers(self) -> None:
        for peer in self.peers.values():
            peer.close()


def check(relay: EngineRelay, stories: list[Story]) -> None:
    """Only descriptors of living flows are watched, by the kernel's books and by the engine's own."""
    living = set().union(*(story.fds for story in stories if not story.over.is_set()))
    assert set(registered(relay.loop)) <= living
    assert set(relay.loop._ends) <= living
    for fd, end in list(relay.loop._ends.items()):
        assert end.sock.fileno() in (fd, -1)


async def play(kind: type[EngineRelay], moves: Moves) -> None:
    """Plays a history on one engine."""
    before = len(os.listdir("/proc/self/fd"))
    relay = kind()
    with trio.fail_after(20):
        async with trio.open_nursery() as engine:
            await engine.start(relay.run)
            async with trio.open_nursery() as nursery:
                stories = [Story(relay, nursery) for _ in range(FLOWS)]
                for number, move in moves:
                    await stories[number].make(move)
                    check(relay, stories)
                alive = trio.Event()
                token = trio.lowlevel.current_trio_token()
                relay.loop.call(lambda: token.run_sync_soon(alive.set))
                await alive.wait()
                for story in stories:
                    story.cut.cancel()
                for story in stories:
                    await story.over.wait()
                    story.close_peers()
            assert {} == registered(relay.loop)
            assert {} == relay.loop._ends
            assert relay.loop.pipes.open == len(relay.loop.pipes._idle)
            relay.stop()
    await wait_until(lambda: before == len(os.listdir("/proc/self/fd")))


@pytest.mark.parametrize("kind", [EngineRelay, DirectRelay])
@given(moves=st.lists(st.tuples(st.integers(0, FLOWS - 1), st.sampled_from(("attach", "pause", *MOVES))), max_size=40))
def test_any_history_leaves_no_descriptor_watched_or_open(kind: type[EngineRelay], moves: Moves) -> None:
    """A descriptor that stays behind is another flow's bytes in the wrong place as soon as its number is used again."""
    trio.run(play, kind, moves)
