"""What an operator may ask for, the sentence that says why not, and what the wish leaves in the state."""

from collections.abc import Mapping
from typing import assert_never

import attrs

from ..config.schema import NodeConfig, Transport
from .events import (
    Event,
    OperatorDisabled,
    OperatorDrained,
    OperatorEnabled,
    OperatorEvent,
    OperatorMarked,
    OperatorReleased,
    OperatorSwitched,
)
from .model import Endpoint, Mark, Override, RouteKey, State
from .verdict import NO_OVERRIDE, culprits, is_enabled, is_usable, may_serve, override_of


def refusal(state: State, event: OperatorEvent) -> str | None:
    """Why the command cannot be carried out, as a sentence for the operator; None when it can."""
    if isinstance(event, OperatorReleased):
        return None
    node = state.config.node(event.node)
    if node is None:
        import difflib  # for a misspelt name only: no start is to wait for it

        near = difflib.get_close_matches(event.node, [each.name for each in state.config.nodes], n=1)
        return f"no node is named {event.node!r}" + (f"; did you mean {near[0]!r}?" if near else "")
    return _objection(state, node, event) if isinstance(event, OperatorSwitched) else None


def pins_after(state: State, event: OperatorSwitched | OperatorReleased) -> Mapping[RouteKey, str]:
    """The pins after a switch or a release; those there are when the switch is refused."""
    if isinstance(event, OperatorReleased):
        return {key: node for key, node in state.pins.items() if not releases(state, event, key)}
    node = state.config.node(event.node)
    if node is None or _objection(state, node, event) is not None:
        return state.pins
    return {**state.pins, **{RouteKey(node.pool, each): node.name for each in _wanted(state, node, event)}}


def releases(state: State, event: Event, key: RouteKey) -> bool:
    """Whether `event` asks for automatic choice on the route `key`; under `move_together` both routes of a pool go."""
    if not isinstance(event, OperatorReleased):
        return False
    return event.transport in (None, key.transport) or state.config.pool(key.pool).move_together


def without_void_pins(state: State) -> Mapping[RouteKey, str]:
    """The pins less the void ones; in a pool that moves together, the node's pin over its other transport goes too."""
    void = {key for key, name in state.pins.items() if _is_void(state, key, name)}
    for pool, transport in tuple(void):
        other = RouteKey(pool, transport.sibling)
        if state.pins.get(other) == state.pins[RouteKey(pool, transport)] and _moves_together(state, pool):
            void.add(other)
    return {key: name for key, name in state.pins.items() if key not in void}


def overrides_after(
    state: State, event: OperatorEnabled | OperatorDisabled | OperatorDrained | OperatorMarked, now: float
) -> Mapping[str, Override]:
    """The overrides after a wish about one node; one that says what the file says anyway is none."""
    node = state.config.node(event.node)
    if node is None:
        return state.overrides
    wish = override_of(state, event.node)
    match event:
        case OperatorEnabled():
            wish = attrs.evolve(wish, enabled=None if node.enabled else True, drain=None, drain_at=0.0)
        case OperatorDisabled() | OperatorDrained(timeout=None):
            wish = attrs.evolve(wish, enabled=False if node.enabled else None, drain=None, drain_at=0.0)
        case OperatorDrained():
            wish = attrs.evolve(wish, enabled=False if node.enabled else None, drain=event.timeout, drain_at=now)
        case OperatorMarked():
            wish = attrs.evolve(wish, mark=event.mark)
        case _:
            assert_never(event)
    others = {name: each for name, each in state.overrides.items() if name != event.node}
    return others if wish == NO_OVERRIDE else {**others, event.node: wish}


def trouble(state: State, endpoint: Endpoint) -> str:
    """Why an endpoint is not usable, in words: the operator's mark, or the evidence, whosever it is."""
    node = state.config.member(endpoint).node
    if override_of(state, node.name).mark is Mark.DOWN:
        return "it is marked down by the operator"
    words = []
    for each in culprits(state, node, endpoint):
        health = state.health[each]
        words.append(f"{each} is {health.verdict.value}" + (f" ({health.last_error})" if health.last_error else ""))
    return ", ".join(words)


def _objection(state: State, node: NodeConfig, event: OperatorSwitched) -> str | None:
    if event.transport is not None and node.address(event.transport) is None:
        return f"{node.name} has no {event.transport.value} address"
    if not is_enabled(state, node):
        return f"{node.name} is disabled; enable it first"
    for transport in _wanted(state, node, event):
        endpoint = Endpoint(node.name, transport)
        if not is_usable(state, node, endpoint):
            return f"{node.name} cannot be used: {trouble(state, endpoint)}"
    return None


def _wanted(state: State, node: NodeConfig, event: OperatorSwitched) -> tuple[Transport, ...]:
    """Every transport the node has, unless one was named."""
    if event.transport is None or state.config.pool(node.pool).move_together:
        return node.transports
    return (event.transport,)


def _is_void(state: State, key: RouteKey, name: str) -> bool:
    """Whether the pinned node is gone or disabled, or not usable while another is.

    With nothing usable at all, the pin of a node that is at least enabled stays: it comes first under fail-open.
    """
    member = next((each for each in state.config.members(key) if each.node.name == name), None)
    if member is None or not is_enabled(state, member.node):
        return True
    return not may_serve(state, member) and any(may_serve(state, other) for other in state.config.members(key))


def _moves_together(state: State, pool: str) -> bool:
    return any(each.move_together for each in state.config.pools if each.name == pool)
