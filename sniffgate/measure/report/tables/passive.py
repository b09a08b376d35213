"""Nodes that are not probed, and what happens when no node is left."""

from ..facts import Facts
from ..original import Original
from ..table import Table
from .rows import Row, compared

TWO, ONE = "`probe = none`, threshold 2", "`probe = none`, threshold 1"
PASSIVE = (
    Row(TWO, "what a client waited", "passive/threshold-2/attempt_ms", original="PassiveTwoAttemptMs"),
    Row(TWO, "ejections", "passive/threshold-2/ejections", "", "PassiveTwoEjections"),
    Row(TWO, "ejected after the kill", "passive/threshold-2/ejected_at_ms"),
    Row(TWO, "returns of the dead node", "passive/threshold-2/resurrections", ""),
    Row(TWO, "probes claimed to have succeeded", "passive/threshold-2/probes_claimed", "", "PassiveTwoProbes"),
    Row(ONE, "what a client waited", "passive/threshold-1/attempt_ms"),
    Row(ONE, "ejections", "passive/threshold-1/ejections", "", "PassiveOneEjections"),
    Row(ONE, "ejected after the kill", "passive/threshold-1/ejected_at_ms"),
    Row(ONE, "returns of the dead node", "passive/threshold-1/resurrections", "", "PassiveOneResurrections"),
    Row(ONE, "probes claimed to have succeeded", "passive/threshold-1/probes_claimed", ""),
)
OPEN, CLOSED = "`fail_open = true`", "`fail_open = false`"
FAILMODE = (
    Row(OPEN, "client accepted after", "failmode/open/accepted_ms", original="FailOpenAcceptMs"),
    Row(OPEN, "its connection ended after", "failmode/open/ended_ms", original="FailOpenCloseMs"),
    Row(OPEN, "how it ended", "failmode/open/ending", "", "closed"),
    Row(OPEN, "bytes received", "failmode/open/received", "", "0"),
    Row(OPEN, "served again after a node's return", "failmode/open/served_again_ms"),
    Row(CLOSED, "client accepted after", "failmode/closed/accepted_ms"),
    Row(CLOSED, "its connection ended after", "failmode/closed/ended_ms"),
    Row(CLOSED, "how it ended", "failmode/closed/ending", ""),
    Row(CLOSED, "bytes received", "failmode/closed/received", ""),
    Row(CLOSED, "served again after a node's return", "failmode/closed/served_again_ms"),
)


def passive(facts: Facts, paper: Original) -> Table:
    """Ejection by live traffic alone, and whether the dead node comes back."""
    return compared("passive", "A node without probes dies under requests", PASSIVE, facts, paper)


def failmode(facts: Facts, paper: Original) -> Table:
    """What a client is told when nobody can serve it."""
    return compared("failmode", "All nodes are dead", FAILMODE, facts, paper)
