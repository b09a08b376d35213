"""Streams of numbered datagrams and of requests, with what becomes of each, while something happens in their middle."""

import threading
import time
from collections.abc import Callable, Mapping

import attrs

from .clients import Door, tag
from .control import LIMIT
from .nodes import clock
from .scenario import TrialFailed


@attrs.frozen
class Answer:
    """The node that answered, and when, by `clock`."""

    node: str
    at: float


@attrs.define
class Stream:
    """What was sent when, and the first answer to each that had one."""

    sent: list[float] = attrs.field(factory=list)
    answers: dict[int, Answer] = attrs.field(factory=dict)
    duplicates: int = 0

    @property
    def lost(self) -> list[int]:
        """The numbers without an answer."""
        return [number for number in range(len(self.sent)) if number not in self.answers]

    def first_from(self, node: str) -> float | None:
        """When the first answer of a node came; None when none did."""
        return min((answer.at for answer in self.answers.values() if answer.node == node), default=None)

    def round_trips(self) -> list[float]:
        """Milliseconds from sending to answer, in the order of the numbers."""
        return [1000 * (answer.at - self.sent[number]) for number, answer in sorted(self.answers.items())]


def udp_stream(
    door: Door,
    count: int,
    pause: float,
    strikes: Mapping[int, Callable[[], object]] | None = None,
    wait: float = 1.0,
) -> Stream:
    """Sends `count` datagrams `pause` seconds apart in one session and waits `wait` seconds after the last.

    `strikes`: what is called just before a number is sent, in a thread of its own, so that the stream does not wait for
    it. (A node must not be started there: it would die with the thread.) Errors: what a strike raises.
    """
    stream, ends = Stream(), threading.Event()
    troubles: list[BaseException] = []
    strikers = {number: _thread_of(strike, troubles) for number, strike in (strikes or {}).items()}
    with door.udp(0.1) as port:

        def read() -> None:
            while not ends.is_set():
                try:
                    chunk = port.recv(65535)
                except (TimeoutError, ConnectionRefusedError):
                    continue
                at, number = clock(), chunk.partition(b":")[2]
                if not number.isdigit():
                    continue
                if int(number) in stream.answers:
                    stream.duplicates += 1
                else:
                    stream.answers[int(number)] = Answer(tag(chunk), at)

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        due = clock()
        for number in range(count):
            if number in strikers:
                strikers[number].start()
            stream.sent.append(clock())
            _send(port.send, number)
            due += pause
            time.sleep(max(0.0, due - clock()))
        _wait_for_the_rest(stream, count, wait)
        ends.set()
        reader.join(LIMIT)
    for striker in strikers.values():
        striker.join(LIMIT)
    door.met.update(answer.node for answer in stream.answers.values())
    if troubles:
        raise troubles[0]
    return stream


def _send(send: Callable[[bytes], int], number: int) -> None:
    for _ in range(2):
        try:
            send(b"%d" % number)
            return
        except ConnectionRefusedError:  # what the kernel has to say of an earlier one: this one was not sent yet
            continue
    raise TrialFailed("the gateway's UDP port is closed")


def _wait_for_the_rest(stream: Stream, count: int, wait: float) -> None:
    until = clock() + wait
    while clock() < until and len(stream.answers) < count:
        time.sleep(0.005)


def _thread_of(strike: Callable[[], object], troubles: list[BaseException]) -> threading.Thread:
    def run() -> None:
        try:
            strike()
        except Exception as error:
            troubles.append(error)

    return threading.Thread(target=run, daemon=True)
