"""The whole state of a gateway as one frozen value: health, operator's wishes, routes, and the switches so far.

Times are seconds since the gateway's start on Trio's clock; `wall_ms` (milliseconds since 1970) stands beside them
for people only and decides nothing.
"""

import enum
from collections.abc import Mapping
from typing import NamedTuple

import attrs

from ..config.schema import Config, Strategy
from ..config.schema import Endpoint as Endpoint
from ..config.schema import RouteKey as RouteKey

RECENT_SWITCHES = 100  # how many the state remembers; the event log has them all


class Verdict(enum.Enum):
    """What the evidence says of an endpoint. The first two are usable."""

    UNKNOWN = "unknown"
    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"
    PROBATION = "probation"  # may prove itself with one live flow


class Cause(enum.Enum):
    """What decided a verdict."""

    START = "start"
    PROBES = "probes"
    TRAFFIC = "traffic"  # passive evidence: an ejection, or a live flow that succeeded
    TIME = "time"  # an ejection ran out


class Mark(enum.Enum):
    """An operator's word about a node's health; it stands above all evidence."""

    UP = "up"
    DOWN = "down"


class PassiveFailure(NamedTuple):
    """A failure of live traffic inside the passive window. `client` is set when only one per client counts."""

    at: float
    client: str | None = None


@attrs.frozen(kw_only=True)
class Health:
    """All that is known of one endpoint."""

    verdict: Verdict = Verdict.UNKNOWN
    cause: Cause = Cause.START
    since: float = 0.0  # when the verdict last changed; for a healthy endpoint, "healthy since"
    good_streak: int = 0  # successful probes in a row
    bad_streak: int = 0  # failed probes, and failed forward connects, in a row
    stepped_at: float | None = None  # when a forward connect last added to bad_streak
    window: tuple[PassiveFailure, ...] = ()  # passive failures, oldest first; some may have left the window
    ejections: int = 0  # in a row: each within a minute of the return from the one before
    ejected_until: float | None = None  # the earliest return; None when not ejected
    returned_at: float | None = None  # from the last ejection
    suspected: bool = False  # evidence too weak to count, strong enough to look again
    joining: bool = False  # added, raised or readdressed by a reload: joins when healthy, and that is no failback
    last_error: str = ""
    last_latency: float | None = None  # of the last successful probe, seconds
    last_probe_at: float | None = None
    probe_ok: int = 0
    probe_fail: int = 0
    passive_ejects: int = 0
    promotions: int = 0  # how often it joined an active set
    changed_wall_ms: int = 0  # when the verdict last changed, for people
    probed_wall_ms: int = 0

    @property
    def is_ejected(self) -> bool:
        """Unhealthy by passive evidence, and not back yet."""
        return self.ejected_until is not None


@attrs.frozen(kw_only=True)
class Override:
    """What an operator asked of one node. None everywhere is the same as no override."""

    enabled: bool | None = None
    drain: float | None = None  # seconds a drain may take, from `drain_at`; None = as configured
    drain_at: float = 0.0
    mark: Mark | None = None


class RouteMode(enum.Enum):
    """How the active set of a route came about."""

    NORMAL = "normal"
    FAIL_OPEN = "fail_open"  # nothing usable: all candidates, in order
    CLOSED = "closed"  # nothing usable and no fail_open, or no candidate at all


@attrs.frozen(kw_only=True)
class Route:
    """Where new traffic of one pool and transport goes. Names are node names."""

    key: RouteKey
    mode: RouteMode = RouteMode.CLOSED
    strategy: Strategy = Strategy.PRIORITY
    active: tuple[str, ...] = ()
    weights: tuple[int, ...] = ()  # of `active`, in its order
    standbys: tuple[str, ...] = ()  # usable, in the order they would be tried
    trial: str | None = None  # an endpoint in probation that may have the next flow
    pin: str | None = None
    tier: int | None = None  # the priority in use; None outside strategy "priority"


class SwitchReason(enum.Enum):
    """Why an active set changed."""

    START = "start"
    FAILOVER = "failover"  # an active endpoint stopped being usable
    FAILBACK = "failback"  # a recovered better tier took over
    REJOIN = "rejoin"  # an endpoint joined the tier in use
    FAIL_OPEN = "fail_open"  # nothing usable is left
    RECOVERY = "recovery"  # something is usable again
    OPERATOR = "operator"
    RELOAD = "reload"


@attrs.frozen(kw_only=True)
class Switch:
    """One change of a route's active set."""

    epoch: int
    route: RouteKey
    before: tuple[str, ...]
    after: tuple[str, ...]
    reason: SwitchReason
    detail: str = ""  # the evidence, in words
    at: float = 0.0
    wall_ms: int = 0


@attrs.frozen(kw_only=True)
class State:
    """Everything that decides, and nothing else. `reduce` is the only maker of new ones."""

    now: float = 0.0
    wall_ms: int = 0
    epoch: int = 0
    revision: int = 0
    config: Config
    health: Mapping[Endpoint, Health]
    pins: Mapping[RouteKey, str]
    overrides: Mapping[str, Override]
    routes: Mapping[RouteKey, Route]
    switches: tuple[Switch, ...] = ()  # oldest first, at most RECENT_SWITCHES
