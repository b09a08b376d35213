"""What a test waits for, with a reason where it does not come: the evidence, and `why`.

Each returns as soon as it is so, and fails with `AssertionError` when it is not so within that many seconds of Trio's
clock. A `gateway` is one of `open_gateway` and its like, or a plain `sniffgate.Gateway` (then without a timeline).
"""

import math
from collections.abc import Awaitable, Callable

import attrs
import trio
from trio.testing import wait_all_tasks_blocked

from ..config.schema import Endpoint, RouteKey, Transport
from ..state.model import RouteMode, State, Verdict
from ..state.verdict import is_enabled, verdict_of
from ..state.why import as_text, explain
from ..tasks.gateway import Gateway
from .subject import GatewayUnderTest
from .timeline import Line, lines_of_switches

STEPS = 200  # looks at the flows while their end is waited for: no task is told of it
SHORTEST_STEP = 0.001  # seconds
LAST_LOOK = 0.01  # seconds of a real clock that tasks have for it; on virtual time it takes none

Expected = GatewayUnderTest | Gateway


async def expect_active(
    gateway: Expected, node: str, *, within: float = 0.2, transport: Transport | None = None
) -> State:
    """New traffic goes to `node`, over one transport or each that it has; fail-open does not count."""
    return await _expect_state(gateway, node, transport, within, "active", _is_active)


async def expect_healthy(
    gateway: Expected, node: str, *, within: float = 5.0, transport: Transport | None = None
) -> State:
    """The verdict on `node` is healthy, which takes evidence: an endpoint not yet probed is not."""
    return await _expect_state(gateway, node, transport, within, "healthy", _is_healthy)


async def expect_drained(
    gateway: Expected, node: str, *, within: float = 0.2, transport: Transport | None = None
) -> State:
    """New traffic does not go to `node`, and its last flow has ended."""
    inner = _inner(gateway)
    endpoints = _endpoints(inner, node, transport)

    def is_drained() -> bool:
        routed = any(_is_active(inner.state, endpoint) for endpoint in endpoints)
        return not routed and not any(lease.flows for lease in inner.leases() if lease.endpoint in endpoints)

    async def wait() -> None:
        pause = max(within / STEPS, SHORTEST_STEP)
        await trio.lowlevel.checkpoint()
        while not is_drained():
            look, cut = trio.current_time() + pause, min(_ends(inner), default=math.inf)
            await trio.sleep_until(min(look, cut))
            if cut <= look:
                await wait_all_tasks_blocked()  # a flow that is cut at this instant ends in this instant

    return await _within(gateway, within, "drained", endpoints, is_drained, wait)


def _ends(gateway: Gateway) -> list[float]:
    """When leases are cut: then it is worth a look, to the instant."""
    return [lease.deadline for lease in gateway.leases() if lease.deadline > trio.current_time()]


async def _expect_state(
    gateway: Expected,
    node: str,
    transport: Transport | None,
    within: float,
    what: str,
    is_so: Callable[[State, Endpoint], bool],
) -> State:
    inner = _inner(gateway)
    endpoints = _endpoints(inner, node, transport)

    def is_so_of_all(state: State) -> bool:
        return all(endpoint in state.health and is_so(state, endpoint) for endpoint in endpoints)

    async def wait() -> None:
        await trio.lowlevel.checkpoint()
        await inner.wait_for(is_so_of_all)

    return await _within(gateway, within, what, endpoints, lambda: is_so_of_all(inner.state), wait)


async def _within(
    gateway: Expected,
    within: float,
    what: str,
    endpoints: tuple[Endpoint, ...],
    is_so: Callable[[], bool],
    wait: Callable[[], Awaitable[None]],
) -> State:
    began = _inner(gateway).services.clock.now()
    with trio.move_on_after(within):
        await wait()
    if not is_so():
        with trio.move_on_after(LAST_LOOK):  # what is due at the last instant was in time
            await wait_all_tasks_blocked()
    if not is_so():
        subject = ", ".join(map(str, endpoints))
        raise AssertionError(f"{subject}: not {what} within {within:g} s\n{_evidence(gateway, endpoints, began)}")
    return gateway.state


def _is_active(state: State, endpoint: Endpoint) -> bool:
    node = state.config.node(endpoint.node)
    route = None if node is None else state.routes.get(RouteKey(node.pool, endpoint.transport))
    return route is not None and route.mode is RouteMode.NORMAL and endpoint.node in route.active


def _is_healthy(state: State, endpoint: Endpoint) -> bool:
    node = state.config.node(endpoint.node)
    return (
        node is not None
        and is_enabled(state, node)
        and all(verdict_of(state, node, each) is Verdict.HEALTHY for each in state.config.member(endpoint).grounds)
    )


def _inner(gateway: Expected) -> Gateway:
    return gateway.gateway if isinstance(gateway, GatewayUnderTest) else gateway


def _endpoints(gateway: Gateway, node: str, transport: Transport | None) -> tuple[Endpoint, ...]:
    found = gateway.state.config.node(node)
    if found is None or (transport is not None and transport not in found.transports):
        over = f" over {transport.value}" if transport is not None else ""
        raise LookupError(f"the configuration has no node {node}{over}")
    wanted = found.transports if transport is None else (transport,)
    if transport is None:  # what no listener or route uses is nobody's to wait for
        used = {(each.pool, each.protocol) for each in gateway.state.config.listeners}
        wanted = tuple(each for each in wanted if (found.pool, each) in used) or wanted
    return tuple(Endpoint(node, each) for each in wanted)


# --- the evidence ------------------------------------------------------------------------------------


def _evidence(gateway: Expected, endpoints: tuple[Endpoint, ...], began: float) -> str:
    inner = _inner(gateway)
    now, state = inner.services.clock.now(), inner.state
    lines = ["why:"]
    node = endpoints[0].node
    if state.config.node(node) is not None:
        story = explain(state, node, now=now)
        story = attrs.evolve(story, endpoints=tuple(each for each in story.endpoints if each.endpoint in endpoints))
        lines += [f"  {line}" for line in as_text(story).splitlines()]
    lines.append("routes:")
    for key, route in state.routes.items():
        active = f"active {','.join(route.active) or 'none'}" if route.mode is RouteMode.NORMAL else route.mode.value
        standbys = f", then {','.join(route.standbys)}" if route.standbys else ""
        pinned = f", pinned to {route.pin}" if route.pin else ""
        lines.append(f"  {key}: {active}{standbys}{pinned}")
    flows = [lease for lease in inner.leases() if lease.flows]
    lines += ["flows:"] if flows else []
    for lease in flows:
        left = lease.deadline - trio.current_time()
        until = f", {left:g} s left" if left < float("inf") else ""
        lines.append(f"  {lease.listener}: {lease.flows} at {lease.endpoint}, {lease.kind.value}{until}")
    lines.append(f"what happened (seconds since the gateway's start; waited from {began:.3f} to {now:.3f}):")
    lines += [f"  {at:8.3f}  {what}" for at, what in _happened(gateway)] or ["  nothing"]
    return "\n".join(lines)


def _happened(gateway: Expected) -> tuple[Line, ...]:
    return gateway.timeline.last() if isinstance(gateway, GatewayUnderTest) else lines_of_switches(gateway.state)
