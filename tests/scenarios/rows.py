"""The rows of the failover table, on real processes: each is one run of one scenario and returns one figure.

Node and gateway are new in each run. Failures strike at a random moment between two probes.
"""

import random
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import attrs

from sniffgate.measure.study.streams import udp_stream
from tests.scenarios.processes import Gateway, Node, clock

WORDS = {"probe_payload": "ping", "probe_expect": "ping"}
IDLE = 1000  # connections
Nodes = tuple[Gateway, Node, Node]


@attrs.frozen
class Row:
    """One line of the table. `most`: what the median of the runs is to stay within."""

    name: str
    title: str
    unit: str
    most: float
    run: Callable[[], float]
    least: float = 0.0


ROWS: dict[str, Row] = {}


def row(title: str, most: float, unit: str = "ms", *, least: float = 0.0) -> Callable[[Callable[[], float]], Row]:
    """Enters a scenario in the table under the name of its function."""

    def enter(run: Callable[[], float]) -> Row:
        name = run.__name__.replace("_", "-")
        ROWS[name] = Row(name, title, unit, most, run, least)
        return ROWS[name]

    return enter


@contextmanager
def pair(node: dict[str, Any] | None = None, **settings: Any) -> Iterator[Nodes]:
    """A gateway with its primary, node-a, and its standby, node-b; both known to be healthy if they are probed."""
    fields = node or {}
    with ExitStack() as stack:
        a, b = (stack.enter_context(Node(name)) for name in ("node-a", "node-b"))
        gateway = stack.enter_context(
            Gateway(a.table(priority=10, **fields) + b.table(priority=5, **fields), **settings)
        )
        if fields.get("probe") != "none":
            gateway.until_healthy("node-a", "node-b")
            time.sleep(0.2 + random.uniform(0.0, 0.11))
        assert "node-a" == gateway.door.ask()
        yield gateway, a, b


def ms(seconds: float) -> float:
    return 1000 * seconds


# --- TCP: a node that refuses ---------------------------------------------------------------------


@row("node killed: first new request", 2)
def first_request() -> float:
    with pair() as (gateway, a, _):
        a.kill()
        began = clock()
        assert "node-b" == gateway.door.ask()
        return ms(clock() - began)


@row("node killed: switched, no traffic", 160)
def quiet_switch() -> float:
    with pair() as (gateway, a, _):
        died = a.kill()
        return ms(gateway.until_active("node-b") - died)


@row("node killed: switched, no traffic, tripwire", 50)
def tripwire_switch() -> float:
    with pair({"tripwire": True}) as (gateway, a, _):
        died = a.kill()
        return ms(gateway.until_active("node-b") - died)


@row("node killed: switched, one request", 60)
def request_switch() -> float:
    with pair() as (gateway, a, _):
        died = a.kill()
        assert "node-b" == gateway.door.ask()
        return ms(gateway.until_active("node-b") - died)


@row("node back: traffic returns", 110)
def back() -> float:
    with pair() as (gateway, a, _):
        a.kill()
        gateway.until_active("node-b")
        time.sleep(0.5 + random.uniform(0.0, 0.1))
        returned = a.start()
        return ms(gateway.until_active("node-a") - returned)


# --- TCP: a node that is silent -------------------------------------------------------------------


@row("black hole: first new request (hedge delay 200)", 210)
def black_hole_request() -> float:
    with pair() as (gateway, a, _):
        began = a.swallow()
        assert "node-b" == gateway.door.ask()
        return ms(clock() - began)


@row("black hole: switched, no traffic", 550)
def black_hole_quiet_switch() -> float:
    with pair() as (gateway, a, _):
        began = a.swallow()
        return ms(gateway.until_active("node-b") - began)


@row("black hole: switched, one request", 550)
def black_hole_request_switch() -> float:
    with pair() as (gateway, a, _):
        began = a.swallow()
        assert "node-b" == gateway.door.ask()
        return ms(gateway.until_active("node-b") - began)


@row("frozen node, payload and expectation: switched", 550)
def frozen_switch() -> float:
    with pair(WORDS) as (gateway, a, _):
        began = a.freeze()
        return ms(gateway.until_active("node-b") - began)


# --- UDP ------------------------------------------------------------------------------------------


@row("UDP probe, node killed: switched", 160)
def udp_probe_switch() -> float:
    with pair({"probe": "udp"}) as (gateway, a, _):
        died = a.kill()
        return ms(gateway.until_active("node-b", "udp") - died)


def lost(gateway: Gateway, count: int, pause: float, strike_at: int, strike: Callable[[], object]) -> float:
    """How many of `count` numbered datagrams, `pause` seconds apart, have no reply one second after the last."""
    return float(len(udp_stream(gateway.door, count, pause, {strike_at: strike}).lost))


