"""sniffgate: a TCP/UDP failover gateway on Trio.

Clients know one address; behind it stand several nodes; when the active node fails, traffic moves to the next.

    gateway = await nursery.start(sniffgate.serve, sniffgate.load_file("sniffgate.toml"))

Names are imported when they are first used, so that `sniffgate --help` does not wait for Trio.
"""

import importlib
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .address import Address as Address
    from .address import parse_address as parse_address
    from .app import serve as serve
    from .app import serve_until_signalled as serve_until_signalled
    from .app import tune_interpreter as tune_interpreter
    from .config.load import load_file as load_file
    from .config.load import load_text as load_text
    from .config.schema import Config as Config
    from .config.schema import Failback as Failback
    from .config.schema import FlowLogMode as FlowLogMode
    from .config.schema import GlobalConfig as GlobalConfig
    from .config.schema import ListenerConfig as ListenerConfig
    from .config.schema import NodeConfig as NodeConfig
    from .config.schema import PoolConfig as PoolConfig
    from .config.schema import ProbeKind as ProbeKind
    from .config.schema import Strategy as Strategy
    from .config.schema import Transport as Transport
    from .errors import CannotBind as CannotBind
    from .errors import CommandRefused as CommandRefused
    from .errors import ConfigError as ConfigError
    from .errors import SniffgateError as SniffgateError
    from .tasks.gateway import Gateway as Gateway

_HOMES = {
    "address": ("Address", "parse_address"),
    "app": ("serve", "serve_until_signalled", "tune_interpreter"),
    "config.load": ("load_file", "load_text"),
    "config.schema": (
        "Config", "Failback", "FlowLogMode", "GlobalConfig", "ListenerConfig", "NodeConfig", "PoolConfig", "ProbeKind",
        "Strategy", "Transport",
    ),
    "errors": ("CannotBind", "CommandRefused", "ConfigError", "SniffgateError"),
    "tasks.gateway": ("Gateway",),
}  # fmt: skip
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [*_HOME, "__version__"]

if not TYPE_CHECKING:  # a type checker is to complain of names that are not there

    def __getattr__(name: str) -> object:
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
