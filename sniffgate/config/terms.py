"""The closed vocabularies of a configuration, and the names it gives to endpoints and routes."""

import enum
from typing import NamedTuple


class Transport(enum.Enum):
    """What carries a flow."""

    TCP = "tcp"
    UDP = "udp"

    # Members are singletons. Enum's own hash is a Python call, made for every endpoint that is looked up.
    __hash__ = object.__hash__

    @property
    def sibling(self) -> "Transport":
        """The other one."""
        return Transport.UDP if self is Transport.TCP else Transport.TCP


class Strategy(enum.Enum):
    """How the active set of a route is formed."""

    PRIORITY = "priority"
    ROUND_ROBIN = "round_robin"
    WEIGHTED = "weighted"


class Failback(enum.Enum):
    """Whether a recovered better tier takes over by itself."""

    AUTO = "auto"
    MANUAL = "manual"


class ProbeKind(enum.Enum):
    """Which transport is probed for a node."""

    AUTO = "auto"
    TCP = "tcp"
    UDP = "udp"
    NONE = "none"


class FlowLogMode(enum.Enum):
    """Which finished flows get a line in the flow log."""

    FAILED = "failed"
    OFF = "off"
    ALL = "all"


class Endpoint(NamedTuple):
    """One node over one transport. Health, ejection and draining belong to endpoints."""

    node: str
    transport: Transport

    def __str__(self) -> str:
        return f"{self.node}/{self.transport.value}"

    @property
    def sibling(self) -> "Endpoint":
        """The same node over the other transport, whether it has an address there or not."""
        return Endpoint(self.node, self.transport.sibling)


class RouteKey(NamedTuple):
    """One pool over one transport."""

    pool: str
    transport: Transport

    def __str__(self) -> str:
        return f"{self.pool}/{self.transport.value}"
