"""What the gateway claims, held against what clients and nodes saw. A claim that does not hold is `Lied`."""

import time

from .gateway import Gateway
from .nodes import Node, Seen
from .scenario import Lied

TRIES = 5  # new clients that may still meet the old node after a claim
PAUSE = 0.05  # seconds between two of them: a claim may be early by as much in all, but not wrong


def check_active(gateway: Gateway, name: str, transport: str = "tcp") -> None:
    """That new clients meet the node which the status names as active. Errors: `Lied`."""
    met = []
    for _ in range(TRIES):
        met.append(gateway.door.ask() if transport == "tcp" else gateway.door.ask_udp())
        if met[-1] == name:
            return
        time.sleep(PAUSE)
    raise Lied(
        f"claimed: {name} is active over {transport}; seen: {TRIES} of {TRIES} new clients were answered by "
        f"{' and '.join(sorted(set(met)))}"
    )


def check_probes(name: str, claimed: int, before: Seen, after: Seen, slack: int = 3) -> None:
    """That a node saw as many probes as are claimed, but for `slack` at the two ends. Errors: `Lied`."""
    seen = after.accepted - before.accepted + after.datagrams - before.datagrams
    if claimed > seen + slack:
        raise Lied(f"claimed: {claimed} probes of {name} succeeded; seen: {seen} reached it")


def check_answers(node: Node, met: int) -> None:
    """That a node had as many requests as clients had answers in its name. Errors: `Lied`."""
    seen = node.seen()
    if met > seen.requests + seen.datagrams:
        raise Lied(
            f"claimed: {met} answers to clients come from {node.name}; seen: {seen.requests + seen.datagrams} requests "
            "reached it"
        )
