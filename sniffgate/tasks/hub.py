"""The hub: sole owner of the state, sole consumer of the central channel. Everybody else reports and reads."""

from collections.abc import Callable, Iterator
from itertools import chain

import attrs
import trio

from ..errors import CommandRefused
from ..state.events import (
    Event,
    FailureKind,
    ForwardFailed,
    ForwardSucceeded,
    OperatorDisabled,
    OperatorDrained,
    OperatorEnabled,
    OperatorMarked,
    OperatorReleased,
    OperatorSwitched,
    TripwireFired,
)
from ..state.model import Endpoint, State
from ..state.reducer import forward_success_matters, reduce
from ..state.wishes import refusal
from .board import Board
from .clock import Clock

CHANNEL_SLOTS = (
    1024  # a burst of 500 nodes failing at once, twice over; a full channel makes flows wait and engines count
)
AT_ONCE = 8  # events; then others have their turn: with 500 nodes a verdict takes a millisecond
SUCCESS_INTERVAL = 0.1  # seconds between two ForwardSucceeded of one endpoint

Observer = Callable[[State, Event, State], None]


@attrs.define(eq=False)
class Reply:
    """What an asker waits for: the state after its event was folded, or why it was not."""

    _done: trio.Event = attrs.field(factory=trio.Event)
    _state: State | None = None
    _refused: str = ""

    def fulfil(self, state: State) -> None:
        """The event was folded; `state` is what followed."""
        self._state = state
        self._done.set()

    def refuse(self, sentence: str) -> None:
        """The event was not folded."""
        self._refused = sentence
        self._done.set()

    async def wait(self) -> State:
        """Returns the state after the event. Errors: `CommandRefused`."""
        await self._done.wait()
        if self._state is None:
            raise CommandRefused(self._refused)
        return self._state


Item = tuple[Event, Reply | None]
_OPERATOR = (
    OperatorSwitched, OperatorReleased, OperatorEnabled, OperatorDisabled, OperatorDrained, OperatorMarked
)  # fmt: skip


async def run_hub(items: trio.MemoryReceiveChannel[Item], board: Board, observe: Observer) -> None:
    """Folds events into the state and publishes it, until the sending side of the channel is closed.

    Shielded, so that it outlives every reporter: the last words of a cancelled task still count. A crash in here is
    raised out of the gateway: what the state is must not be guessed.
    """
    with trio.CancelScope(shield=True), items:
        async for item in items:
            # What waits already is folded in the same turn: with one event a turn, clients would be routed by a state
            # that is as many turns old as there are events.
            for event, reply in chain((item,), _waiting(items)):
                try:
                    _fold(event, reply, board, observe)
                except Exception:
                    _refuse_all(reply, items)
                    raise


def _waiting(items: trio.MemoryReceiveChannel[Item]) -> Iterator[Item]:
    """What can be had without waiting, a few of them."""
    for _ in range(AT_ONCE - 1):
        try:
            yield items.receive_nowait()
        except (trio.WouldBlock, trio.EndOfChannel):
            return


def _fold(event: Event, reply: Reply | None, board: Board, observe: Observer) -> None:
    before = board.state
    sentence = refusal(before, event) if isinstance(event, _OPERATOR) else None
    if sentence is not None:
        if reply is not None:
            reply.refuse(sentence)
        return
    after = reduce(before, event)
    observe(before, event, after)
    board.publish(after)
    if reply is not None:
        reply.fulfil(after)


def _refuse_all(reply: Reply | None, items: trio.MemoryReceiveChannel[Item]) -> None:
    """Nobody may wait for a dead hub: an asker may be shielded, and would keep the gateway from ending."""
    while True:
        if reply is not None:
            reply.refuse("the gateway has crashed")
        try:
            _, reply = items.receive_nowait()
        except (trio.WouldBlock, trio.EndOfChannel):
            return


class Reporter:
    """How tasks tell the hub what they saw."""

    def __init__(self, items: trio.MemorySendChannel[Item], board: Board, clock: Clock) -> None:
        self._items = items
        self._board = board
        self._clock = clock
        self._unsent: dict[Endpoint, int] = {}
        self._succeeded_at: dict[Endpoint, float] = {}
        self._suspected_at: dict[Endpoint, float] = {}
        self.overflowed = 0  # events that found the channel full

    async def send(self, event: Event) -> None:
        """Reports, waiting for room in the channel."""
        await self._items.send((event, None))

    async def ask(self, event: Event) -> State:
        """Reports and returns the state after the event. Errors: `CommandRefused`."""
        reply = Reply()
        try:
            await self._items.send((event, reply))
        except (trio.ClosedResourceError, trio.BrokenResourceError):
            raise CommandRefused("the gateway has ended") from None
        return await reply.wait()

    def send_nowait(self, event: Event) -> None:
        """Reports from where nothing may wait. A failure that finds the channel full travels with the next one."""
        if isinstance(event, ForwardFailed):
            event = attrs.evolve(event, more=event.more + self._unsent.pop(event.endpoint, 0))
        try:
            self._items.send_nowait((event, None))
        except trio.WouldBlock:
            self.overflowed += 1
            if isinstance(event, ForwardFailed):
                self._unsent[event.endpoint] = event.more + 1
        except trio.BrokenResourceError:
            pass  # the hub has crashed: its error is on its way out, and this is only the cleaning up

    def failed(self, endpoint: Endpoint, kind: FailureKind, client: str, *, client_spoke: bool = False) -> None:
        """Live traffic of `client` failed at `endpoint`."""
        self.send_nowait(
            ForwardFailed(
                at=self._clock.now(),
                wall_ms=self._clock.wall_ms(),
                endpoint=endpoint,
                kind=kind,
                client=client,
                client_spoke=client_spoke,
            )
        )

    def suspected(self, endpoint: Endpoint) -> None:
        """The node broke off an established connection: worth one more probe in a probe interval, and no more.

        A node that is killed breaks all of its connections at once, and some break them every few seconds by habit.
        """
        now = self._clock.now()
        node, settings = self._board.state.config.node(endpoint.node), self._board.state.config.globals
        interval = settings.probe_interval if node is None or node.probe_interval is None else node.probe_interval
        if now - self._suspected_at.get(endpoint, float("-inf")) >= interval:
            self._suspected_at[endpoint] = now
            self.send_nowait(TripwireFired(at=now, wall_ms=self._clock.wall_ms(), endpoint=endpoint))

    def succeeded(self, endpoint: Endpoint) -> None:
        """Live traffic got through; reported only where it would change something, and not more often than needed."""
        if not forward_success_matters(self._board.state, endpoint):
            return
        now = self._clock.now()
        if now - self._succeeded_at.get(endpoint, float("-inf")) < SUCCESS_INTERVAL:
            return
        self._succeeded_at[endpoint] = now
        self.send_nowait(ForwardSucceeded(at=now, wall_ms=self._clock.wall_ms(), endpoint=endpoint))

    def forget(self, known: set[Endpoint]) -> None:
        """Drops what is remembered of endpoints other than `known`."""
        self._unsent = {each: count for each, count in self._unsent.items() if each in known}
        self._succeeded_at = {each: at for each, at in self._succeeded_at.items() if each in known}
        self._suspected_at = {each: at for each, at in self._suspected_at.items() if each in known}
