"""Waiting for what was promised, measuring it, and saying how it turned out. Times are Trio's, limits are seconds."""

from collections import Counter

import trio

from .clients import HeldConnection
from .nodes import Node
from .stage import Stage
from .timeline import Voice

GIVE_UP = 1.0  # seconds past its limit after which something is called never seen
SETTLE = 1.0  # seconds after which a datagram without an answer is called lost


def within(stage: Stage, words: str, limit: float, since: float, seen: float | None) -> None:
    """Promises that something was seen at most `limit` after `since`."""
    stage.timeline.tell(stage.promises.within(words, limit, None if seen is None else seen - since))


async def moved_to(
    stage: Stage, words: str, node: Node | None, since: float, limit: float, *, leaving: Node | None = None
) -> None:
    """Promises the first answer of `node` (None: of any other than `leaving`) over both transports within `limit`."""
    for client in stage.clients:
        seen: float | None = None
        target = node.name if node is not None else "another node"
        with trio.move_on_after(limit + GIVE_UP):
            request = await client.tally.wait_answer(
                lambda name: name == node.name if node is not None else leaving is None or name != leaving.name, since
            )
            seen, target = request.answered, request.node
        within(stage, f"{client.tally.transport.value}: {words}, first answer from {target}", limit, since, seen)


async def hold(stage: Stage) -> HeldConnection:
    """Opens a connection that is kept; returns once it has been answered."""
    held = HeldConnection(stage.tcp_address)
    stage.visitors.start_soon(held.run)
    with trio.move_on_after(stage.limits.start):
        await held.began.wait()
    at = held.answers[-1][1] if held.answers else "no node"
    stage.timeline.say(Voice.CLIENT, f"tcp: a connection held open, answered by {at}")
    return held


async def end_at_deadline(stage: Stage, held: HeldConnection, node: Node, since: float, deadline: float) -> None:
    """Promises that a held connection is served by `node` to the last, and is closed `deadline` after `since`."""
    with trio.move_on_after(deadline + stage.limits.drain_late + GIVE_UP):
        await held.ended.wait()
    promises = stage.promises
    late = [name for at, name in held.answers if at >= since]
    counts = ", ".join(f"{count} by {name}" for name, count in Counter(late).items()) or "none"
    words = "tcp: answers on the held connection while it drained"
    stage.timeline.tell(promises.fact(words, counts, f"by {node.name} only", kept=set(late) == {node.name}))
    words = f"tcp: the held connection {held.ending or 'ended'} after"
    latest = deadline + stage.limits.drain_late
    if held.ended_at is None:
        stage.timeline.tell(promises.within(words, latest, None))
    else:
        stage.timeline.tell(promises.between(words, deadline, latest, held.ended_at - since))


async def settle(stage: Stage, until: float) -> None:
    """Returns when it is known what became of every request sent before `until`, or will not be known any more."""
    with trio.move_on_after(SETTLE):
        for client in stage.clients:
            await client.tally.wait_settled(trio.current_time() - SETTLE, until)
