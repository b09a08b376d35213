"""The measurements, one function each: it puts a target under load for a while and returns figures by name."""

import contextlib
import json
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import attrs

from .processes import GRACE, Child, Load, RoundFailed
from .targets import DIRECT, HOST, SNIFFGATE, Ports, Target, configuration, most_connections, start

IN_FLIGHT = 32  # datagrams under way at once
CLIENTS = 4  # that connect, or send in bulk, at once
SPARE_NODES = 500  # in the configuration that is reloaded
HEAD_START = 0.1  # seconds that a disturbance has before round trips are timed under it
SETTLE = 0.3  # seconds for a gateway to finish what it does at its start or for the last connection
KIB = 1024
MB = 1_000_000
GB = 1_000_000_000

Figures = Mapping[str, float]


@attrs.frozen
class Settings:
    """How long and how much: `seconds` is for each measurement, `seconds_per_round` for all of them on all targets."""

    rounds: int = 5
    seconds: float = 0.5
    idle: int = 5000
    seconds_per_round: float = 33.0

    @property
    def limit(self) -> float:
        """Seconds after which nothing more is begun."""
        return self.rounds * self.seconds_per_round


@attrs.frozen
class Lab:
    """What a measurement works with: the nodes' own ports, the one that takes bulk, and a folder for fresh gateways."""

    nodes: Ports
    sink: Child
    settings: Settings
    folder: Path

    def fresh_folder(self) -> Path:
        """One that does not exist yet."""
        return self.folder / f"fresh-{time.monotonic_ns()}"


@attrs.frozen
class Trial:
    """A measurement: the group that `--only` names, and what it applies to."""

    group: str
    measure: Callable[[Lab, Target], Figures]
    applies: Callable[[Target], bool] = lambda _: True


def run_load(kind: str, port: int, seconds: float, count: int = 1) -> Mapping[str, float]:
    """One client from start to result. Errors: `RoundFailed`."""
    with Load(kind, port, seconds, count) as load:
        load.go()
        return load.result()


def tcp_round_trip(lab: Lab, target: Target) -> Figures:
    """64 bytes there and back on one connection: the median, and the slowest of a hundred."""
    result = run_load("tcp", target.ports.echo, lab.settings.seconds)
    return {"rtt_us": result["median_us"], "p99_us": result["p99_us"]}


def bulk(lab: Lab, target: Target) -> Figures:
    """One connection, as fast as it goes; what that costs the gateway, and the busier one of client and node.

    While the gateway is the busiest of the three, it is the gateway that is measured.
    """
    before, sink_before = _processor_time(target.child), lab.sink.processor_time()
    result = run_load("bulk", target.ports.sink, lab.settings.seconds)
    spent, sink_spent = _processor_time(target.child) - before, lab.sink.processor_time() - sink_before
    figures = {
        "bulk_mb_s": result["mb_s"],
        "load_s_per_gb": max(result["cpu_s"], sink_spent) / result["bytes"] * GB,
    }
    if target.child:
        figures["cpu_s_per_gb"] = spent / result["bytes"] * GB
    return figures


def _processor_time(child: Child | None) -> float:
    return child.processor_time() if child else 0.0


def connections(lab: Lab, target: Target) -> Figures:
    """Connect, one byte each way, close: one after another."""
    return {"conn_s": run_load("connections", target.ports.echo, lab.settings.seconds)["per_s"]}


def connections_of_four(lab: Lab, target: Target) -> Figures:
    """The same by four clients at once, added up."""
    with contextlib.ExitStack() as stack:
        loads = [
            stack.enter_context(Load("connections", target.ports.echo, lab.settings.seconds)) for _ in range(CLIENTS)
        ]
        for load in loads:
            load.go()
        return {"conn4_s": sum(load.result()["per_s"] for load in loads)}


def udp(lab: Lab, target: Target) -> Figures:
    """One datagram of 64 bytes at a time, then so many at once."""
    assert target.ports.udp is not None
    alone = run_load("udp", target.ports.udp, lab.settings.seconds)
    crowd = run_load("udp-rate", target.ports.udp, lab.settings.seconds, IN_FLIGHT)
    return {"udp_rtt_us": alone["median_us"], "udp_s": crowd["per_s"]}


