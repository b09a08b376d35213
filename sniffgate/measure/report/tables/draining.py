"""What becomes of what is open, connections and UDP sessions, and of the file's changes."""

from ..facts import Facts
from ..original import Original
from ..table import Table
from .rows import Row, compared

BOTH, ALONE, ZERO = "switch over both transports", "switch over TCP alone", "`drain_timeout_ms = 0`"
DRAIN = (
    Row(BOTH, "old connection closed after", "drain/both/closed_ms", original="DrainBothMs"),
    Row(BOTH, "node said to be draining", "drain/both/claimed_draining", ""),
    Row(ALONE, "old connection closed after", "drain/tcp-only/closed_ms", original="alive beyond {DrainTcpBeyondMs}"),
    Row(ALONE, "node said to be draining", "drain/tcp-only/claimed_draining", "", "no"),
    Row(ZERO, "old connection closed after", "drain/zero/closed_ms", original="alive beyond {DrainZeroBeyondMs}"),
)
SOCKET, SWITCH, STAY = "UDP socket closed, TCP lives", "switch in the middle of a burst", "the same, no rebind"
UDP = (
    Row(SOCKET, "lost after it closed", "udp/socket-closed/lost", "datagrams", "UdpLost"),
    Row(SOCKET, "sent after it closed", "udp/socket-closed/sent", "datagrams", "UdpSent"),
    Row(SOCKET, "over", "udp/socket-closed/over_ms", original="UdpOverMs"),
    Row(SOCKET, "first answer from the standby", "udp/socket-closed/first_from_standby_ms", original="never"),
    Row(SOCKET, "new TCP clients meet", "udp/socket-closed/tcp_node", ""),
    Row(SOCKET, "new UDP sessions meet", "udp/socket-closed/new_session_node", ""),
    Row(SWITCH, "lost", "udp/switch/lost", "datagrams", "UdpSwitchLost"),
    Row(SWITCH, "sent", "udp/switch/sent", "datagrams", "UdpSwitchSent"),
    Row(SWITCH, "first answer from the standby", "udp/switch/first_from_standby_ms", original="UdpSwitchFirstMs"),
    Row(STAY, "lost", "udp/switch-no-rebind/lost", "datagrams"),
    Row(STAY, "session moved", "udp/switch-no-rebind/session_moved", ""),
)
ADDED, BROKEN, REMOVED = "a better node is added", "the file is broken", "the node is removed"
RELOAD = (
    Row(ADDED, "new traffic goes there after", "reload/default/added_ms"),
    Row(ADDED, "epochs", "reload/default/epochs_added", ""),
    Row(BROKEN, "refused after", "reload/default/refused_ms"),
    Row(BROKEN, "epochs", "reload/default/epochs_broken", ""),
    Row(REMOVED, "new traffic is back after", "reload/default/removed_ms"),
    Row(REMOVED, "its open connection ended after", "reload/default/connection_of_removed_ended_ms"),
    Row(REMOVED, "epochs", "reload/default/epochs_removed", ""),
)


def drain(facts: Facts, paper: Original) -> Table:
    """Who drains, when, and for how long."""
    return compared("drain", "A connection that is open when an operator switches", DRAIN, facts, paper)


def udp(facts: Facts, paper: Original) -> Table:
    """Whether a failure of UDP alone is seen, and whether sessions move."""
    return compared("udp", "Datagrams while their node fails or is left", UDP, facts, paper)


def reload(facts: Facts, paper: Original) -> Table:
    """How soon a changed file is in force."""
    return compared("reload", "The configuration file changes", RELOAD, facts, paper)
