"""A node to be measured against: `node.py echo|sink|udp`. Prints its port on 127.0.0.1, ends when stdin closes."""

import contextlib
import os
import resource
import select
import socket
import sys
import threading

HOST = "127.0.0.1"
BLOCK = 1 << 20  # bytes that a sink takes at once
BACKLOG = 4096


def serve_echo(listener: socket.socket) -> None:
    """Sends back what comes, on any number of connections."""
    poll = select.epoll()
    door = listener.fileno()
    listener.setblocking(False)
    poll.register(door, select.EPOLLIN)
    while True:
        for descriptor, _ in poll.poll():
            if descriptor == door:
                with contextlib.suppress(BlockingIOError):
                    while True:
                        conn = listener.accept()[0]
                        conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                        poll.register(conn.detach(), select.EPOLLIN)
                continue
            try:
                data = os.read(descriptor, 4096)
                if data:
                    os.write(descriptor, data)
                    continue
            except OSError:
                pass
            os.close(descriptor)  # which takes it out of the set as well


def serve_sink(listener: socket.socket) -> None:
    """Counts what comes, without copying it; answers the end of it with the count in eight bytes."""
    while True:
        threading.Thread(target=_swallow, args=(listener.accept()[0],), daemon=True).start()


def _swallow(conn: socket.socket) -> None:
    room = bytearray(BLOCK)
    count = 0
    with conn, contextlib.suppress(OSError):
        while taken := conn.recv_into(room, BLOCK, socket.MSG_TRUNC):
            count += taken
        conn.sendall(count.to_bytes(8, "big"))


def serve_udp(port: socket.socket) -> None:
    """Sends every datagram back to where it came from."""
    room = bytearray(2048)
    view = memoryview(room)
    receive, send = port.recvfrom_into, port.sendto
    while True:
        with contextlib.suppress(OSError):  # a refusal that came back for a client that is gone
            while True:
                size, sender = receive(room)
                send(view[:size], sender)


def main(kind: str) -> None:
    """Binds, says where, and serves until the parent is gone."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    bound = socket.socket(type=socket.SOCK_DGRAM if kind == "udp" else socket.SOCK_STREAM)
    bound.bind((HOST, 0))
    if kind != "udp":
        bound.listen(BACKLOG)
    serve = {"echo": serve_echo, "sink": serve_sink, "udp": serve_udp}[kind]
    threading.Thread(target=serve, args=(bound,), daemon=True).start()
    print(bound.getsockname()[1], flush=True)
    sys.stdin.buffer.read()


if __name__ == "__main__":
    main(sys.argv[1])
