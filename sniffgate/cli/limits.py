"""How many flows this process has descriptors for."""

import resource

from ..config.schema import Config, GlobalConfig, Transport

RESERVE = 100  # descriptors for listeners, probes, control connections, logs and the interpreter itself
PER_FLOW = 2  # a connection to the client and one to the node; a session's socket, and the next one while it moves
_UNASKED = GlobalConfig().udp_max_sessions
_PLENTY = 1_000_000  # where the limit is none, or higher than any machine fills


def raise_descriptor_limit() -> int:
    """Raises the soft limit of open descriptors to the hard one; returns what is in force then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):  # refused by a security module, or a system that takes no infinity
            return _PLENTY if soft == resource.RLIM_INFINITY else soft
    return _PLENTY if hard == resource.RLIM_INFINITY else hard


def most_flows(descriptors: int) -> int:
    """How many flows fit into that many descriptors; at least one."""
    return max(1, (descriptors - RESERVE) // PER_FLOW)


def shortfalls(config: Config, descriptors: int) -> list[str]:
    """What the configuration promises and the descriptors do not allow, a sentence each.

    The default of `udp_max_sessions` is nobody's promise: it only bounds what a stranger can take.
    """
    room = most_flows(descriptors)
    said = []
    for listener in config.listeners:
        if listener.protocol is Transport.TCP and listener.max_connections is not None:
            key, asked = "max_connections", listener.max_connections
        elif listener.protocol is Transport.UDP and config.globals.udp_max_sessions != _UNASKED:
            key, asked = "udp_max_sessions", config.globals.udp_max_sessions
        else:
            continue
        if asked > room:
            said.append(
                f"listener {listener.name}: {key} is {asked}, but the limit of {descriptors} open files allows "
                f"{room} flows in all"
            )
    return said
