"""Everything that can change a state. `at` is seconds since the gateway's start; `wall_ms` is for people only."""

import enum

import attrs

from ..config.schema import Config, Transport
from .model import Endpoint, Mark


class FailureKind(enum.Enum):
    """How live traffic failed at a node."""

    REFUSED = "refused"  # RST on connect, or ICMP port unreachable
    UNREACHABLE = "unreachable"  # host or network unreachable
    TIMEOUT = "timeout"  # connect not answered in time
    RESET = "reset"  # an established connection reset by the node before its first byte


@attrs.frozen(kw_only=True)
class _Timed:
    at: float
    wall_ms: int = 0


@attrs.frozen(kw_only=True)
class ProbeSucceeded(_Timed):
    """A probe had its answer after `latency` seconds."""

    endpoint: Endpoint
    latency: float


@attrs.frozen(kw_only=True)
class ProbeFailed(_Timed):
    """A probe failed; `error` says how in words ("connection refused", "dns: ...")."""

    endpoint: Endpoint
    error: str


@attrs.frozen(kw_only=True)
class ProbeSilent(_Timed):
    """A UDP probe without words to expect had neither an answer nor a refusal: no evidence either way."""

    endpoint: Endpoint


@attrs.frozen(kw_only=True)
class ForwardSucceeded(_Timed):
    """A live flow got through; sent only when `forward_success_matters` says that it would change something."""

    endpoint: Endpoint


@attrs.frozen(kw_only=True)
class ForwardFailed(_Timed):
    """Live traffic failed at a node.

    For `RESET`, `client_spoke` says that the client had sent something first, so that the client may be to blame.
    `client` is its address. `more` counts like failures that could not be sent when they happened.
    """

    endpoint: Endpoint
    kind: FailureKind
    client: str = ""
    client_spoke: bool = False
    more: int = 0


@attrs.frozen(kw_only=True)
class TripwireFired(_Timed):
    """An idle connection to the node broke, or a node reset an established flow: suspicion, no more."""

    endpoint: Endpoint


@attrs.frozen(kw_only=True)
class OperatorSwitched(_Timed):
    """Pin `node` as the active one; `transport` None is every transport that the node has."""

    node: str
    transport: Transport | None = None


@attrs.frozen(kw_only=True)
class OperatorReleased(_Timed):
    """Back to automatic choice: pins released, and a better tier that waits for an operator takes over."""

    transport: Transport | None = None


@attrs.frozen(kw_only=True)
class OperatorEnabled(_Timed):
    """Let `node` have traffic; undoes disable and drain."""

    node: str


@attrs.frozen(kw_only=True)
class OperatorDisabled(_Timed):
    """Keep new traffic away from `node`; its flows drain as configured."""

    node: str


@attrs.frozen(kw_only=True)
class OperatorDrained(_Timed):
    """Disable `node` with a deadline of its own: `timeout` seconds (0 = now, inf = never); None = as configured."""

    node: str
    timeout: float | None = None


@attrs.frozen(kw_only=True)
class OperatorMarked(_Timed):
    """Declare `node` up or down whatever the evidence says; `mark` None gives it back to the evidence."""

    node: str
    mark: Mark | None


@attrs.frozen(kw_only=True)
class ConfigApplied(_Timed):
    """A new configuration is in force; its sockets are bound."""

    config: Config


@attrs.frozen(kw_only=True)
class TimePassed(_Timed):
    """The moment that `next_wakeup` named has come."""


OperatorEvent = (
    OperatorSwitched | OperatorReleased | OperatorEnabled | OperatorDisabled | OperatorDrained | OperatorMarked
)
Event = (
    ProbeSucceeded
    | ProbeFailed
    | ProbeSilent
    | ForwardSucceeded
    | ForwardFailed
    | TripwireFired
    | OperatorEvent
    | ConfigApplied
    | TimePassed
)
