"""From raw values to medians, ratios and verdicts. Pure."""

import statistics
from collections.abc import Mapping, Sequence

import attrs

from .targets import SNIFFGATE

Raw = Mapping[str, Mapping[str, Sequence[float | None]]]  # figure → target → a value per round, None where it failed


@attrs.frozen
class Aim:
    """What sniffgate should reach: a bound on its ratio to a peer, or (`peer` None) on the value itself."""

    bound: float
    peer: str | None = None


@attrs.frozen
class Figure:
    """One line of the table."""

    key: str
    title: str
    unit: str
    digits: int = 0
    more_is_better: bool = False
    aims: tuple[Aim, ...] = ()


FIGURES = (
    Figure("rtt_us", "TCP round trip, 64 B", "µs", 1, aims=(Aim(1.15, "haproxy"),)),
    Figure("bulk_mb_s", "bulk, one connection", "MB/s", more_is_better=True, aims=(Aim(1.3, "haproxy"),)),
    Figure("cpu_s_per_gb", "gateway's CPU in bulk", "s/GB", 3),
    Figure("load_s_per_gb", "busier one of client's and node's", "s/GB", 3),
    Figure("conn_s", "connect + 1 B each way, one by one", "/s", more_is_better=True, aims=(Aim(0.75, "haproxy"),)),
    Figure("conn4_s", "the same, four clients at once", "/s", more_is_better=True, aims=(Aim(0.75, "haproxy"),)),
    Figure("udp_rtt_us", "UDP round trip, 64 B", "µs", 1, aims=(Aim(1.15, "nginx"),)),
    Figure("udp_s", "UDP round trips, 32 in flight", "/s", more_is_better=True, aims=(Aim(1.0, "nginx"),)),
    Figure("p99_us", "TCP round trip p99, alone", "µs"),
    Figure("p99_bulk_us", "TCP round trip p99, four bulk flows", "µs"),
    Figure("p99_storm_us", "TCP round trip p99, connection storm", "µs"),
    Figure("p99_reload_us", "TCP round trip p99, reloads of 500 nodes", "µs"),
    Figure("start_ms", "exec to first answer", "ms", aims=(Aim(250),)),
    Figure("start_mb", "resident at start", "MB", 1, aims=(Aim(45),)),
    Figure("idle_kib", "memory per idle connection", "KiB", 1, aims=(Aim(6),)),
)


@attrs.frozen
class Verdict:
    """An aim and what was reached; `reached` and `is_met` are None where either side has no figure."""

    figure: Figure
    aim: Aim
    reached: float | None

    @property
    def is_met(self) -> bool | None:
        """Whether it was reached."""
        if self.reached is None:
            return None
        return self.reached >= self.aim.bound if self.figure.more_is_better else self.reached <= self.aim.bound


def median(values: Sequence[float | None]) -> float | None:
    """Of the rounds that gave a value; None when none did."""
    good = [value for value in values if value is not None]
    return statistics.median(good) if good else None


def worst(figure: Figure, values: Sequence[float | None]) -> float | None:
    """The worst of the rounds that gave a value; None when none did."""
    good = [value for value in values if value is not None]
    if not good:
        return None
    return min(good) if figure.more_is_better else max(good)


def ratio(raw: Raw, key: str, peer: str) -> float | None:
    """The median of sniffgate over the median of a peer; None where either has none."""
    values = raw.get(key, {})
    own, other = median(values.get(SNIFFGATE, ())), median(values.get(peer, ()))
    return None if own is None or not other else own / other


def judge(raw: Raw) -> list[Verdict]:
    """A verdict for each aim of each figure that was measured."""
    return [
        Verdict(figure, aim, ratio(raw, figure.key, aim.peer) if aim.peer else median(raw[figure.key][SNIFFGATE]))
        for figure in FIGURES
        if SNIFFGATE in raw.get(figure.key, {})
        for aim in figure.aims
    ]
