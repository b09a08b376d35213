"""The configuration file changes under a running gateway."""

import itertools
import random
import time
from contextlib import closing

from ..clients import exchange
from ..control import Reply, dig
from ..gateway import Gateway
from ..lab import Lab
from ..nodes import Node, clock, since
from ..scenario import TrialFailed, scenario
from ..watching import Watcher
from .settling import settled_pair

PHASE = 0.1  # seconds: a file changes at a random moment between two looks at it
LIMIT = 5.0  # seconds for a new file to take effect
STILL = 0.5  # seconds in which a refused file must change nothing
STEPS = ("added", "broken", "removed")
ENDS = 3.0  # seconds for a connection with a removed node to end


@scenario(
    "reload",
    "A node is added, a broken file is written, a node is removed",
    "How soon does a new file take effect, is a broken one refused as a whole, and what does each do to the epoch?",
    harness="first",
    trials=3,
    seconds=3.2,
)
def reload(lab: Lab) -> None:
    """Adds node-c as the new primary, breaks the file, and takes node-c away again."""
    gateway, a, b = settled_pair(lab)
    c = lab.node("node-c", priority=90)
    epochs = [_epoch(gateway)]
    lab.record("added_ms", "ms", _write_and_wait(gateway, [a, b, c], "node-c"))
    lab.check_active(gateway, "node-c")
    epochs.append(_epoch(gateway))
    with closing(gateway.door.connect()) as held:
        if exchange(held) != "node-c":
            raise TrialFailed("a new client does not meet the node that was added")
        _break(lab, gateway, [a, b, c])
        lab.record("open_connection_after_broken_file", "word", exchange(held))
        lab.check_active(gateway, "node-c")
        epochs.append(_epoch(gateway))
        lab.record("removed_ms", "ms", _write_and_wait(gateway, [a, b], "node-a"))
        removed = clock()
        lab.check_active(gateway, "node-a")
        epochs.append(_epoch(gateway))
        held.settimeout(ENDS)
        try:
            held.recv(1)
            lab.record("connection_of_removed_ended_ms", "ms", since(removed, clock()))
        except TimeoutError:
            lab.note(f"the connection with the removed node was open {ENDS:g} s later")
        except OSError:
            lab.record("connection_of_removed_ended_ms", "ms", since(removed, clock()))
    for key, (before, after) in zip(STEPS, itertools.pairwise(epochs), strict=True):
        if before is None or after is None:
            lab.absent(f"epochs_{key}", "its status has no epoch")
        else:
            lab.record(f"epochs_{key}", "count", after - before)


def _write_and_wait(gateway: Gateway, nodes: list[Node], name: str) -> float:
    """Milliseconds from the new file to the move. Errors: `Absent` when a file, even on `reload`, changes nothing."""
    time.sleep(random.uniform(0.0, PHASE))
    with Watcher(gateway) as watcher:
        began = clock()
        gateway.write(nodes)
        what = f"the move to {name} after the file changed"
        try:
            return since(began, watcher.until(lambda change: change.after == name, what, LIMIT).at)
        except TrialFailed as failure:
            gateway.ask("reload")  # `Absent` when it knows no such command either
            raise TrialFailed(f"{failure}; `reload` was accepted") from None


def _break(lab: Lab, gateway: Gateway, nodes: list[Node]) -> None:
    good = "".join(node.table() for node in nodes)
    began = clock()
    gateway.write(f"{good}[[nodes]\n")
    with lab.perhaps("refused_ms", "refusal"):
        refused = gateway.until(_is_refused, "the refusal of a broken file", LIMIT)
        lab.record("refused_ms", "ms", since(began, refused))
        lab.record("refusal", "word", _refusal(gateway))
    time.sleep(STILL)


def _is_refused(status: Reply) -> bool:
    last = dig(status, "reload")
    return bool(last) and dig(last, "ok") is False


def _refusal(gateway: Gateway) -> str:
    return str(dig(gateway.status(), "reload", "message")).replace(str(gateway.path), gateway.path.name)


def _epoch(gateway: Gateway) -> int | None:
    epoch = gateway.status().get("epoch")
    return epoch if isinstance(epoch, int) else None
