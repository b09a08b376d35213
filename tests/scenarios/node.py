"""A backend as a real process with one thread, so that it adds as little as possible to what is measured.

    python node.py NAME PORT

Answers every TCP chunk and every datagram with `NAME:` and what it received. SIGUSR1 closes the UDP port and goes on
over TCP. SIGUSR2 makes TCP a black hole: nothing is accepted any more and the accept queue is filled, so that the
kernel drops every further SYN. Prints `ready` once it listens, and `done` after each of the two. Dies with its parent.
"""

import contextlib
import ctypes
import selectors
import signal
import socket
import sys

PR_SET_PDEATHSIG = 1  # linux/prctl.h


class Node:
    """Both sides of the node."""

    def __init__(self, name: str, port: int) -> None:
        self.prefix = name.encode() + b":"
        self.tcp = socket.create_server(("127.0.0.1", port), backlog=4096)
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(("127.0.0.1", port))
        self.plugs: list[socket.socket] = []
        self.ready = selectors.DefaultSelector()
        for each in (self.tcp, self.udp):
            each.setblocking(False)
            self.ready.register(each, selectors.EVENT_READ)

    def serve_forever(self, wakeup: socket.socket) -> None:
        """Serves until killed; a byte at `wakeup` is the number of a signal."""
        self.ready.register(wakeup, selectors.EVENT_READ)
        while True:
            for key, _ in self.ready.select():
                if key.fileobj is wakeup:
                    for number in wakeup.recv(100):
                        self.obey(number)
                elif key.fileobj is self.tcp:
                    self.accept()
                elif key.fileobj is self.udp:
                    self.answer_datagrams()
                elif isinstance(key.fileobj, socket.socket):
                    self.answer(key.fileobj)

    def accept(self) -> None:
        """Takes every connection that waits."""
        with contextlib.suppress(BlockingIOError):
            while True:
                conn, _ = self.tcp.accept()
                conn.setblocking(False)
                self.ready.register(conn, selectors.EVENT_READ)

    def answer(self, conn: socket.socket) -> None:
        """Answers one chunk, or ends a connection."""
        chunk = b""
        with contextlib.suppress(OSError):
            chunk = conn.recv(65536)
            if chunk:
                conn.sendall(self.prefix + chunk)
        if not chunk:
            self.ready.unregister(conn)
            conn.close()

    def answer_datagrams(self) -> None:
        """Answers all that wait."""
        with contextlib.suppress(OSError):
            while True:
                chunk, client = self.udp.recvfrom(65535)
                self.udp.sendto(self.prefix + chunk, client)

    def obey(self, number: int) -> None:
        """Does what a signal asks."""
        if number == signal.SIGUSR1:
            self.answer_datagrams()  # what was taken is not to be blamed on the gateway
            self.ready.unregister(self.udp)
            self.udp.close()
        elif number == signal.SIGUSR2:
            self.swallow()
        print("done", flush=True)

    def swallow(self) -> None:
        """Lets the kernel drop what asks for a connection: it does while the accept queue is full."""
        self.ready.unregister(self.tcp)
        self.tcp.listen(0)
        for _ in range(4):
            plug = socket.socket()
            plug.setblocking(False)
            plug.connect_ex(self.tcp.getsockname())
            self.plugs.append(plug)


def main() -> None:
    """Serves until killed."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    node = Node(sys.argv[1], int(sys.argv[2]))
    woken, waker = socket.socketpair()
    waker.setblocking(False)
    woken.setblocking(False)
    signal.set_wakeup_fd(waker.fileno())
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, lambda *_: None)
    print("ready", flush=True)
    node.serve_forever(woken)


if __name__ == "__main__":
    main()
