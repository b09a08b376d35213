"""What the harness makes of a control port, and of claims: nothing is taken for granted."""

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from sniffgate.measure.study.claims import check_probes
from sniffgate.measure.study.clients import NOBODY, Door, tag
from sniffgate.measure.study.control import Control, Refused, dig, node_of
from sniffgate.measure.study.nodes import HOST, Node, Seen
from sniffgate.measure.study.scenario import Absent, Lied, TrialFailed
from sniffgate.measure.study.streams import udp_stream

STATUS = {"active": {"tcp": "node-a"}, "nodes": [{"name": "node-a", "healthy": True}]}


@contextlib.contextmanager
def answering(line: bytes) -> Iterator[Control]:
    """A control connection to somebody who answers every line with this one."""
    with socket.create_server((HOST, 0)) as door:

        def serve() -> None:
            conn = door.accept()[0]
            with conn, contextlib.suppress(OSError):
                while conn.recv(100):
                    conn.sendall(line)
                    if not line:
                        return

        server = threading.Thread(target=serve)
        server.start()
        control = Control(door.getsockname()[1])
        try:
            yield control
        finally:
            control.close()
            server.join(10)


@pytest.mark.realnet
@pytest.mark.parametrize(
    ("line", "error", "sentence"),
    [
        (b'{"ok":false,"error":"unknown command"}\n', Absent, "its control port does not know 'why': unknown command"),
        (b'{"ok":false,"error":"no such node"}\n', Refused, "'why node-a' was refused: no such node"),
        (b'{"ok":false}\n', Refused, "'why node-a' was refused: no reason given"),
        (b"OK\n", TrialFailed, "'why node-a' was answered with no JSON object: 'OK\\n'"),
        (b"[1]\n", TrialFailed, "'why node-a' was answered with no JSON object: '[1]\\n'"),
        (b"", TrialFailed, "'why node-a' was answered with no JSON object: ''"),
    ],
)
def test_what_is_no_answer_is_one_sentence(line: bytes, error: type[Exception], sentence: str) -> None:
    """A command that is not known is lacking, one that is refused has failed; anything else is no control port."""
    with answering(line) as control, pytest.raises(error) as refusal:
        control.ask("why node-a")

    assert (error, sentence) == (type(refusal.value), str(refusal.value))


def test_what_a_status_does_not_say_is_absent() -> None:
    """With the path to it; a node that is not there is a failure: it was in the file."""
    assert "node-a" == dig(STATUS, "active", "tcp")
    assert STATUS["nodes"][0] == node_of(STATUS, "node-a")  # type: ignore[index]  # a list
    with pytest.raises(Absent, match=r"^its status has no nodes\.0\.stats$"):
        dig(STATUS, "nodes", 0, "stats")
    with pytest.raises(TrialFailed, match=r"^its status has no node 'node-b'$"):
        node_of(STATUS, "node-b")


@pytest.mark.parametrize(("claimed", "is_lie"), [(0, False), (10, False), (13, False), (14, True)])
def test_more_probes_than_reached_the_node_are_a_lie(claimed: int, is_lie: bool) -> None:
    """But for those that were under way at the two ends. Seven over TCP, three over UDP were seen."""
    before, after = Seen(100, 0, 0, 0, 5, 0), Seen(107, 0, 0, 0, 8, 0)
    with contextlib.ExitStack() as stack:
        if is_lie:
            caught = stack.enter_context(pytest.raises(Lied))
        check_probes("node-a", claimed, before, after)

    if is_lie:
        assert "claimed: 14 probes of node-a succeeded; seen: 10 reached it" == str(caught.value)


@pytest.mark.realnet
def test_a_door_that_is_closed_has_nobody_behind_it() -> None:
    """Nor is an answer without a name anybody's."""
    with socket.create_server((HOST, 0)) as door:
        port = door.getsockname()[1]
    assert [NOBODY, NOBODY] == [Door(port).ask(), Door(port).ask_udp()]
    assert ["node-a", NOBODY] == [tag(b"node-a:hi"), tag(b"hi")]


@pytest.mark.realnet
def test_a_stream_tells_which_datagrams_had_no_answer() -> None:
    """A node that is muted in the middle and unmuted again: exactly those in between are lost."""
    with Node("node-a") as node:
        stream = udp_stream(Door(node.port), 30, 0.02, {10: node.mute, 20: node.unmute}, wait=0.2)
        seen = node.seen()

    assert 30 == len(stream.sent) == seen.datagrams
    assert {*range(12, 20)} <= {*stream.lost} <= {*range(9, 22)}  # the node obeys beside the stream
    assert stream.first_from("node-a") is not None
    assert None is stream.first_from("node-b")
    assert all(took > 0 for took in stream.round_trips())


@pytest.mark.realnet
def test_what_goes_wrong_beside_a_stream_is_told() -> None:
    """A strike that failed was none: the trial must not go on as if."""

    def strike() -> None:
        raise TrialFailed("node-a did not answer the harness")

    with Node("node-a") as node, pytest.raises(TrialFailed, match="did not answer"):
        udp_stream(Door(node.port), 3, 0.001, {1: strike}, wait=0.1)


@pytest.mark.realnet
@pytest.mark.parametrize("fault", ["kill", "freeze"])
def test_a_node_that_cannot_answer_the_harness_fails_the_trial(fault: str) -> None:
    """What it had counted is gone, or not to be had, and must not be taken for nothing."""
    with Node("node-a") as node:
        getattr(node, fault)()
        with pytest.raises(TrialFailed, match=r"^node-a is dead or frozen and was told to report$"):
            node.seen()


@pytest.mark.realnet
def test_a_node_that_died_by_itself_fails_the_trial() -> None:
    """Nobody had asked for it: what was measured since is not what the scenario says."""
    with Node("node-a") as node:
        node.child.process.kill()
        node.child.process.wait(10)
        with pytest.raises(TrialFailed, match=r"^node-a (died by itself|did not answer the harness)$"):
            node.seen()


@pytest.mark.realnet
def test_a_black_hole_takes_nobody_in_from_the_moment_it_is_one() -> None:
    """A client that slipped in would wait for its answer, and no connect timeout and no hedge would save it."""
    with Node("node-a") as node:
        assert "node-a" == Door(node.port).ask()
        node.swallow()
        with pytest.raises(TimeoutError):
            Door(node.port).connect(within=0.2)
