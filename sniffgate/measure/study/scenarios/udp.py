"""UDP that fails while TCP lives, and UDP sessions while new traffic is moved."""

import time

from ..lab import Lab
from ..nodes import clock, since
from ..scenario import ArmPlan, TrialFailed, scenario
from ..streams import Stream, udp_stream
from .settling import settled_udp_pair

STREAM, STREAM_PAUSE, CLOSED_AT = 120, 0.031, 20  # so that 100 datagrams come after the failure, over 3.1 s
BURST, BURST_PAUSE, SWITCHED_AT = 200, 0.0005, 100
ANSWERED = 0.015  # seconds after a datagram in which it has been answered: the port closes between two


@scenario(
    "udp",
    "The UDP socket alone closes; a switch in the middle of a burst",
    "Is a failure of UDP alone seen, and do sessions move when traffic is moved?",
    harness="first",
    trials=3,
    seconds=2.7,
    arms=(
        ArmPlan("socket-closed", "node-a closes its UDP socket and goes on over TCP"),
        ArmPlan("switch", "switch over UDP in the middle of a burst"),
        ArmPlan("switch-no-rebind", "the same, sessions stay where they are", {"udp_rebind_on_switch": False}),
    ),
)
def udp(lab: Lab) -> None:
    """One session of numbered datagrams through whatever happens."""
    if lab.arm.name == "socket-closed":
        _close_socket(lab)
    else:
        _switch(lab)


def _close_socket(lab: Lab) -> None:
    gateway, a, _ = settled_udp_pair(lab)
    closed: list[float] = []

    def close() -> None:  # what the closing port had taken is no loss of the gateway's
        time.sleep(ANSWERED)
        closed.append(a.close_udp())

    stream = udp_stream(gateway.door, STREAM, STREAM_PAUSE, {CLOSED_AT: close})
    if any(number <= CLOSED_AT for number in stream.lost):
        raise TrialFailed("datagrams were lost before anything failed")
    lab.record("sent", "datagrams", STREAM - CLOSED_AT)
    lab.record("lost", "datagrams", len(stream.lost))
    lab.record("over_ms", "ms", since(stream.sent[CLOSED_AT], stream.sent[-1]))
    _record_first(lab, stream, closed[0])
    lab.record("claimed_healthy", "yes", bool(gateway.node("node-a").get("healthy")))
    lab.record("tcp_node", "word", gateway.door.ask())
    lab.record("new_session_node", "word", gateway.door.ask_udp())


def _switch(lab: Lab) -> None:
    gateway, *_ = settled_udp_pair(lab)
    moved: list[float] = []

    def switch() -> None:
        moved.append(clock())
        gateway.ask("switch node-b udp")

    stream = udp_stream(gateway.door, BURST, BURST_PAUSE, {SWITCHED_AT: switch})
    lab.record("sent", "datagrams", BURST)
    lab.record("lost", "datagrams", len(stream.lost))
    lab.record("duplicates", "datagrams", stream.duplicates)
    lab.record("answer_ms", "ms", *stream.round_trips())
    _record_first(lab, stream, moved[0])
    lab.record("last_node", "word", stream.answers[max(stream.answers)].node)
    lab.check_active(gateway, "node-b", "udp")
    lab.record("tcp_node", "word", gateway.door.ask())


def _record_first(lab: Lab, stream: Stream, began: float) -> None:
    first = stream.first_from("node-b")
    lab.record("session_moved", "yes", first is not None)
    if first is not None:
        lab.record("first_from_standby_ms", "ms", since(began, first))
