"""A node as a process of its own with one thread, so that it adds as little as possible to what is measured.

    python node_process.py NAME PORT

Answers every TCP chunk and every datagram with `NAME:` and what it received. Takes one word a line on stdin and answers
with one line: `report` its counters as JSON, `close-udp` and `open-udp`, `mute` (accepts and reads, answers nothing),
`unmute`, `swallow` (TCP becomes a black hole: the accept queue is filled, so that the kernel drops every further SYN),
`close-tcp`. Prints `ready` once it listens. Ends with its stdin.
"""

import contextlib
import json
import os
import select
import selectors
import socket
import sys

PLUGGED_WITHIN = 1.0  # seconds


class Node:
    """Both sides of the node, and what it has seen."""

    def __init__(self, name: str, port: int) -> None:
        self.prefix = name.encode() + b":"
        self.address = ("127.0.0.1", port)
        self.muted = False
        self.plugs: list[socket.socket] = []
        self.seen = {"accepted": 0, "open": 0, "requests": 0, "bytes": 0, "datagrams": 0, "datagram_bytes": 0}
        self.ready = selectors.DefaultSelector()
        self.ready.register(0, selectors.EVENT_READ, self.obey)
        self.tcp = socket.create_server(self.address, backlog=4096)
        self.watch(self.tcp, self.accept)
        self.open_udp()

    def watch(self, port: socket.socket, act: object) -> None:
        """Calls `act` whenever there is something to read."""
        port.setblocking(False)
        self.ready.register(port, selectors.EVENT_READ, act)

    def open_udp(self) -> None:
        """Binds the UDP port."""
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self.udp.bind(self.address)
        self.watch(self.udp, self.answer_datagrams)

    def serve_forever(self) -> None:
        """Serves until killed or told to end."""
        while True:
            for key, _ in self.ready.select():
                if key.fileobj is self.tcp or key.fileobj is self.udp or key.fileobj == 0:
                    key.data()
                else:
                    self.answer(key.fileobj)  # type: ignore[arg-type]  # a socket: nothing else is registered

    def accept(self) -> None:
        """Takes every connection that waits."""
        with contextlib.suppress(BlockingIOError):
            while True:
                conn, _ = self.tcp.accept()
                self.seen["accepted"] += 1
                self.seen["open"] += 1
                conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.watch(conn, None)

    def answer(self, conn: socket.socket) -> None:
        """Answers one chunk, or ends a connection."""
        chunk = b""
        with contextlib.suppress(OSError):
            chunk = conn.recv(65536)
            if chunk:
                self.seen["requests"] += 1
                self.seen["bytes"] += len(chunk)
                if not self.muted:
                    conn.sendall(self.prefix + chunk)
        if not chunk:
            self.seen["open"] -= 1
            self.ready.unregister(conn)
            conn.close()

    def answer_datagrams(self) -> None:
        """Answers all that wait."""
        with contextlib.suppress(OSError):
            while True:
                chunk, client = self.udp.recvfrom(65535)
                self.seen["datagrams"] += 1
                self.seen["datagram_bytes"] += len(chunk)
                if not self.muted:
                    self.udp.sendto(self.prefix + chunk, client)

    def obey(self) -> None:
        """Does what a line on stdin asks."""
        words = os.read(0, 4096).decode().split()
        if not words:
            sys.exit()
        for word in words:
            answer = "done"
            if word == "report":
                answer = json.dumps(self.seen)
            elif word in ("mute", "unmute"):
                self.muted = word == "mute"
            elif word == "close-udp":
                self.answer_datagrams()  # what was taken is not to be blamed on the gateway
                self.ready.unregister(self.udp)
                self.udp.close()
            elif word == "open-udp":
                self.open_udp()
            elif word == "close-tcp":
                self.ready.unregister(self.tcp)
                self.tcp.close()
            elif word == "swallow":
                self.swallow()
            print(answer, flush=True)

    def swallow(self) -> None:
        """Lets the kernel drop what asks for a connection: it does while the accept queue is full."""
        self.ready.unregister(self.tcp)
        self.tcp.listen(0)  # room for one connection
        for _ in range(4):
            plug = socket.socket()
            plug.setblocking(False)
            plug.connect_ex(self.address)
            self.plugs.append(plug)
        select.select(
            [], self.plugs, [], PLUGGED_WITHIN
        )  # until the kernel, which may be busy, has given that room away


if __name__ == "__main__":
    node = Node(sys.argv[1], int(sys.argv[2]))
    print("ready", flush=True)
    node.serve_forever()
