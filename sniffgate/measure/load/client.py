"""A client to measure with: `client.py KIND PORT SECONDS COUNT`. Prints `ready`, waits for a line, prints one of JSON.

Nothing that fails is measured: it ends with a traceback and prints no result.
"""

import array
import json
import resource
import socket
import sys
import threading
import time
from collections.abc import Callable

HOST = "127.0.0.1"
PAYLOAD = bytes(range(64))
BLOCK = bytes(1 << 20)  # what a bulk client sends at once
WARM_UP = 100  # round trips that are not counted
PATIENCE = 1  # seconds for a datagram to come back before it is lost
NS = 1_000_000_000

Result = dict[str, float]


def tcp_round_trips(port: int, seconds: float, _count: int) -> Result:
    """64 bytes there and back, one at a time, on one connection."""
    with socket.create_connection((HOST, port)) as conn:
        conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return _time_round_trips(conn, seconds)


def udp_round_trips(port: int, seconds: float, _count: int) -> Result:
    """The same over UDP. Errors: a datagram that was lost, as `BlockingIOError`."""
    with _udp(port) as conn:
        return _time_round_trips(conn, seconds)


def _time_round_trips(conn: socket.socket, seconds: float) -> Result:
    send, receive, clock = conn.send, conn.recv_into, time.perf_counter_ns
    room = bytearray(len(PAYLOAD))
    took = array.array("Q")
    end = 0
    for lap in range(sys.maxsize):
        if lap == WARM_UP:
            end = clock() + int(seconds * NS)
        began = clock()
        send(PAYLOAD)
        got = receive(room)
        now = clock()
        while got < len(PAYLOAD):
            more = receive(memoryview(room)[got:])
            if not more:
                raise EOFError("the connection ended")
            got, now = got + more, clock()
        if room != PAYLOAD:
            raise ValueError("something else came back")
        if end:
            took.append(now - began)
            if now > end:
                break
    ordered = sorted(took)
    return {
        "median_us": ordered[len(ordered) // 2] / 1000,
        "p99_us": ordered[len(ordered) * 99 // 100] / 1000,
        "worst_us": ordered[-1] / 1000,
        "count": len(ordered),
    }


def udp_rate(port: int, seconds: float, in_flight: int) -> Result:
    """Round trips with so many datagrams under way. Errors: any that was lost, as `BlockingIOError`."""
    with _udp(port) as conn:
        send, receive, clock = conn.send, conn.recv_into, time.perf_counter_ns
        room = bytearray(len(PAYLOAD))
        for _ in range(in_flight):
            send(PAYLOAD)
        for _ in range(WARM_UP):
            receive(room)
            send(PAYLOAD)
        count = 0
        began = clock()
        end = began + int(seconds * NS)
        while (now := clock()) < end:
            for _ in range(64):
                receive(room)
                send(PAYLOAD)
            count += 64
        for _ in range(in_flight):
            receive(room)
    return {"per_s": count / (now - began) * NS, "count": count}


def _udp(port: int) -> socket.socket:
    conn = socket.socket(type=socket.SOCK_DGRAM)
    # A timeout of Python's would cost a system call for each datagram; the kernel's costs none.
    conn.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, PATIENCE.to_bytes(8, sys.byteorder) + bytes(8))
    conn.connect((HOST, port))
    return conn


def connections(port: int, seconds: float, _count: int) -> Result:
    """Connects, one byte each way, closes; one after another."""
    clock = time.perf_counter_ns
    address = (HOST, port)
    count = 0
    began = clock()
    end = began + int(seconds * NS)
    while (now := clock()) < end:
        with socket.socket() as conn:
            conn.connect(address)
            conn.send(b"x")
            if conn.recv(1) != b"x":
                raise EOFError("the connection ended without an answer")
        count += 1
    return {"per_s": count / (now - began) * NS, "count": count}


def bulk(port: int, seconds: float, flows: int) -> Result:
    """Sends as fast as it can on so many connections; counts what the node confirms, to the moment it does."""
    conns = [socket.create_connection((HOST, port)) for _ in range(flows)]
    confirmed: list[int] = []
    spent = time.process_time()
    began = time.perf_counter()
    threads = [threading.Thread(target=_push, args=(conn, began + seconds, confirmed)) for conn in conns]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - began
    if len(confirmed) < flows:
        raise EOFError("not all that was sent has arrived")
    return {"mb_s": sum(confirmed) / took / 1e6, "bytes": sum(confirmed), "cpu_s": time.process_time() - spent}


def _push(conn: socket.socket, end: float, confirmed: list[int]) -> None:
    sent = 0
    with conn:
        while time.perf_counter() < end:
            sent += conn.send(BLOCK)
        conn.shutdown(socket.SHUT_WR)
        answer = conn.recv(8, socket.MSG_WAITALL)
    if len(answer) == 8 and int.from_bytes(answer, "big") == sent:
        confirmed.append(sent)


def idle(port: int, _seconds: float, count: int) -> Result:
    """Opens so many connections, each good for one byte each way, and keeps them until it is killed."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    kept = []
    for _ in range(count):
        conn = socket.create_connection((HOST, port))
        conn.send(b"x")
        if conn.recv(1) != b"x":
            raise EOFError("the connection ended without an answer")
        kept.append(conn.detach())
    return {"count": len(kept)}


KINDS: dict[str, Callable[[int, float, int], Result]] = {
    "tcp": tcp_round_trips,
    "udp": udp_round_trips,
    "udp-rate": udp_rate,
    "connections": connections,
    "bulk": bulk,
    "idle": idle,
}


def main(kind: str, port: str, seconds: str, count: str) -> None:
    """Runs one kind of load when it is told to; stays until stdin closes."""
    print("ready", flush=True)
    if not sys.stdin.readline():
        return
    print(json.dumps(KINDS[kind](int(port), float(seconds), int(count))), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
