"""How long it takes to find out that an endpoint died: the least and the most, from the settings alone.

With I, F, T = probe interval, fast interval and timeout, t = `failure_threshold`, L = the last latency of a probe:

* The failure strikes at any moment between two probes. They start I ± 10 % apart, and no sooner than the answer to the
  one before: the first that meets the failure starts within `wait` = max(1.1 I, L), or at once.
* **Refused.** Each probe ends within L, the next starts F after its start. The verdict comes with the t-th. Over UDP a
  datagram may have died with its server, unanswered: then the first to be refused is the one after it, which starts
  beside it after P, or with t = 1 at its end.
* **Silent.** A probe ends after T. Beside one that has no answer after P = max(F, 4 L), or after its end, the next one
  starts, never two within F: from the first start to the second `gap` = max(F, min(P, T)). Those after it come every F
  for as long as the first is under way; then each waits for the oldest under way in turn, `gap` at most.
* **A client.** One that is refused is one failure of the t, and makes the next probe start as soon as F after the last.
  One that times out is a failure too, `connect_timeout` after it came.

Round trips beyond L, the scheduler and a busy machine come on top.
"""

import enum
from typing import NamedTuple

from ..config.schema import GlobalConfig, NodeConfig, Transport

JITTER = 0.1  # of the interval, either way, so that gateways started together do not probe together
PATIENCE = 4  # a probe that takes this many times the last latency is suspicious
NEVER = float("inf")


class Answer(enum.Enum):
    """What a dead endpoint says to whoever asks."""

    REFUSED = "refused"
    SILENT = "silent"


class Bounds(NamedTuple):
    """Seconds from the failure to the verdict `unhealthy`; inf: never."""

    least: float
    most: float


def detection_bounds(
    globals_: GlobalConfig,
    node: NodeConfig,
    transport: Transport,
    *,
    answered: Answer,
    with_traffic: bool,
    latency: float = 0.0,
) -> Bounds:
    """The least and the most time from the failure of a healthy endpoint of `node` to its verdict.

    `answered` is what its probes and clients meet from then on. `with_traffic`: one client comes at the moment of the
    failure; more of them, or a tripwire, can only make it quicker, down to nothing at all. `latency`: seconds that a
    good probe took.
    """
    quiet = _by_probes(globals_, node, transport, answered, latency)
    if not with_traffic or (answered is Answer.SILENT and transport is Transport.UDP):
        return quiet  # a swallowed datagram tells nobody anything
    missing = globals_.failure_threshold - 1  # failed probes beside the client's own
    suffices = not missing or globals_.passive_eject_threshold == 1
    if not node.is_probed and not suffices:
        return quiet
    if answered is Answer.SILENT:  # and a client of a service that hangs may be connected all the same: no evidence
        others = 0.0 if suffices else _silence(globals_, node, missing, latency).least - latency
        return Bounds(min(quiet.least, max(globals_.connect_timeout, others)), quiet.most)
    if suffices:
        return Bounds(0.0, latency)
    fast = fast_interval(globals_, node)
    return Bounds((missing - 1) * fast, latency + fast + (missing - 1) * max(fast, latency) + latency)


def fast_interval(globals_: GlobalConfig, node: NodeConfig) -> float:
    """The shortest time between the starts of two probes of a node, in seconds."""
    return min(globals_.probe_fast_interval, interval_of(globals_, node))


def interval_of(globals_: GlobalConfig, node: NodeConfig) -> float:
    """The regular probe interval of a node, in seconds."""
    return globals_.probe_interval if node.probe_interval is None else node.probe_interval


def shortest_flap(globals_: GlobalConfig, node: NodeConfig) -> float:
    """The least time from one fall of a probed endpoint to the next, in seconds, whatever happens to it.

    A fall is followed by no probe for nine tenths of an interval, then by `success_threshold` good ones, then by one
    client's failure and `failure_threshold` - 1 failed probes; ejections and `failback_delay` only make it longer. In
    every such time a node can switch its route twice, away and back.
    """
    steps = globals_.success_threshold - 1 + globals_.failure_threshold - 1
    return (1 - JITTER) * interval_of(globals_, node) + steps * fast_interval(globals_, node)


def _by_probes(
    globals_: GlobalConfig, node: NodeConfig, transport: Transport, answered: Answer, latency: float
) -> Bounds:
    """What probes alone find out."""
    asked = node.spokesman or transport
    if not node.is_probed or (asked is Transport.UDP and node.udp_follows):
        return Bounds(NEVER, NEVER)
    wait = max((1 + JITTER) * interval_of(globals_, node), latency)
    if answered is Answer.REFUSED:
        steps, fast = globals_.failure_threshold - 1, fast_interval(globals_, node)
        if asked is Transport.UDP:
            wait = max(wait, max(fast, PATIENCE * latency) if steps else globals_.probe_timeout)
        return Bounds(steps * fast, wait + steps * max(fast, latency) + latency)
    if asked is Transport.UDP and not node.udp_is_explicit:
        return Bounds(NEVER, NEVER)
    silence = _silence(globals_, node, globals_.failure_threshold, latency)
    return Bounds(max(silence.least - latency, 0.0), wait + silence.most)


def _silence(globals_: GlobalConfig, node: NodeConfig, count: int, latency: float) -> Bounds:
    """From the start of the first of `count` probes without an answer to the end of the last."""
    fast, timeout = fast_interval(globals_, node), globals_.probe_timeout
    gap = max(fast, min(max(fast, PATIENCE * latency), timeout))
    if count == 1:
        return Bounds(timeout, timeout)
    quickest = gap + (count - 2) * fast
    slowest = quickest if quickest <= timeout else (count - 1) * gap
    return Bounds(quickest + timeout, slowest + timeout)