@row("UDP dies, TCP lives: lost of 100 over 3.3 s", 0, "datagrams")
def udp_port_lost() -> float:
    with pair() as (gateway, a, _):

        def close_between_two() -> None:  # what the closing port had taken is no loss of the gateway's
            time.sleep(0.015)
            a.close_udp()

        return lost(gateway, 100, 0.033, 20, close_between_two)


@row("node killed under a 5 ms UDP stream of 200: lost", 1, "datagrams")
def udp_kill_lost() -> float:
    with pair() as (gateway, a, _):
        return lost(gateway, 200, 0.005, 100, a.kill)


@row("UDP switch in mid-burst of 200: lost", 0, "datagrams")
def udp_switch_lost() -> float:
    with pair() as (gateway, *_):
        return lost(gateway, 200, 0.0005, 100, lambda: gateway.ask("switch node-b udp"))


# --- no probes ------------------------------------------------------------------------------------


@row("probe none, threshold 2: ejected by failure number", 2, "failures", least=2)
def unprobed_ejection() -> float:
    with pair({"probe": "none"}, passive_eject_threshold=2) as (gateway, a, _):
        a.kill()
        for _ in range(6):
            assert "node-b" == gateway.door.ask()
        status = gateway.status()
        assert "node-b" == status["active"]["tcp"]
        failed: int = status["nodes"][0]["stats"]["tcp_conns_failed"]
        return float(failed)


@row("probe none, threshold 1: switches in 1.5 s", 1, "switches", least=1)
def unprobed_flaps() -> float:
    with pair({"probe": "none"}, passive_eject_threshold=1) as (gateway, a, _):
        a.kill()
        end = clock() + 1.5
        while clock() < end:
            assert "node-b" == gateway.door.ask()
            time.sleep(0.02)
        switches = gateway.status()["recent_switches"]
        return float(sum(each["protocol"] == "tcp" and bool(each["from"]) for each in switches))


# --- draining and reloading -----------------------------------------------------------------------


def closed_after(command: str, **settings: Any) -> float:
    with pair(**settings) as (gateway, *_), gateway.door.connect() as conn:
        conn.sendall(b"hi")
        conn.recv(100)
        began = clock()
        gateway.ask(command)
        assert b"" == conn.recv(100)
        return ms(clock() - began)


@row("drain 1000, both transports: closed after", 1010, least=1000)
def drain_both() -> float:
    return closed_after("switch node-b")


@row("drain 1000, TCP-only switch: closed after", 1010, least=1000)
def drain_tcp() -> float:
    return closed_after("switch node-b tcp")


@row("drain 0: closed after", 10)
def drain_zero() -> float:
    return closed_after("switch node-b", drain_timeout_ms=0)


@row("reload adds the new primary: effective after", 60)
def reload_primary() -> float:
    with pair() as (gateway, a, b), Node("node-c") as c:
        time.sleep(random.uniform(0.0, 0.1))
        began = clock()
        gateway.write(a.table(priority=10) + b.table(priority=5) + c.table(priority=90))
        return ms(gateway.until_active("node-c") - began)


@row("broken file: error visible after", 120)
def broken_file() -> float:
    with pair() as (gateway, a, _):
        time.sleep(random.uniform(0.0, 0.1))
        began = clock()
        gateway.write(a.table(priority=10) + "[[nodes]\n")
        return ms(gateway.until(lambda status: not (status["reload"] or {"ok": True})["ok"], "the error") - began)


# --- the process ----------------------------------------------------------------------------------


@row("start: control port open", 250)
def control_open() -> float:
    with Node("node-a") as a, Gateway(a.table()) as gateway:
        return ms(gateway.control_open)


@row("start: data plane open", 250)
def data_open() -> float:
    with Node("node-a") as a, Gateway(a.table()) as gateway:
        return ms(gateway.data_open)


@row("resident memory at start", 45, "MB")
def resident_at_start() -> float:
    with pair() as (gateway, *_):
        return gateway.memory() / 1e6


@row(f"resident memory per idle connection, of {IDLE}", 6, "KiB")
def resident_per_connection() -> float:
    with pair() as (gateway, *_), ExitStack() as stack:

        def hold(count: int) -> None:
            for _ in range(count):
                conn: socket.socket = stack.enter_context(gateway.door.connect())
                conn.sendall(b"hi")
                conn.recv(100)

        hold(20)  # what the first ones cost is no cost of theirs
        before = gateway.memory()
        hold(IDLE)
        return (gateway.memory() - before) / 1024 / IDLE
