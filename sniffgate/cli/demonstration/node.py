"""One node of the demonstration: a process of its own that answers every TCP line and every UDP datagram with its tag.

    python -I node.py TAG HOST TCP_PORT UDP_PORT

Prints the two ports it is bound to (port 0: the kernel picks), then serves until standard input ends. The standard
library only, and no import of the package: it is up at once, and can be run by its path.

Standard input is the leash: its other end closes with the process that started this one, however that one dies. Linux's
parent-death signal would not do: it goes off with the thread that started the process, and Trio's threads come and go.
"""

import os
import selectors
import socket
import sys
from collections.abc import Callable
from functools import partial

LONGEST_LINE = 4096  # bytes; a client that sends more without a line end is closed


def main(tag: str, host: str, tcp_port: int, udp_port: int) -> None:
    """Serves until standard input ends."""
    acceptor = socket.create_server((host, tcp_port))
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    datagrams.bind((host, udp_port))
    acceptor.setblocking(False)
    datagrams.setblocking(False)
    print(acceptor.getsockname()[1], datagrams.getsockname()[1], flush=True)
    with selectors.PollSelector() as ready:
        ready.register(acceptor, selectors.EVENT_READ, partial(accept, ready, acceptor, tag))
        ready.register(datagrams, selectors.EVENT_READ, partial(answer_datagram, datagrams, tag))
        ready.register(sys.stdin.fileno(), selectors.EVENT_READ, None)
        while True:
            for key, _ in ready.select():
                if key.data is None:
                    if not os.read(sys.stdin.fileno(), 1024):
                        return
                else:
                    act: Callable[[], None] = key.data
                    act()


def accept(ready: selectors.BaseSelector, acceptor: socket.socket, tag: str) -> None:
    """Takes one client."""
    try:
        conn, _ = acceptor.accept()
    except OSError:  # it was gone before it was taken
        return
    conn.setblocking(False)
    ready.register(conn, selectors.EVENT_READ, partial(answer_lines, ready, conn, tag, bytearray()))


def answer_lines(ready: selectors.BaseSelector, conn: socket.socket, tag: str, unfinished: bytearray) -> None:
    """Answers what came on a connection, line by line; closes it when the client has, or misbehaves."""
    try:
        received = conn.recv(LONGEST_LINE)
        unfinished += received
        *lines, rest = unfinished.split(b"\n")
        unfinished[:] = rest
        for line in lines:
            conn.sendall(tag.encode() + b" " + line + b"\n")
        if received and len(unfinished) <= LONGEST_LINE:
            return
    except OSError:
        pass
    ready.unregister(conn)
    conn.close()


def answer_datagram(datagrams: socket.socket, tag: str) -> None:
    """Answers one datagram."""
    try:
        payload, client = datagrams.recvfrom(65535)
        datagrams.sendto(tag.encode() + b" " + payload, client)
    except OSError:  # nobody there any more, or no room to send: datagrams may be lost
        return


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
