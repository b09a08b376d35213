"""The tuning that all scenarios share: table 1 of the paper. Keys that both its gateway and this one read.

What only this gateway knows (hedging, the fast probe interval) stays at its default unless an arm says otherwise.
"""

import json
from collections.abc import Mapping

from .artifact import Setting

TUNING: dict[str, Setting] = {
    "strategy": "priority",
    "config_poll_interval_ms": 100,
    "probe_interval_ms": 100,
    "probe_timeout_ms": 300,
    "connect_timeout_ms": 500,
    "failure_threshold": 3,
    "success_threshold": 2,
    "connect_retry": 3,
    "passive_eject_threshold": 3,
    "passive_eject_window_ms": 5000,
    "drain_timeout_ms": 1000,
    "udp_session_timeout_ms": 60000,
    "udp_rebind_on_switch": True,
    "fail_open": True,
    "shutdown_grace_ms": 5000,
}
SHARED_GLOBAL = frozenset({*TUNING, "log_level", "admin_listen"})  # keys that every gateway of the study must read
SHARED_NODE = frozenset(
    {"name", "enabled", "priority", "weight", "tcp", "udp", "remark"}
    | {"probe", "probe_payload", "probe_expect", "probe_interval_ms"}
)
NODES = "nodes."  # before a key of every node in overrides


def new_keys(overrides: Mapping[str, Setting]) -> list[str]:
    """Which of these overrides only this gateway is known to read."""
    return [
        key
        for key in overrides
        if (key.removeprefix(NODES) not in SHARED_NODE if key.startswith(NODES) else key not in SHARED_GLOBAL)
    ]


def split(overrides: Mapping[str, Setting]) -> tuple[dict[str, Setting], dict[str, Setting]]:
    """Overrides of `[global]`, and those of every node."""
    own = {key: value for key, value in overrides.items() if not key.startswith(NODES)}
    return own, {key.removeprefix(NODES): value for key, value in overrides.items() if key.startswith(NODES)}


def table(title: str, values: Mapping[str, Setting]) -> str:
    """A table of the configuration file; None leaves a key out."""
    lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items() if value is not None)
    return f"{title}\n{lines}"
