"""The scenarios, one module for each idea. Importing this fills `SCENARIOS`, in the order of the study."""

from . import startup, failover, passive, udp, probe, drain, reload, overhead, failmode  # isort: skip  # the order of the study

__all__ = ["drain", "failmode", "failover", "overhead", "passive", "probe", "reload", "startup", "udp"]
