"""Steady clients of a gateway: each request and each datagram with its moment and its fate.

Plain threads and blocking sockets. Moments are seconds of `clock` since a zero that the scenario gives, so that what
clients met and what the control port said stand on one axis.
"""

import contextlib
import select
import socket
import threading
from collections.abc import Iterable
from types import TracebackType
from typing import Self

import attrs

from .clients import tag
from .lab import Lab
from .nodes import HOST, clock

LAST_REPLIES = 0.5  # seconds that the answers to the last datagrams have


@attrs.frozen
class Asked:
    """One TCP request on a connection of its own, or one datagram."""

    at: float  # seconds
    over: float  # seconds: when its answer had come, or it was given up
    node: str | None  # who answered; None: nobody did
    trouble: str = ""  # what came instead

    @property
    def ms(self) -> float:
        """Milliseconds that it took."""
        return 1000 * (self.over - self.at)


def ask(port: int, zero: float, *, limit: float, text: bytes = b"hi") -> Asked:
    """Asks once over TCP; `limit` seconds for all of it."""
    began = clock()
    answer, trouble = b"", "closed"
    try:
        with socket.create_connection((HOST, port), timeout=limit) as conn:
            conn.settimeout(max(0.001, began + limit - clock()))
            conn.sendall(text)
            answer = conn.recv(1000)
    except TimeoutError:
        trouble = "timeout"
    except ConnectionResetError:
        trouble = "reset"
    except OSError as error:
        trouble = type(error).__name__
    over = clock() - zero
    return Asked(began - zero, over, tag(answer)) if answer else Asked(began - zero, over, None, trouble)


class Requests:
    """Clients that ask over TCP, each every so often and one request at a time, from `with` to its end."""

    def __init__(self, port: int, zero: float, *, every: float, clients: int = 1, limit: float = 2.0) -> None:
        """`every`: seconds between two requests of one client, unless an answer takes longer; `limit`: as `ask`."""
        self._port, self._zero, self._every, self._limit = port, zero, every, limit
        self._over = threading.Event()
        self._seen: list[Asked] = []
        self._threads = [threading.Thread(target=self._ask_on, args=(i * every / clients,)) for i in range(clients)]

    def _ask_on(self, offset: float) -> None:
        due = clock() + offset
        while not self._over.wait(max(0.0, due - clock())):
            self._seen.append(ask(self._port, self._zero, limit=self._limit))
            due = max(due + self._every, clock())

    @property
    def seen(self) -> list[Asked]:
        """All requests that are over, by their start."""
        return sorted(self._seen, key=lambda asked: asked.at)

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()


class Datagrams:
    """One client that sends numbered datagrams at a steady pace on one socket, from `with` to its end."""

    def __init__(self, port: int, zero: float, *, every: float) -> None:
        """`every`: seconds between two."""
        self._zero, self._every = zero, every
        self._over = threading.Event()
        self._sent: list[float] = []
        self._replies: dict[int, tuple[float, str]] = {}
        self.doubled = 0  # replies beyond the first to a datagram
        self._port = socket.socket(type=socket.SOCK_DGRAM)
        self._port.connect((HOST, port))
        self._port.setblocking(False)
        self._thread = threading.Thread(target=self._send_on)

    def _send_on(self) -> None:
        due = clock()
        while not self._over.is_set():
            self._sent.append(clock())
            with contextlib.suppress(OSError):  # then it is lost, which is what will be seen
                self._port.send(b"%d" % (len(self._sent) - 1))
            due += self._every
            self._read_until(due)
        self._read_until(clock() + LAST_REPLIES)

    def _read_until(self, end: float) -> None:
        while (left := end - clock()) > 0:
            if self._over.is_set() and len(self._replies) == len(self._sent):
                return
            if select.select([self._port], [], [], left)[0]:
                with contextlib.suppress(OSError):
                    self._note(self._port.recv(1000))

    def _note(self, reply: bytes) -> None:
        number = int(reply.partition(b":")[2])
        if number in self._replies:
            self.doubled += 1
        else:
            self._replies[number] = clock(), tag(reply)

    @property
    def seen(self) -> list[Asked]:
        """All datagrams in the order in which they were sent."""
        found = []
        for number, sent in enumerate(self._sent):
            over, node = self._replies.get(number, (sent, None))
            found.append(Asked(sent - self._zero, over - self._zero, node, "" if node else "no reply"))
        return found

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()
        self._port.close()


def record_seen(lab: Lab, what: str, seen: Iterable[Asked], struck: float) -> None:
    """Records all of it raw: when, seconds after the failure at `struck`; who answered or what came instead; how long.

    Milliseconds are those of the answers, in their order; those after which a client gave up stand apart.
    """
    for asked in seen:
        lab.record(f"{what}_at_s", "s", round(asked.at - struck, 4))
        lab.record(f"{what}_by", "word", asked.node or asked.trouble)
        if asked.node is not None:
            lab.record(f"{what}_ms", "ms", round(asked.ms, 3))
        elif asked.over > asked.at:  # nobody gives a datagram up
            lab.record(f"{what}_given_up_ms", "ms", round(asked.ms, 3))


def lost(seen: Iterable[Asked]) -> list[Asked]:
    """Those without an answer."""
    return [asked for asked in seen if asked.node is None]


def since(seen: Iterable[Asked], moment: float, until: float = float("inf")) -> list[Asked]:
    """Those that began in a time."""
    return [asked for asked in seen if moment <= asked.at < until]


def answered_by(seen: Iterable[Asked], node: str) -> Asked | None:
    """The first that a node answered."""
    return next((asked for asked in seen if asked.node == node), None)


def under_way(seen: Iterable[Asked], *deaths: tuple[float, float]) -> list[Asked]:
    """Those that were under way in one of these times, each from when a node was told to die to when it was dead."""
    return [asked for asked in seen if any(asked.at <= dead and asked.over >= told for told, dead in deaths)]


def turns(seen: Iterable[Asked]) -> list[Asked]:
    """Each that another node answered than the one before it."""
    found: list[Asked] = []
    before: str | None = None
    for asked in seen:
        if asked.node is not None and asked.node != before:
            if before is not None:
                found.append(asked)
            before = asked.node
    return found
