"""A kit for tests of what talks to a gateway, or through one: docs/testing.md.

Names are imported when they are first used, so that the pytest plugin costs nothing where it is not.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .backends import Node as Node
    from .detour import Detour as Detour
    from .embedding import open_gateway as open_gateway
    from .embedding import open_real_gateway as open_real_gateway
    from .expectations import expect_active as expect_active
    from .expectations import expect_drained as expect_drained
    from .expectations import expect_healthy as expect_healthy
    from .factory import EachFactory as EachFactory
    from .factory import GatewayFactory as GatewayFactory
    from .factory import RealGatewayFactory as RealGatewayFactory
    from .faults import FaultyNode as FaultyNode
    from .faults import Trouble as Trouble
    from .known import UnknownName as UnknownName
    from .moments import exact as exact
    from .moments import now as now
    from .real_node import RealNode as RealNode
    from .scripts import SCRIPTS as SCRIPTS
    from .scripts import Client as Client
    from .scripts import Script as Script
    from .seeding import deterministic as deterministic
    from .seeding import run_virtual as run_virtual
    from .shaping import Shape as Shape
    from .streams import ConnStream as ConnStream
    from .subject import GatewayCrashed as GatewayCrashed
    from .subject import GatewayUnderTest as GatewayUnderTest
    from .subject import RealGateway as RealGateway
    from .subject import VirtualGateway as VirtualGateway
    from .talking import Ending as Ending
    from .talking import ending as ending
    from .talking import exchange as exchange
    from .talking import silence as silence
    from .virtual import VirtualNetwork as VirtualNetwork
    from .watching import has as has
    from .watching import is_active as is_active
    from .watching import when as when

_HOMES = {
    "backends": ("Node",),
    "detour": ("Detour",),
    "embedding": ("open_gateway", "open_real_gateway"),
    "expectations": ("expect_active", "expect_drained", "expect_healthy"),
    "factory": ("EachFactory", "GatewayFactory", "RealGatewayFactory"),
    "faults": ("FaultyNode", "Trouble"),
    "known": ("UnknownName",),
    "moments": ("exact", "now"),
    "real_node": ("RealNode",),
    "scripts": ("SCRIPTS", "Client", "Script"),
    "seeding": ("deterministic", "run_virtual"),
    "shaping": ("Shape",),
    "streams": ("ConnStream",),
    "subject": ("GatewayCrashed", "GatewayUnderTest", "RealGateway", "VirtualGateway"),
    "talking": ("Ending", "ending", "exchange", "silence"),
    "virtual": ("VirtualNetwork",),
    "watching": ("has", "is_active", "when"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [*_HOME]

if not TYPE_CHECKING:  # a type checker is to complain of names that are not there

    def __getattr__(name: str) -> object:
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
