"""The ticker: the state cannot look at a clock, so it is told when the moment has come that it asked for."""

import trio

from ..state.events import TimePassed
from ..state.reducer import next_wakeup
from .board import Board
from .clock import Clock
from .hub import Reporter


async def tick_forever(board: Board, clock: Clock, reporter: Reporter) -> None:
    """Sends `TimePassed` whenever the state's own next wake-up comes; runs until cancelled."""
    while True:
        state = board.state
        wakeup = next_wakeup(state)
        with trio.move_on_at(clock.deadline(wakeup)):
            await board.wait_revision(state)
            continue
        # never earlier than was asked for: turning one clock into the other may round down, and nothing would be due
        await reporter.ask(TimePassed(at=max(clock.now(), wakeup), wall_ms=clock.wall_ms()))
