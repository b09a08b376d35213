"""Flows are read out of the program's own log, whatever stands around them."""

import pytest

from sniffgate.cli.flow_spans import FlowLogRead, NoFlowLog, read_flows
from sniffgate.state.cuts import FlowSpan

HEAD = "2026-03-01T12:00:00.250Z info sniffgate.flow: "
FLOW = "listener=web protocol=tcp client=10.0.0.9:51234 node=node-a up=5 down=10 ms=150.5 reason=complete"
NOON_MS = 1772366400_000.0


def a_span(**changes: object) -> FlowSpan:
    fields = {"listener": "web", "node": "node-a", "began_ms": NOON_MS + 99.5, "ended_ms": NOON_MS + 250.0}
    return FlowSpan(**{**fields, **changes})  # type: ignore[arg-type]  # names and types are FlowSpan's own


def test_a_flow_ended_when_its_line_was_written_and_began_its_duration_before() -> None:
    """The line has the one and the other."""
    drained = FLOW.replace("complete", "drained")
    lines = [f"{HEAD}{FLOW}\n", f"Mar 01 12:00:00 host sniffgate[12]: {HEAD}{drained}\n"]

    assert FlowLogRead((a_span(), a_span(was_cut=True)), 0, 0, 0) == read_flows(lines)


def test_what_is_no_tcp_flow_at_a_node_is_counted_and_the_rest_passed_over() -> None:
    """A figure that leaves something out must say so."""
    lines = [
        "2026-03-01T12:00:00.123Z warn sniffgate: node-a/tcp is unhealthy (was healthy): connection refused",
        HEAD + FLOW.replace("protocol=tcp", "protocol=udp"),
        HEAD + FLOW.replace("node=node-a", "node=-"),
        HEAD + "listener=web node=- reason=no_node more=312 within_ms=1000",
        HEAD + FLOW + " (4 more like it in 1.0 s)",
    ]

    assert FlowLogRead((), udp=1, without_node=1, summed_up=316) == read_flows(lines)


def test_names_in_quotes_are_names() -> None:
    """A node may be named with a space, a quote, or a dash alone."""
    quoted = FLOW.replace("node-a", '"a \\"b\\" c"').replace("listener=web", 'listener="-"')

    assert (a_span(node='a "b" c', listener="-"),) == read_flows([HEAD + quoted]).flows
    assert ("-",) == tuple(each.node for each in read_flows([HEAD + FLOW.replace("node-a", '"-"')]).flows)


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        ([], "none of its 0 lines is one of the flow log, which the program's own log holds"),
        (["hello", "world"], "none of its 2 lines is one of the flow log"),
        (["", HEAD + FLOW.replace("ms=150.5 ", "")], "line 2: a line of the flow log without ms"),
        ([HEAD + FLOW.replace("=tcp", "=sctp")], "line 1: not a line of the flow log: 'sctp' is not a valid Transport"),
        ([HEAD + FLOW.replace("150.5", "long")], "line 1: not a line of the flow log: could not convert"),
        ([HEAD.replace("-03-", "-13-") + FLOW], "line 1: not a line of the flow log: month must be in 1..12"),
        (
            [HEAD + "listener=web node=- reason=no_node more=many"],
            "line 1: not a line of the flow log: invalid literal",
        ),
    ],
)
def test_what_is_no_flow_log_is_one_sentence(lines: list[str], complaint: str) -> None:
    """Counting nothing and saying nought would be a lie."""
    with pytest.raises(NoFlowLog) as caught:
        read_flows(lines)

    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)
