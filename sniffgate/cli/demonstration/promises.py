"""What the demonstration promises, each with what was measured. A promise that was not kept makes it end with 1."""

from collections.abc import Iterator

import attrs

CLOCK_SLACK = 0.005  # seconds: the two ends of an interval are read from the clock by different tasks


@attrs.frozen(kw_only=True)
class Limits:
    """How much is allowed: wide enough for a busy machine with two cores. Times in seconds."""

    start: float = 3.0  # from the start of the gateway to the first answers, and to every node found healthy
    failover: float = 1.0  # from the kill to the first answer of another node
    failback: float = 2.0  # from the node's return to its first answer
    switch: float = 1.0  # from an operator's command to the first answer of the node that it gave the traffic to
    drain_late: float = 0.5  # how long after its deadline a connection may be closed
    lost_to_the_kill: int = 5  # datagrams that reached the dead node's kernel and never the node


@attrs.frozen
class Promise:
    """Something that must be seen. All in words: what it is about, what was measured, what was allowed."""

    words: str
    measured: str
    promised: str
    kept: bool

    def __str__(self) -> str:
        return f"{self.words}: {self.measured} (promised: {self.promised})"


class Promises:
    """All of them, in the order in which they were checked."""

    def __init__(self) -> None:
        self._checked: list[Promise] = []

    def __iter__(self) -> Iterator[Promise]:
        return iter(self._checked)

    @property
    def broken(self) -> list[Promise]:
        """Those that were not kept."""
        return [promise for promise in self._checked if not promise.kept]

    @property
    def all_kept(self) -> bool:
        """Whether something was promised and everything was kept."""
        return bool(self._checked) and not self.broken

    def fact(self, words: str, measured: str, promised: str, *, kept: bool) -> Promise:
        """Something is as promised, or is not."""
        self._checked.append(Promise(words, measured, promised, kept))
        return self._checked[-1]

    def within(self, words: str, limit: float, measured: float | None) -> Promise:
        """Something happens within `limit` seconds. None: it was never seen."""
        seen = "never seen" if measured is None else in_ms(measured)
        return self.fact(words, seen, f"within {in_ms(limit)}", kept=measured is not None and measured <= limit)

    def between(self, words: str, earliest: float, latest: float, measured: float) -> Promise:
        """Something happens `earliest` to `latest` seconds after another; `words` say what."""
        allowed = f"{in_ms(earliest)} to {in_ms(latest)}"
        return self.fact(words, in_ms(measured), allowed, kept=earliest - CLOCK_SLACK <= measured <= latest)

    def at_most(self, words: str, limit: int, measured: int) -> Promise:
        """A count is at most `limit`."""
        return self.fact(words, str(measured), f"at most {limit}" if limit else "none", kept=measured <= limit)


def in_ms(seconds: float) -> str:
    """Milliseconds, with a decimal where it says something."""
    ms = seconds * 1000
    return f"{ms:.1f} ms" if ms < 9.95 else f"{ms:.0f} ms"
