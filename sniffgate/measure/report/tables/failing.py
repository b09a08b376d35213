"""Nodes that fail: how soon it is noticed, when the next client is served, and what happens with no node left."""

from ..facts import Facts
from ..original import Original
from ..table import Table
from .rows import Row, compared

KILLED, QUIET = "node killed, a client comes at once", "node killed, no client"
BY_TCP, BY_UDP = "node killed, TCP probes, no client", "node killed, UDP probes, no client"
GRAY, BLIND = "accepts, never answers; probes expect an answer", "accepts, never answers; probes only connect"
FAILOVER = (
    Row(KILLED, "first new request answered", "failover/traffic/first_request_ms", original="FailoverFirstMs"),
    Row(KILLED, "new traffic moved for good", "failover/traffic/switch_ms", original="FailoverSwitchMs"),
    Row(KILLED, "traffic back after the restart", "failover/traffic/recovery_ms", original="FailoverBackMs"),
    Row(KILLED, "its open connection ended", "failover/traffic/open_connection_ended", ""),
    Row(QUIET, "new traffic moved for good", "failover/quiet/switch_ms"),
    Row(QUIET, "traffic back after the restart", "failover/quiet/recovery_ms"),
    Row(
        "node killed, TCP probes, no client", "new traffic moved for good", "probe/tcp/switch_ms", original="ProbeTcpMs"
    ),
    Row(
        "node killed, UDP probes, no client", "new traffic moved for good", "probe/udp/switch_ms", original="ProbeUdpMs"
    ),
    Row(GRAY, "new traffic moved for good", "gray/expecting/switch_ms", original="GrayMs"),
    Row(GRAY, "client that waited for it ended", "gray/expecting/stuck_client_ended_ms"),
    Row(BLIND, "new traffic moved", "gray/connect-only/switched", ""),
    Row(BLIND, "node claimed to be healthy", "gray/connect-only/claimed_healthy", ""),
    Row(BLIND, "requests answered", "gray/connect-only/requests_answered", "requests"),
    Row(BLIND, "requests made", "gray/connect-only/requests", "requests"),
)


def failover(facts: Facts, paper: Original) -> Table:
    """Detection, the first request and the way back, by how the failure shows itself."""
    return compared("failover", "Failover by how the failure shows itself", FAILOVER, facts, paper)
