"""Why a node has traffic or has none, and what would change that: told from the same predicates that decide."""

from typing import Any

import attrs

from ..config.schema import Endpoint, NodeConfig, RouteKey, Transport
from ..errors import CommandRefused
from .account import Account, Clock, Due, tell_serving, tell_unusable, tell_waiting
from .events import OperatorEnabled
from .model import State
from .verdict import is_enabled, is_usable, override_of
from .wishes import refusal


@attrs.frozen
class EndpointStory:
    """One endpoint: whether new traffic goes to it, why, and what must happen (and when) to change that."""

    endpoint: Endpoint
    active: bool
    reasons: tuple[str, ...]
    changes: tuple[str, ...] = ()
    dues: tuple[Due, ...] = ()


@attrs.frozen
class Explanation:
    """All that is to be said of one node, both transports."""

    node: str
    endpoints: tuple[EndpointStory, ...]


def explain(state: State, node: str, *, now: float | None = None) -> Explanation:
    """Why `node` is active or not. Waiting times are counted from `now` (default: when the state last changed).

    *Errors:* CommandRefused for a name that no node has.
    """
    found = state.config.node(node)
    if found is None:
        raise CommandRefused(refusal(state, OperatorEnabled(at=0.0, node=node)))
    clock = Clock(state, state.now if now is None else max(now, state.now))
    return Explanation(node, tuple(_story(state, found, transport, clock) for transport in Transport))


def as_json(explanation: Explanation) -> dict[str, Any]:
    """Plain values for a reply."""
    return {
        "node": explanation.node,
        "endpoints": {
            str(each.endpoint): {
                "active": each.active,
                "reasons": list(each.reasons),
                "changes": list(each.changes),
                "due": [
                    {"at_s": due.at, "endpoint": str(due.endpoint), "outcome": due.outcome.value} for due in each.dues
                ],
            }
            for each in explanation.endpoints
        },
    }


def as_text(explanation: Explanation) -> str:
    """A few lines for a person."""
    lines = []
    for each in explanation.endpoints:
        lines.append(f"{each.endpoint} is {'active' if each.active else 'not active'}: {'; '.join(each.reasons)}")
        lines += [f"  {change}" for change in each.changes]
    return "\n".join(lines)


def _story(state: State, node: NodeConfig, transport: Transport, clock: Clock) -> EndpointStory:
    endpoint = Endpoint(node.name, transport)
    if node.address(transport) is None:
        return EndpointStory(endpoint, False, (f"{node.name} has no {transport.value} address",))
    route = state.routes[RouteKey(node.pool, transport)]
    member, active, account = state.config.member(endpoint), node.name in route.active, Account()
    mark = override_of(state, node.name).mark
    if mark is not None:
        release = f"`health {node.name} auto` gives it back to the evidence"
        account.say(f"marked {mark.value} by the operator", release)
    if not is_enabled(state, node):
        by = "the configuration file" if override_of(state, node.name).enabled is None else "the operator"
        account.say(f"disabled by {by}", f"`enable {node.name}` lets it have traffic")
    elif not is_usable(state, node, endpoint):
        tell_unusable(state, member, route, clock, account)
    elif active:
        tell_serving(state, member, route, clock, account)
    else:
        tell_waiting(state, member, route, clock, account)
    return EndpointStory(endpoint, active, tuple(account.reasons), tuple(account.changes), tuple(account.dues))
