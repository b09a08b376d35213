"""What `events` remembers."""

import attrs

from sniffgate.config.schema import Transport
from sniffgate.control.recent import Recent
from sniffgate.state.events import ConfigApplied, Event, OperatorMarked, OperatorSwitched, ProbeFailed
from sniffgate.state.model import Endpoint, Mark, State
from sniffgate.state.reducer import initial_state, reduce
from tests.tasks.configs import A, B, config_for

TCP = Endpoint("node-a", Transport.TCP)


def folded(recent: Recent, state: State, *events: Event) -> State:
    for event in events:
        after = reduce(state, event)
        recent.observe(state, event, after)
        state = after
    return state


def test_a_failover_is_a_verdict_and_a_switch_with_their_evidence() -> None:
    """Both what was found and what was done about it."""
    recent = Recent()
    state = initial_state(config_for(attrs.evolve(A, udp=None), attrs.evolve(B, udp=None)))
    folded(recent, state, *[ProbeFailed(at=i, wall_ms=i, endpoint=TCP, error="refused") for i in (1, 2, 3)])

    assert [
        {"ts_ms": 3, "epoch": 2, "type": "verdict", "node": "node-a", "protocol": "tcp", "from": "unknown",
         "to": "unhealthy", "cause": "probes", "detail": "refused"},
        {"ts_ms": 3, "epoch": 2, "type": "switch", "route": "default/tcp", "from": "node-a", "to": "node-b",
         "reason": "failover", "detail": "node-a/tcp unhealthy by probes (refused)"},
    ] == recent.last(10)  # fmt: skip


def test_what_operators_do_is_told_with_its_effect() -> None:
    """Who changed what is the first question after an incident."""
    recent = Recent()
    config = config_for(A, B)
    folded(
        recent,
        initial_state(config),
        OperatorMarked(at=1, node="node-b", mark=Mark.DOWN),
        OperatorMarked(at=2, node="node-b", mark=None),
        OperatorSwitched(at=3, node="node-b", transport=Transport.UDP),
        ConfigApplied(at=4, config=config),
    )
    assert [
        ("operator", "marked down"),
        ("operator", "as configured"),
        ("pin", None),
        ("switch", ""),
        ("reload", "2 nodes, 2 listeners"),
    ] == [(each["type"], each.get("detail")) for each in recent.last(10)]


def test_only_the_last_are_kept_and_none_grows() -> None:
    """Memory does not depend on how long it runs, nor on how many nodes fail together."""
    recent = Recent(maxlen=3)
    state = initial_state(config_for(A, B))
    marks = [OperatorMarked(at=i, node="node-b", mark=(Mark.UP, None)[i % 2]) for i in range(10)]
    folded(recent, state, *marks)
    assert 3 == len(recent.last(1000))
    assert recent.last(1000)[-2:] == recent.last(2)
    assert [] == Recent().last(5)
