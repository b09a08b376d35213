"""The scenarios, one module for each idea. Importing this fills `SCENARIOS`, in the order of the study."""

from . import startup, failover, passive, udp, probe, drain, reload, overhead, failmode  # isort: skip  # the order of the study
from . import grid, blind, flap, load, none  # isort: skip  # the second harness
from . import blackhole, frozen, tripwire, failback, udpstream  # isort: skip  # beyond the paper

__all__ = [
    "blackhole",
    "blind",
    "drain",
    "failback",
    "failmode",
    "failover",
    "flap",
    "frozen",
    "grid",
    "load",
    "none",
    "overhead",
    "passive",
    "probe",
    "reload",
    "startup",
    "tripwire",
    "udp",
    "udpstream",
]