def beside_bulk(lab: Lab, target: Target) -> Figures:
    """The slowest of a hundred round trips while four connections send in bulk."""
    with disturbance("bulk", target.ports.sink, lab.settings.seconds):
        return {"p99_bulk_us": run_load("tcp", target.ports.echo, lab.settings.seconds)["p99_us"]}


def beside_a_storm(lab: Lab, target: Target) -> Figures:
    """The slowest of a hundred round trips while a client opens connections as fast as it can."""
    with disturbance("connections", target.ports.echo, lab.settings.seconds):
        return {"p99_storm_us": run_load("tcp", target.ports.echo, lab.settings.seconds)["p99_us"]}


@contextlib.contextmanager
def disturbance(kind: str, port: int, seconds: float) -> Iterator[None]:
    """A load from before to after the block. Errors: `RoundFailed`, also when it ended in trouble itself."""
    with Load(kind, port, seconds + 4 * HEAD_START, CLIENTS) as load:
        load.go()
        time.sleep(HEAD_START)
        yield
        load.result()


def beside_a_reload(lab: Lab, target: Target) -> Figures:
    """The slowest of a hundred round trips while 500 nodes come, change and go."""
    priority = 0
    try:
        with Load("tcp", target.ports.echo, lab.settings.seconds) as load:
            load.go()
            until = time.monotonic() + lab.settings.seconds
            while time.monotonic() < until:
                priority -= 1
                reload(lab, target, [priority] * SPARE_NODES)
            result = load.result()
    finally:
        reload(lab, target, [])
    return {"p99_reload_us": result["p99_us"]}


def reload(lab: Lab, target: Target, spare: list[int]) -> None:
    """Gives sniffgate another configuration and waits until it is in force. Errors: `RoundFailed`."""
    assert target.folder is not None
    (target.folder / "sniffgate.toml").write_text(configuration(target.ports, lab.nodes, target.control, spare))
    try:
        with socket.create_connection((HOST, target.control), timeout=GRACE) as conn, conn.makefile() as answers:
            conn.sendall(b'{"cmd":"reload"}\n')
            answer = json.loads(answers.readline())
    except (OSError, ValueError) as error:
        raise RoundFailed(f"the reload was not answered: {error}") from None
    if answer.get("ok") is not True:
        raise RoundFailed(f"the reload failed: {answer.get('error')}")


def start_up(lab: Lab, target: Target) -> Figures:
    """A fresh process: to its first answer to a client, and what it holds then."""
    assert target.kind is not None
    fresh, took = start(target.kind, lab.nodes, lab.fresh_folder())
    assert fresh.child is not None
    with fresh.child:
        time.sleep(SETTLE)
        return {"start_ms": took * 1000, "start_mb": fresh.child.memory() / MB}


def idle_connections(lab: Lab, target: Target) -> Figures:
    """What each of many idle connections adds to the resident memory of a fresh process."""
    assert target.kind is not None
    count = min(lab.settings.idle, most_connections())
    fresh, _ = start(target.kind, lab.nodes, lab.fresh_folder())
    assert fresh.child is not None
    with fresh.child, Load("idle", fresh.ports.echo, 0.0, count) as load:
        time.sleep(SETTLE)
        before = fresh.child.memory()
        load.go()
        load.result(GRACE + count / 500)
        time.sleep(SETTLE)
        return {"idle_kib": (fresh.child.memory() - before) / count / KIB}


def _is_gateway(target: Target) -> bool:
    return target.name != DIRECT


TRIALS = (
    Trial("rtt", tcp_round_trip),
    Trial("bulk", bulk),
    Trial("conn", connections),
    Trial("conn", connections_of_four),
    Trial("udp", udp, lambda target: target.ports.udp is not None),
    Trial("fairness", beside_bulk),
    Trial("fairness", beside_a_storm),
    Trial("fairness", beside_a_reload, lambda target: target.name == SNIFFGATE),
    Trial("start", start_up, _is_gateway),
    Trial("memory", idle_connections, _is_gateway),
)
GROUPS = tuple(dict.fromkeys(trial.group for trial in TRIALS))
