"""How many recorded flows a course of events would have cut.

What a flow would have done elsewhere, nobody knows. So each is taken to have lived as long as it did: on the node that
it had, where the course has the same nodes in use at its start, else on the first that the course has in use. A flow
that was cut in the recording would have lived longer, who knows how long: that is why there are two figures.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence

import attrs

from ..config.schema import RouteKey, Transport
from .course import Course, Retirement, Table
from .model import Endpoint
from .terms import NEVER

LATE_MS = 50.0  # by which the line of a flow that was cut may be late: the scheduler, and two clocks


@attrs.frozen(kw_only=True)
class FlowSpan:
    """A flow that was recorded, from its start to its end in milliseconds since 1970.

    `was_cut`: the gateway ended it at a drain deadline.
    """

    listener: str
    node: str
    began_ms: float
    ended_ms: float
    was_cut: bool = False


@attrs.frozen(kw_only=True)
class Cuts:
    """How many flows of a course are cut: surely, and at the most. `moved`: they would have had another node.

    `unknown`: the course has no node for them, or not their listener.
    """

    surely: int = 0
    at_most: int = 0
    moved: int = 0
    unknown: int = 0


def cuts_in(course: Course, recorded: Course, flows: Iterable[FlowSpan]) -> Cuts:
    """What `course` does to TCP flows that were recorded in the course of `recorded`."""
    pools = {each.name: each.pool for each in course.state.config.listeners if each.protocol is Transport.TCP}
    drains: defaultdict[tuple[str, Endpoint], list[Retirement]] = defaultdict(list)
    for each in course.retirements:
        drains[each.pool, each.endpoint].append(each)
    surely = at_most = moved = unknown = 0
    for flow in flows:
        pool = pools.get(flow.listener)
        node = None if pool is None else _node_of(flow, course, recorded, RouteKey(pool, Transport.TCP))
        if pool is None or node is None:
            unknown += 1
            continue
        moved += node != flow.node
        ahead = [each for each in drains[pool, Endpoint(node, Transport.TCP)] if each.since_ms >= flow.began_ms]
        alive_until = flow.ended_ms + (LATE_MS if flow.was_cut else 0.0)
        is_sure = any(each.deadline_ms < alive_until for each in ahead)
        surely += is_sure
        at_most += is_sure or (flow.was_cut and any(each.deadline_ms < NEVER for each in ahead))
    return Cuts(surely=surely, at_most=at_most, moved=moved, unknown=unknown)


def _node_of(flow: FlowSpan, course: Course, recorded: Course, key: RouteKey) -> str | None:
    """The node that the flow would have had; None when there was none to have."""
    active = _active(course.tables, flow.began_ms, key)
    if flow.node in active or active == _active(recorded.tables, flow.began_ms, key):
        return flow.node  # in use, or a standby that it was passed on to
    return next(iter(active), None)


def _active(tables: Sequence[Table], at_ms: float, key: RouteKey) -> tuple[str, ...]:
    at = max(bisect_right(tables, at_ms, key=lambda table: table.from_ms) - 1, 0)
    route = tables[at].routes.get(key)
    return () if route is None else route.active
