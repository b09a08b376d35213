"""What became of each request of a client: when it was sent, when it was answered, and by whom. Times are Trio's."""

import math
from collections import Counter
from collections.abc import Callable

import attrs
import trio

from ...config.schema import Transport


@attrs.define(eq=False)
class Request:
    """One request."""

    number: int
    sent: float
    answered: float | None = None
    node: str = ""  # who answered
    failure: str = ""  # why no answer will come any more

    @property
    def is_settled(self) -> bool:
        """Whether it is known what became of it. A lost datagram never is."""
        return self.answered is not None or bool(self.failure)


@attrs.frozen
class Row:
    """A line of the closing table. `slowest` in seconds; None when nothing was answered."""

    transport: Transport
    requests: int
    answered: int
    lost: int
    twice: int
    slowest: float | None
    nodes: dict[str, int]


class Tally:
    """All requests of one client."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.requests: list[Request] = []
        self.answers: list[Request] = []  # in the order in which they were answered
        self.twice = 0  # answers to what had been answered before
        self._moved = trio.Event()

    def begin(self) -> Request:
        """A request is being sent."""
        request = Request(len(self.requests), trio.current_time())
        self.requests.append(request)
        return request

    def answer(self, request: Request, node: str) -> None:
        """`node` answered."""
        if request.answered is not None:
            self.twice += 1
            return
        request.answered, request.node = trio.current_time(), node
        self.answers.append(request)
        self._wake()

    def fail(self, request: Request, why: str) -> None:
        """No answer will come."""
        request.failure = why
        self._wake()

    def _wake(self) -> None:
        self._moved.set()
        self._moved = trio.Event()

    def sent_between(self, since: float = -math.inf, until: float = math.inf) -> list[Request]:
        """The requests sent at or after `since` and before `until`."""
        return [request for request in self.requests if since <= request.sent < until]

    def lost_between(self, since: float = -math.inf, until: float = math.inf) -> int:
        """How many of those have no answer (yet: see `wait_settled`)."""
        return sum(request.answered is None for request in self.sent_between(since, until))

    async def wait_answer(self, wanted: Callable[[str], bool], since: float) -> Request:
        """The first answer after `since` by a node that is `wanted`."""
        await trio.lowlevel.checkpoint()
        seen = 0
        while True:
            for request in self.answers[seen:]:
                assert request.answered is not None
                if request.answered >= since and wanted(request.node):
                    return request
            seen = len(self.answers)
            await self._moved.wait()

    async def wait_settled(self, since: float, until: float) -> None:
        """Returns when it is known what became of every request sent in that time; never, when a datagram was lost."""
        await trio.lowlevel.checkpoint()
        for request in self.sent_between(since, until):
            while not request.is_settled:
                await self._moved.wait()

    def row(self) -> Row:
        """The sum of it."""
        waits = [(request.answered - request.sent) for request in self.requests if request.answered is not None]
        return Row(
            transport=self.transport,
            requests=len(self.requests),
            answered=len(waits),
            lost=self.lost_between(),
            twice=self.twice,
            slowest=max(waits, default=None),
            nodes=dict(Counter(request.node for request in self.answers)),
        )
