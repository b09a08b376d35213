"""How many datagrams of one socket are read at an event: one where they come singly, more where they come in bursts."""

BATCH = 64  # at most, so that a flood on one socket does not keep the others waiting


class Burst:
    """The bursts in which datagrams come at one socket.

    To ask whether there is one more takes as long as to read one, so those that come singly are read singly. As long as
    the very next poll tells of more, twice as many are read; when they end, as many as came in all of those polls.
    """

    __slots__ = ("_before", "_poll", "_size")

    def __init__(self) -> None:
        self._size = 1
        self._poll = -1  # the last one that told of this socket
        self._before = 0  # datagrams read in the polls just before that one

    def at(self, poll: int) -> int:
        """How many are to be read now."""
        size = self._size
        if poll != self._poll + 1:
            self._before = 0
        else:
            self._before += size
            self._size = size = min(BATCH, 2 * size)
        self._poll = poll
        return size

    def ended_at(self, count: int) -> None:
        """There were only so many, this time."""
        self._size = min(BATCH, self._before + count) or 1
        self._poll = -1
