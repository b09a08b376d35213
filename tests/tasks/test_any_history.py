"""The whole gateway under random histories of clients, faults, operators and reloads."""

import pytest
import trio
from hypothesis import given, settings
from trio.testing import MockClock

from sniffgate.config.schema import ProbeKind
from sniffgate.state.model import Mark
from tests.tasks.history import (
    INF,
    UDP,
    Client,
    Fault,
    History,
    Operator,
    Put,
    Recover,
    Shape,
    Shut,
    Spec,
    Step,
    Wait,
    histories,
)
from tests.tasks.history_play import play

A, B, C = Spec("a", tier=2), Spec("b", tier=1), Spec("c")
QUIET = tuple(Spec(name, tier=tier, probe=ProbeKind.NONE) for name, tier in (("a", 2), ("b", 1), ("c", 0)))
KNOWN: dict[str, tuple[Shape, tuple[Step, ...]]] = {  # what chance brings about too seldom to rely on
    "a node is added": (Shape((A, B)), (Put(C), Wait(15.0))),
    "a node moves and dies there": (
        Shape((A, B)),
        (Wait(3.0), Put(Spec("a", tier=2, place=2)), Wait(3.0), Fault("kill", "a", place=2), Wait(15.0)),
    ),
    "a pinned node dies": (Shape((A, B)), (Operator("switch", "b"), Wait(3.0), Fault("kill", "b"), Wait(15.0))),
    "an unprobed node dies and returns": (
        Shape(QUIET[:2]),
        (Wait(1.0), Fault("kill", "a"), Wait(6.0), Recover("a"), Wait(6.0)),
    ),
    "more nodes are dead than may be tried": (
        Shape(QUIET),
        (*(Fault("kill", name) for name in "abc"), Client("ask", "tcp"), Wait(1.0)),
    ),
    "a node that hangs is asked by many": (
        Shape(QUIET[:2], settings={"connect_timeout": 3.0}),
        (Fault("black_hole", "a"), *[Client("ask", "tcp")] * 6, Wait(6.0)),
    ),
    "the loser of a hedge connects late": (
        Shape(QUIET[:2], settings={"connect_timeout": 3.0}),
        (Fault("black_hole", "a"), Client("ask", "tcp"), Wait(0.8), Recover("a"), Wait(3.0)),
    ),
    "a node dies under long flows": (
        Shape((A, B), settings={"failback_drain_timeout": INF}),
        (
            Client("chat", "tcp", 20.0),
            Wait(1.0),
            Fault("freeze", "a", UDP),
            Operator("mark", "a", Mark.DOWN),
            Wait(6.0),
        ),
    ),
    "a listener is removed under long flows": (
        Shape((A, B)),
        (Client("chat", "tcp", 20.0), Wait(1.0), Shut("tcp"), Wait(6.0)),
    ),
    "an operator drains": (
        Shape((A, B)),
        (
            Client("chat", "tcp", 20.0),
            Wait(1.0),
            Operator("drain", "a", 1.0),
            Wait(0.25),
            Operator("drain", "a", INF),
            Wait(6.0),
        ),
    ),
    "a drain is called off": (
        Shape((A, B)),
        (
            Client("chat", "tcp", 20.0),
            Wait(1.0),
            Operator("switch", "b"),
            Wait(1.0),
            Operator("switch", "a"),
            Wait(6.0),
        ),
    ),
}

pytestmark = pytest.mark.virtual


def hold(history: History) -> None:
    """Plays a history on a fresh clock; fails with its story if a rule does not hold."""
    story: list[str] = []
    broken = trio.run(play, history, story, clock=MockClock(autojump_threshold=0))
    if broken is not None:
        pytest.fail("\n".join((broken, repr(history.shape), *story)), pytrace=False)


@pytest.mark.parametrize("busy", [False, True])
@pytest.mark.parametrize("name", KNOWN)
def test_every_rule_holds_when(name: str, busy: bool) -> None:
    """Each of these is the shortest history that some rule can be seen in."""
    hold(History(*KNOWN[name], busy=busy))


@given(histories(max_size=20))
@settings(max_examples=15)
def test_every_rule_holds_in_every_history(history: History) -> None:
    """What no single test thought of: service, drains, bytes, counters and routes, whatever meets whatever."""
    hold(history)


@pytest.mark.soak
@given(histories(max_size=40))
@settings(max_examples=200)
def test_every_rule_holds_in_every_long_history(history: History) -> None:
    """The same for hours of virtual time, and more of everything."""
    hold(history)
