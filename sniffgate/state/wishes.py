"""What an operator may ask for, and the sentence that says why not."""

import difflib
from collections.abc import Mapping

from ..config.schema import Transport
from .events import OperatorEvent, OperatorReleased, OperatorSwitched
from .model import Endpoint, Mark, RouteKey, State, Verdict
from .verdict import endpoints_that_decide, is_enabled, is_usable, override_of, verdict_of


def refusal(state: State, event: OperatorEvent) -> str | None:
    """Why the command cannot be carried out, as a sentence for the operator; None when it can."""
    if isinstance(event, OperatorReleased):
        return None
    node = state.config.node(event.node)
    if node is None:
        near = difflib.get_close_matches(event.node, [each.name for each in state.config.nodes], n=1)
        return f"no node is named {event.node!r}" + (f"; did you mean {near[0]!r}?" if near else "")
    if not isinstance(event, OperatorSwitched):
        return None
    if event.transport is not None and node.address(event.transport) is None:
        return f"{node.name} has no {event.transport.value} address"
    if not is_enabled(state, node):
        return f"{node.name} is disabled; enable it first"
    for transport in _pinned_transports(state, event):
        endpoint = Endpoint(node.name, transport)
        if not is_usable(state, node, endpoint):
            return f"{node.name} cannot be used: {_trouble(state, endpoint)}"
    return None


def pins_after_switch(state: State, event: OperatorSwitched) -> Mapping[RouteKey, str]:
    """The pins after a switch that was not refused: every transport the node has, unless one was named."""
    node = state.config.node(event.node)
    assert node is not None
    chosen = {RouteKey(node.pool, transport): node.name for transport in _pinned_transports(state, event)}
    return {**state.pins, **chosen}


def _pinned_transports(state: State, event: OperatorSwitched) -> tuple[Transport, ...]:
    node = state.config.node(event.node)
    assert node is not None
    if event.transport is None or state.config.pool(node.pool).move_together:
        return node.transports
    return (event.transport,)


def _trouble(state: State, endpoint: Endpoint) -> str:
    node = state.config.node(endpoint.node)
    assert node is not None
    if override_of(state, node.name).mark is Mark.DOWN:
        return "it is marked down by the operator"
    for each in endpoints_that_decide(state, node, endpoint):
        verdict = verdict_of(state, node, each)
        if verdict in (Verdict.UNHEALTHY, Verdict.PROBATION):
            errors = [state.health[seen].last_error for seen in (each, each.sibling) if seen in state.health]
            error = next(filter(None, errors), "")
            return f"{each} is {verdict.value}" + (f" ({error})" if error else "")
    return f"{endpoint} is not usable"
