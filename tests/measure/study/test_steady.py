"""Steady clients: what counts as lost, whom they met, and that each request and datagram is seen once."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from sniffgate.measure.study.nodes import HOST, clock
from sniffgate.measure.study.steady import (
    Asked,
    Datagrams,
    Requests,
    answered_by,
    ask,
    lost,
    since,
    turns,
    under_way,
)

A, B, NONE = Asked(0.0, 0.001, "node-a"), Asked(1.0, 1.001, "node-b"), Asked(2.0, 2.5, None, "timeout")


def test_what_has_no_answer_is_lost() -> None:
    """Whatever came instead of it."""
    assert [NONE] == lost([A, B, NONE])


def test_only_what_began_in_a_time_is_counted_there() -> None:
    """Its end is not in it."""
    assert [B] == since([A, B, NONE], 1.0, 2.0)


def test_the_first_answer_of_a_node_is_found() -> None:
    """And none of a node that never answered."""
    assert B == answered_by([A, B, Asked(1.5, 1.6, "node-b")], "node-b")
    assert answered_by([A], "node-b") is None


def test_under_way_is_what_met_the_death_of_its_node() -> None:
    """It began before the node was dead and was over after it was told to die."""
    before, within, after = Asked(0.0, 0.9, None), Asked(0.9, 1.1, None), Asked(1.3, 1.4, None)

    assert [within] == under_way([before, within, after], (1.0, 1.2))


def test_a_turn_is_an_answer_from_another_node_than_before() -> None:
    """The first answer is none, and neither is a request without one."""
    again = Asked(3.0, 3.1, "node-a")

    assert [B, again] == turns([A, A, B, NONE, B, again])


def until(condition: Callable[[], object]) -> None:
    """Returns when it holds, or after five seconds."""
    give_up = clock() + 5.0
    while not condition() and clock() < give_up:
        time.sleep(0.005)


@contextlib.contextmanager
def answering(reply: bytes) -> Iterator[int]:
    """A server that answers every connection with `reply` and closes it; its port."""
    with socket.create_server((HOST, 0)) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    conn, _ = server.accept()
                    with conn:
                        conn.recv(100)
                        conn.sendall(reply)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.mark.realnet
def test_a_request_tells_who_answered_and_when() -> None:
    """On the axis that the scenario gives."""
    zero = clock()
    with answering(b"node-a:hi") as port:
        asked = ask(port, zero, limit=5.0)

    assert ("node-a", "") == (asked.node, asked.trouble)
    assert 0 < asked.at < asked.over < 5.0


@pytest.mark.realnet
def test_a_request_that_is_closed_without_an_answer_is_lost() -> None:
    """An orderly end is no answer."""
    with answering(b"") as port:
        asked = ask(port, clock(), limit=5.0)

    assert (None, "closed") == (asked.node, asked.trouble)


@pytest.mark.realnet
def test_a_request_is_given_up_after_its_limit() -> None:
    """Though the kernel took the connection."""
    with socket.create_server((HOST, 0)) as server:
        asked = ask(server.getsockname()[1], clock(), limit=0.1)

    assert (None, "timeout") == (asked.node, asked.trouble)
    assert asked.ms >= 100


@pytest.mark.realnet
def test_steady_clients_ask_until_their_block_ends() -> None:
    """Each at its own pace, and all of it is kept."""
    with answering(b"node-a:hi") as port, Requests(port, clock(), every=0.01, clients=2) as requests:
        until(lambda: len(requests.seen) >= 6)
    count = len(requests.seen)

    assert {"node-a"} == {asked.node for asked in requests.seen}
    assert sorted(asked.at for asked in requests.seen) == [asked.at for asked in requests.seen]
    assert count >= 6


@pytest.mark.realnet
def test_each_datagram_has_its_own_fate() -> None:
    """One of the first three is swallowed, another is answered twice."""
    with socket.socket(type=socket.SOCK_DGRAM) as node:
        node.bind((HOST, 0))
        node.settimeout(5.0)
        with Datagrams(node.getsockname()[1], clock(), every=0.01) as datagrams:
            for _ in range(3):
                chunk, client = node.recvfrom(100)
                for _ in range({b"0": 0, b"1": 2}.get(chunk, 1)):
                    node.sendto(b"node-a:" + chunk, client)
            until(lambda: datagrams.doubled and answered_by(datagrams.seen[2:], "node-a"))

    assert [None, "node-a", "node-a"] == [asked.node for asked in datagrams.seen[:3]]
    assert 1 == datagrams.doubled
