"""What clients do at a listener, and whom they meet there: every node puts its name before what it answers."""

import contextlib
import socket
from collections import Counter
from collections.abc import Iterator

from .control import LIMIT
from .nodes import HOST, clock

NOBODY = "nobody"  # answered: the connection was closed, reset or refused


class Door:
    """A listener's port over TCP and UDP as its clients see it."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.met: Counter[str] = Counter()  # who answered here, as far as the answers say

    def connect(self, within: float = LIMIT) -> socket.socket:
        """A TCP connection. Errors: `OSError`."""
        conn = socket.create_connection((HOST, self.port), timeout=within)
        if conn.getsockname() == (HOST, self.port):  # a client may be given that very port, and meet itself
            conn.close()
            raise ConnectionRefusedError(f"port {self.port} is not open")
        conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return conn

    def ask(self, text: bytes = b"hi", within: float = LIMIT) -> str:
        """The node that answers one TCP request on a connection of its own; `NOBODY` where none does in time."""
        node = NOBODY
        with contextlib.suppress(OSError), self.connect(within) as conn:
            node = exchange(conn, text)
        self.met[node] += 1
        return node

    def timed_ask(self, text: bytes = b"hi", within: float = LIMIT) -> tuple[str, float]:
        """As `ask`, and the milliseconds it took."""
        began = clock()
        node = self.ask(text, within)
        return node, 1000 * (clock() - began)

    @contextlib.contextmanager
    def udp(self, within: float = LIMIT) -> Iterator[socket.socket]:
        """A client's UDP socket, one session at the gateway."""
        with socket.socket(type=socket.SOCK_DGRAM) as port:
            port.settimeout(within)
            port.connect((HOST, self.port))
            yield port

    def ask_udp(self, text: bytes = b"hi", within: float = 1.0) -> str:
        """The node that answers one datagram in a session of its own; `NOBODY` where none does in time."""
        node = NOBODY
        with contextlib.suppress(OSError), self.udp(within) as port:
            port.send(text)
            node = tag(port.recv(65535))
        self.met[node] += 1
        return node


def exchange(conn: socket.socket, text: bytes = b"hi") -> str:
    """One request on an open connection; the node that answered it, or `NOBODY`. Errors: `OSError`."""
    conn.sendall(text)
    return tag(conn.recv(65536))


def tag(answer: bytes) -> str:
    """The node that an answer comes from."""
    name, colon, _ = answer.partition(b":")
    return name.decode(errors="replace") if colon else NOBODY
