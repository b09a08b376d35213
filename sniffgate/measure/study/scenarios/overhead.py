"""What forwarding costs: the same loads with and without a gateway, and through peers where they are installed."""

import contextlib
import socket
import time
from collections.abc import Iterator

import attrs

from ...processes import Child, RoundFailed
from ...targets import HAProxy, Kind, Nginx, Ports, open_nodes, start
from ..clients import Door
from ..lab import Lab
from ..nodes import HOST, clock
from ..scenario import Absent, ArmPlan, TrialFailed, scenario
from ..tuning import table

ROUND_TRIPS = 500  # of each transport
WARM_UP = 50  # more, before them
PAYLOAD = bytes(range(64))
BULK = 32 << 20  # bytes, as in the paper
TRANSFERS = 10  # of so many bytes
BLOCK = bytes(1 << 20)
CONNECTIONS = 100
SETTLE = 0.3  # seconds for a gateway to finish what it does at its start
PEERS: dict[str, type[HAProxy | Nginx]] = {"haproxy": HAProxy, "nginx": Nginx}


@attrs.frozen
class Way:
    """A way to the nodes: where its clients come in, and the process that forwards on it, if there is one."""

    echo: int
    udp: int | None
    sink: int
    echoing: Child | None = None  # forwards round trips and connections
    sinking: Child | None = None  # forwards bulk


@scenario(
    "overhead",
    "The cost of forwarding",
    "What does the gateway add to talking to a node directly, in round trips, bulk, connections, processor and memory?",
    harness="first",
    trials=5,
    seconds=1.1,
    overrides={"config_poll_interval_ms": 60000, "probe_interval_ms": 1000},
    arms=(
        ArmPlan("direct", "no gateway"),
        ArmPlan("gateway", "the gateway under test"),
        ArmPlan("haproxy", "HAProxy, one thread, splicing"),
        ArmPlan("nginx", "nginx stream, one worker"),
    ),
)
def overhead(lab: Lab) -> None:
    """Round trips, 32 MiB, a hundred connections; the other arms have their turn in between."""
    with open_nodes() as (nodes, _), _way(lab, nodes) as way:
        if way.echoing is not None:
            lab.record("rss_mb", "MB", way.echoing.memory() / 1e6)
        with Door(way.echo).connect() as conn:
            lab.record("tcp_rtt_us", "µs", *_round_trips(conn))
        if way.udp is not None and _answers_udp(way.udp):
            with Door(way.udp).udp() as conn:
                lab.record("udp_rtt_us", "µs", *_round_trips(conn))
        else:
            lab.absent("udp_rtt_us", "it does not forward UDP")
        lab.record("connection_ms", "ms", *(_connection(way.echo) for _ in range(CONNECTIONS)))
        with lab.perhaps("bulk_mb_s", "bulk_cpu_percent"):
            _record_bulk(lab, way)
        if way.echoing is not None:
            lab.record("rss_after_mb", "MB", way.echoing.memory() / 1e6)


def _answers_udp(port: int) -> bool:
    with Door(port).udp(within=1.0) as conn, contextlib.suppress(OSError):
        conn.send(PAYLOAD)
        return conn.recv(len(PAYLOAD)) == PAYLOAD
    return False


def _round_trips(conn: socket.socket) -> list[float]:
    """Microseconds of each. Errors: `TrialFailed` when something else comes back."""
    took = []
    for _ in range(WARM_UP + ROUND_TRIPS):
        began = clock()
        conn.send(PAYLOAD)
        answer = conn.recv(len(PAYLOAD))
        took.append(1e6 * (clock() - began))
        if answer != PAYLOAD:
            raise TrialFailed("something else than what was sent came back")
    return took[WARM_UP:]


def _connection(port: int) -> float:
    """Milliseconds to connect, send a byte, have it back, and close."""
    began = clock()
    with Door(port).connect() as conn:
        conn.send(b"x")
        if conn.recv(1) != b"x":
            raise TrialFailed("a connection ended without an answer")
    return 1000 * (clock() - began)


def _record_bulk(lab: Lab, way: Way) -> None:
    """The rate of each transfer, and the processor's time that all of them took the gateway."""
    spent = way.sinking.processor_time() if way.sinking else 0.0
    rates = [_transfer(way.sink) for _ in range(TRANSFERS)]
    lab.record("bulk_mb_s", "MB/s", *rates)
    if way.sinking:
        busy = sum(BULK / rate / 1e6 for rate in rates)
        lab.record("bulk_cpu_percent", "% of a core", 100 * (way.sinking.processor_time() - spent) / busy)


def _transfer(port: int) -> float:
    """MB/s of 32 MiB to the sink, until it has confirmed the last byte. Errors: `Absent`, `TrialFailed`."""
    with Door(port).connect() as conn:
        began = clock()
        for _ in range(BULK // len(BLOCK)):
            conn.sendall(BLOCK)
        conn.shutdown(socket.SHUT_WR)
        answer = b""
        with contextlib.suppress(OSError):
            answer = conn.recv(8, socket.MSG_WAITALL)
        took = clock() - began
    if not answer:
        raise Absent("it does not keep the other direction open once a client has ended its own")
    if int.from_bytes(answer, "big") != BULK:
        raise TrialFailed(f"{int.from_bytes(answer, 'big')} of {BULK} bytes arrived")
    return BULK / took / 1e6


@contextlib.contextmanager
def _way(lab: Lab, nodes: Ports) -> Iterator[Way]:
    assert nodes.udp is not None
    if lab.arm.name == "direct":
        yield Way(nodes.echo, nodes.udp, nodes.sink)
    elif lab.arm.name == "gateway":
        # One gateway before each node: a file without pools, which any gateway of the study reads, has one route.
        echoing, sinking = (
            lab.gateway(table("[[nodes]]", {"name": "node", "tcp": f"{HOST}:{port}", "udp": f"{HOST}:{nodes.udp}"}))
            for port in (nodes.echo, nodes.sink)
        )
        time.sleep(SETTLE)
        yield Way(echoing.door.port, echoing.door.port, sinking.door.port, echoing.child, sinking.child)
    else:
        with _peer(lab, PEERS[lab.arm.name](), nodes) as way:
            yield way


@contextlib.contextmanager
def _peer(lab: Lab, kind: Kind, nodes: Ports) -> Iterator[Way]:
    if kind.absent:
        raise Absent(kind.absent)
    try:
        target, _ = start(kind, nodes, lab.folder / kind.name)
    except RoundFailed as error:
        raise Absent(str(error)) from None
    assert target.child is not None
    with target.child:
        time.sleep(SETTLE)
        yield Way(target.ports.echo, target.ports.udp, target.ports.sink, target.child, target.child)
