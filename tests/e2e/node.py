"""A backend as a real process, on the standard library alone so that it starts in a moment.

    python node.py NAME PORT [tcp] [udp]

Over TCP it answers every chunk with `NAME:chunk` until the client ends. A connection whose first line is `HASH N` is
read to its end before N bytes of `pattern` are sent back; `PUSH N` sends them, and its end of stream, first. Either way
the node prints `read LENGTH SHA256` of what came after that line. A connection that begins with `HOLD` is read to its
end and then neither answered nor closed.
Over UDP it answers every datagram with `NAME:datagram`. Prints `ready PORT` once it listens. Dies with its parent.
"""

import contextlib
import ctypes
import functools
import hashlib
import signal
import socket
import sys
import threading

PR_SET_PDEATHSIG = 1  # linux/prctl.h


@functools.lru_cache(maxsize=4)
def pattern(size: int, seed: int = 7) -> bytes:
    """`size` reproducible bytes that do not repeat in step with any buffer."""
    block = hashlib.shake_128(bytes([seed])).digest(1_000_003)
    return (block * (size // len(block) + 1))[:size]


def serve_tcp(listener: socket.socket, name: bytes) -> None:
    """Serves connections, each in a thread."""
    while True:
        conn, _ = listener.accept()
        threading.Thread(target=serve_connection, args=(conn, name), daemon=True).start()


def serve_connection(conn: socket.socket, name: bytes) -> None:
    """One connection, by its first chunk."""
    with conn, contextlib.suppress(OSError):
        chunk = conn.recv(65536)
        if chunk.startswith((b"HASH", b"PUSH")):
            line, _, rest = chunk.partition(b"\n")
            transfer(conn, line, rest)
            return
        if chunk.startswith(b"HOLD"):
            while conn.recv(65536):
                pass
            threading.Event().wait()
        while chunk:
            conn.sendall(name + b":" + chunk)
            chunk = conn.recv(65536)


def transfer(conn: socket.socket, line: bytes, rest: bytes) -> None:
    """`HASH n`: reads to the end, then sends the digest and n bytes. `PUSH n`: sends n bytes and its end first."""
    command, size = line.split()
    if command == b"PUSH":
        conn.sendall(pattern(int(size)))
        conn.shutdown(socket.SHUT_WR)
    digest, got = hashlib.sha256(rest), len(rest)
    while chunk := conn.recv(262144):
        digest.update(chunk)
        got += len(chunk)
    print(f"read {got} {digest.hexdigest()}", flush=True)
    if command == b"HASH":
        conn.sendall(pattern(int(size)))


def serve_udp(port: socket.socket, name: bytes) -> None:
    """Answers every datagram."""
    while True:
        data, client = port.recvfrom(65535)
        with contextlib.suppress(OSError):
            port.sendto(name + b":" + data if len(data) < 65000 else data, client)


def main() -> None:
    """Serves until killed."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    name, port, *transports = sys.argv[1:]
    if "tcp" in transports:
        listener = socket.create_server(("127.0.0.1", int(port)), backlog=2000)
        threading.Thread(target=serve_tcp, args=(listener, name.encode()), daemon=True).start()
    if "udp" in transports:
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * 1024 * 1024)
        udp.bind(("127.0.0.1", int(port)))
        threading.Thread(target=serve_udp, args=(udp, name.encode()), daemon=True).start()
    print("ready", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
