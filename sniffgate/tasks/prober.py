"""Probers: one per endpoint whose verdict a listener's route reads, each probing until the endpoint is gone.

Two listeners may share endpoints. A prober first takes its endpoint's lock, so one of them probes and the others stand by,
ready to take over when its listener goes.
"""

import logging

import trio

from ..config.schema import Config, NodeConfig, Transport
from ..state.events import ProbeFailed, ProbeSilent, ProbeSucceeded
from ..state.model import Endpoint, RouteKey, State
from ..state.verdict import wants_probe
from .probe import Bad, Good, ProbeResult, ProbeSpec, Shortage, Silent, run_probe, spec_for
from .services import Services

log = logging.getLogger("sniffgate")

JITTER = 0.1  # of the interval, either way, so that gateways started together do not probe together


def endpoints_to_probe(config: Config, route: RouteKey) -> set[Endpoint]:
    """The endpoints whose verdict `route` reads: its own, and the siblings that speak for them or move with them."""
    wanted = set()
    for node in config.nodes:
        if node.pool != route.pool or node.address(route.transport) is None or not node.is_probed:
            continue
        for transport in _read_transports(config, node, route.transport):
            if spec_for(node, transport, config.globals) is not None:
                wanted.add(Endpoint(node.name, transport))
    return wanted


def _read_transports(config: Config, node: NodeConfig, transport: Transport) -> tuple[Transport, ...]:
    if node.spokesman is not None:
        return (node.spokesman,)
    if config.pool(node.pool).move_together or (transport is Transport.UDP and node.udp_follows):
        return node.transports
    return (transport,)


async def probe_wanted(services: Services, route: RouteKey) -> None:
    """Keeps a prober running for every endpoint that `route` reads, as the configuration goes; runs until cancelled."""
    running: dict[Endpoint, trio.CancelScope] = {}
    async with trio.open_nursery() as probers:
        while True:
            state = services.board.state
            wanted = endpoints_to_probe(state.config, route)
            for endpoint in running.keys() - wanted:
                running.pop(endpoint).cancel()
            for endpoint in sorted(wanted - running.keys(), key=str):
                running[endpoint] = trio.CancelScope()
                probers.start_soon(_probe_under, services, endpoint, running[endpoint])
            await services.board.wait_table(state)


async def _probe_under(services: Services, endpoint: Endpoint, scope: trio.CancelScope) -> None:
    async def probe() -> None:
        async with services.probe_lock(endpoint):
            await probe_forever(services, endpoint)

    with scope:
        await services.run_again_after_crashes(f"the prober of {endpoint}", probe)


async def probe_forever(services: Services, endpoint: Endpoint) -> None:
    """Probes an endpoint at its pace; returns when it is gone or not to be probed any more."""
    while (plan := _plan(services.board.state, endpoint)) is not None:
        if not await _wait_until_wanted(services, endpoint):
            continue
        spec, interval = plan
        due = trio.current_time() + interval * (1 + services.dice.uniform(-JITTER, JITTER))
        await run_probe(spec, services.network, services.names, lambda result: _report(services, endpoint, result))
        with trio.move_on_at(due):
            state = services.board.state
            while _plan(state, endpoint) == plan:
                state = await services.board.wait_table(state)


async def _wait_until_wanted(services: Services, endpoint: Endpoint) -> bool:
    """True once the endpoint is to be probed; False, so that the plan is looked at again, when what is published moved."""
    state = services.board.state
    node, health = state.config.node(endpoint.node), state.health.get(endpoint)
    if node is None or health is None or wants_probe(node, endpoint, health):
        return True
    await services.board.wait_revision(state)
    return False


def _plan(state: State, endpoint: Endpoint) -> tuple[ProbeSpec, float] | None:
    """How and how often (seconds) to probe; None when the endpoint is not to be probed."""
    node = state.config.node(endpoint.node)
    spec = None if node is None else spec_for(node, endpoint.transport, state.config.globals)
    if node is None or spec is None:
        return None
    return spec, node.probe_interval if node.probe_interval is not None else state.config.globals.probe_interval


def _report(services: Services, endpoint: Endpoint, result: ProbeResult) -> None:
    at, wall_ms = services.clock.now(), services.clock.wall_ms()
    match result:
        case Good():
            event = ProbeSucceeded(at=at, wall_ms=wall_ms, endpoint=endpoint, latency=result.latency)
            services.reporter.send_nowait(event)
        case Bad():
            services.reporter.send_nowait(ProbeFailed(at=at, wall_ms=wall_ms, endpoint=endpoint, error=result.error))
        case Silent():
            services.reporter.send_nowait(ProbeSilent(at=at, wall_ms=wall_ms, endpoint=endpoint))
        case Shortage():
            services.ledger.shortages["probe"] += 1
            log.warning("cannot probe %s: %s", endpoint, result.error)
