"""What the control port claims while something happens: each change of it with its moment, held against traffic."""

import itertools
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Self

import attrs

from .control import Control, Reply, dig
from .gateway import Gateway
from .lab import Lab
from .nodes import clock
from .scenario import Lied, TrialFailed
from .steady import Asked

STEP = 0.002  # seconds between two looks: each costs the gateway processor time that its clients could use
GRACE = 0.05  # seconds that traffic may lag behind a claim that was just seen
SURELY = 0.1  # seconds by which a claim may have been true before it was seen, however busy the machine is
EARLY, LATE = 20.0, 20.0  # milliseconds by which a gateway's timestamp may be off what the harness saw


@attrs.frozen
class Claim:
    """What the control port said from a moment on, until the next claim."""

    at: float  # seconds: when the first answer that said so had come
    tcp: str  # the active node, or ""
    udp: str
    states: tuple[tuple[str, str], ...]  # name and state of each node

    def active(self, transport: str) -> str:
        """The active node over a transport, or ""."""
        return self.tcp if transport == "tcp" else self.udp

    def state_of(self, node: str) -> str:
        """The word for a node's state."""
        return dict(self.states)[node]


def claim_of(status: Reply, at: float) -> Claim:
    """What a status claims. Errors: `Absent`."""
    states = tuple((str(dig(node, "name")), state_word(node)) for node in dig(status, "nodes"))
    return Claim(at, dig(status, "active", "tcp") or "", dig(status, "active", "udp") or "", states)


def state_word(node: Reply) -> str:
    """A node's state; programs without a word for it only say whether it is healthy. Errors: `Absent`."""
    word = node.get("state")
    return word if isinstance(word, str) else "healthy" if dig(node, "healthy") else "unhealthy"


class Watch:
    """Looks at the status from `with` to its end, over a connection of its own; `claims` grows."""

    def __init__(self, gateway: Gateway, zero: float, step: float = STEP) -> None:
        """`zero`: the moment, by `clock`, that claims count from; `step`: seconds between two looks."""
        self._control, self._zero, self._step = Control(gateway.admin), zero, step
        self._over = threading.Event()
        self.trouble: Exception | None = None
        self._thread = threading.Thread(target=self._look_on)
        self.claims: list[Claim] = []
        self.looked: list[float] = []  # when each look ended

    def _look_on(self) -> None:
        try:
            while not self._over.is_set():
                status = self._control.ask("status")
                self.looked.append(clock() - self._zero)
                claim = claim_of(status, self.looked[-1])
                if not self.claims or attrs.evolve(claim, at=self.claims[-1].at) != self.claims[-1]:
                    self.claims.append(claim)
                time.sleep(self._step)
        except Exception as error:  # told in the thread of the trial
            self.trouble = error

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exit_: object) -> None:
        self._over.set()
        self._thread.join()
        self._control.close()
        if self.trouble is not None and exit_[0] is None:
            raise self.trouble
        if not self.claims and exit_[0] is None:
            raise TrialFailed("the status was not answered once")


def switches(claims: Sequence[Claim], transport: str) -> list[Claim]:
    """Each claim with another active node than the one before it."""
    pairs = itertools.pairwise(claims)
    return [after for before, after in pairs if before.active(transport) != after.active(transport)]


def look_before(looked: Iterable[float], moment: float) -> float:
    """When the last look before that of `moment` had its answer: what was first seen at `moment` was not so yet."""
    return max((look for look in looked if look < moment), default=0.0)


def became_active(claims: Iterable[Claim], node: str, transport: str, moment: float) -> float | None:
    """When a node was first seen to be active, from a moment on."""
    return next((claim.at for claim in claims if claim.at >= moment and claim.active(transport) == node), None)


def lost_health(claims: Iterable[Claim], node: str, moment: float) -> float | None:
    """When a node was first seen in another state than healthy or unknown, from a moment on."""
    good = ("healthy", "unknown")
    return next((claim.at for claim in claims if claim.at >= moment and claim.state_of(node) not in good), None)


def record_claims(lab: Lab, claims: Iterable[Claim], struck: float) -> None:
    """Records every claim raw: when it was first seen, seconds after the failure at `struck`, and what it said."""
    for claim in claims:
        lab.record("claim_at_s", "s", round(claim.at - struck, 4))
        lab.record("claim_active_tcp", "word", claim.tcp or "none")
        lab.record("claim_active_udp", "word", claim.udp or "none")
        lab.record("claim_states", "word", ", ".join(f"{name} {state}" for name, state in claim.states))


def check_answers(seen: Iterable[Asked], claims: Sequence[Claim], transport: str, able: str, *, moment: float) -> None:
    """Holds traffic against the last claim: if it names `able` as active, only `able` answers until the end.

    `able`: a node that can serve from `moment` on. Errors: `Lied` when anybody else answers, or nobody.
    """
    if claims[-1].active(transport) != able:
        return
    begun = max(_last_change(claims, transport) + GRACE, moment)
    for asked in seen:
        if asked.at >= begun and asked.node != able:
            what = f"{asked.node} answered" if asked.node else f"nobody answered ({asked.trouble})"
            raise Lied(
                f"claimed: {able} is active over {transport}; seen: {1000 * (asked.at - begun):.0f} ms on, {what}"
            )


def check_throughout(
    seen: Iterable[Asked], claims: Sequence[Claim], transport: str, able: Callable[[str, Asked], bool]
) -> None:
    """Holds traffic against every claim: what was asked well within its time is answered by the node it names.

    `able`: whether a node could serve a request as long as it took; others may be served by anybody. Errors: `Lied`.
    """
    ends = [claim.at for claim in claims[1:]] + [float("inf")]
    for asked in seen:
        for claim, end in zip(claims, ends, strict=True):
            node = claim.active(transport)
            is_within = claim.at + SURELY <= asked.at and asked.over <= end - SURELY
            if is_within and asked.node != node and able(node, asked):
                what = f"{asked.node} answered" if asked.node else f"nobody answered ({asked.trouble})"
                raise Lied(f"claimed: {node} is active over {transport}, and it could serve; seen: {what}")


def _last_change(claims: Sequence[Claim], transport: str) -> float:
    """When the last active node was first seen to be it."""
    changes = switches(claims, transport)
    return changes[-1].at if changes else claims[0].at


def claimed_switch(gateway: Gateway, to: str, transport: str, struck_wall: float, seen_ms: float) -> float:
    """Milliseconds from the failure to the last switch to a node, by the gateway's own timestamp.

    `struck_wall`: the failure by `time.time`; `seen_ms`: when the harness saw the switch. Errors: `Absent`; `Lied` also
    when there is no such switch.
    """
    for each in reversed(dig(gateway.status(), "recent_switches")):
        if dig(each, "protocol") == transport and dig(each, "to") == to:
            return check_moment(float(dig(each, "ts_ms")) - 1000 * struck_wall, seen_ms)
    raise Lied(f"claimed: {to} is active over {transport}; its list of switches has none to it")


def check_moment(said_ms: float, seen_ms: float) -> float:
    """The moment that a gateway gives a switch. Errors: `Lied` when it is before the failure or after it was seen."""
    if not -EARLY <= said_ms <= seen_ms + LATE:
        raise Lied(f"claimed: switched {said_ms:.0f} ms after the failure; seen: {seen_ms:.0f} ms after it")
    return said_ms
