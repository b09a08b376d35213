"""Probers: one per endpoint whose verdict a listener's route reads, each probing until the endpoint is gone.

Two listeners may share endpoints. A prober first takes its endpoint's lock, so one of them probes and the others stand
by, ready to take over when its listener goes.
"""

import logging

import trio

from ..config.schema import Config, NodeConfig, Transport
from ..state.detection import JITTER
from ..state.events import ProbeFailed, ProbeSilent, ProbeSucceeded
from ..state.model import Endpoint, Health, RouteKey, State, Verdict
from ..state.verdict import follows, spoken_for, wants_probe
from .pace import Pace, Plan, Started
from .probe import Bad, Good, ProbeResult, Shortage, Silent, run_probe, spec_for
from .services import Services
from .tripwire import keep_tripwire

log = logging.getLogger("sniffgate")

STARTED_AT_ONCE = 50  # probers, so that a file with 500 new nodes keeps nobody waiting for milliseconds


def endpoints_to_probe(config: Config, route: RouteKey) -> set[Endpoint]:
    """The endpoints whose verdict `route` reads: its own, and the siblings that speak for them or move with them."""
    wanted: set[Endpoint] = set()
    for node in config.nodes:
        if node.pool != route.pool or node.address(route.transport) is None or not node.is_probed:
            continue
        wanted.update(Endpoint(node.name, each) for each in _read_transports(config, node, route.transport))
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
            config = services.board.state.config
            wanted = endpoints_to_probe(config, route)
            for endpoint in running.keys() - wanted:
                running.pop(endpoint).cancel()
            for count, endpoint in enumerate(sorted(wanted - running.keys(), key=str)):
                running[endpoint] = trio.CancelScope()
                probers.start_soon(_probe_under, services, endpoint, running[endpoint])
                if count % STARTED_AT_ONCE == STARTED_AT_ONCE - 1:
                    await trio.lowlevel.checkpoint()
            await services.board.wait_config(config)


async def _probe_under(services: Services, endpoint: Endpoint, scope: trio.CancelScope) -> None:
    async def probe() -> None:
        async with services.probe_lock(endpoint), trio.open_nursery() as nursery:
            if endpoint.transport is Transport.TCP:
                nursery.start_soon(keep_tripwire, services, endpoint)
            await probe_forever(services, endpoint)
            nursery.cancel_scope.cancel()

    with scope:
        await services.run_again_after_crashes(f"the prober of {endpoint}", probe)


async def probe_forever(services: Services, endpoint: Endpoint) -> None:
    """Probes an endpoint at its pace; returns when it is gone or not to be probed any more.

    A change of the settings ends the probes under way, and their results count no more.
    """
    plan = _plan(services.board.state.config, endpoint)
    pace: Pace | None = None
    while plan is not None:
        if pace is None:
            last = _last_probe(services, endpoint)  # another listener's prober may have done it
            pace = Pace(plan, last, last + _dice_interval(services, plan))
        elif plan != pace.plan:
            pace.follow(plan, _dice_interval(services, plan))
        async with trio.open_nursery() as probing:
            probing.start_soon(_probe_at_pace, services, pace)
            config = services.board.state.config
            while plan == pace.plan:
                config = (await services.board.wait_config(config)).config
                plan = _plan(config, endpoint)
            probing.cancel_scope.cancel()


async def _probe_at_pace(services: Services, pace: Pace) -> None:
    """Starts a probe whenever one is due; runs until cancelled, or the endpoint is gone."""
    endpoint = pace.plan.spec.endpoint
    nap = trio.CancelScope()

    async def probe(started: Started) -> None:
        def take(result: ProbeResult) -> None:
            reports = [_report(services, pace, each) for each in pace.finish(started, result)]
            if not all(reports):
                nap.cancel()  # nothing will change, but the next probe has to wait for this one no more

        await run_probe(pace.plan.spec, services.network, services.names, take)

    async with trio.open_nursery() as probes:
        while True:
            state = services.board.state
            node, health = state.config.node(endpoint.node), state.health.get(endpoint)
            if node is None or health is None:
                return
            behind = _left_in_doubt(state, node, endpoint, health)
            wanted = wants_probe(node, endpoint, health)
            due = pace.due(health, state.config.globals, wanted=wanted, behind=behind)
            if due <= trio.current_time():
                started = pace.start(trio.current_time(), _dice_interval(services, pace.plan), health, behind)
                probes.start_soon(probe, started)
                await trio.lowlevel.checkpoint()
                continue
            with trio.CancelScope(deadline=due) as nap:
                await services.board.wait_health(endpoint, health)


def _left_in_doubt(state: State, node: NodeConfig, endpoint: Endpoint, health: Health) -> Health | None:
    """The health of an endpoint that an unhealthy one speaks for and that is not unhealthy itself.

    Live traffic ejects one transport, and the probes that would tell of the other must not take their time for that.
    """
    if health.verdict is not Verdict.UNHEALTHY:
        return None
    others = [state.health.get(each) for each in spoken_for(node, endpoint) if each != endpoint]
    return next((each for each in others if each is not None and each.verdict is not Verdict.UNHEALTHY), None)


def _dice_interval(services: Services, plan: Plan) -> float:
    return plan.interval * (1 + services.dice.uniform(-JITTER, JITTER))


def _last_probe(services: Services, endpoint: Endpoint) -> float:
    """When the last probe of the endpoint had its result, on Trio's clock; -inf when there was none."""
    health = services.board.state.health.get(endpoint)
    if health is None or health.last_probe_at is None:
        return float("-inf")
    return services.clock.deadline(health.last_probe_at)


def _plan(config: Config, endpoint: Endpoint) -> Plan | None:
    """How and how often to probe; None when the endpoint is not to be probed."""
    node, settings = config.node(endpoint.node), config.globals
    spec = None if node is None else spec_for(node, endpoint.transport, settings)
    if node is None or spec is None:
        return None
    interval = settings.probe_interval if node.probe_interval is None else node.probe_interval
    return Plan(spec, interval, settings.probe_fast_interval, follows(node, endpoint))


def _report(services: Services, pace: Pace, result: ProbeResult) -> bool:
    """Tells the hub; False when it hears nothing, so that no change is to be waited for."""
    at, wall_ms, overflowed = services.clock.now(), services.clock.wall_ms(), services.reporter.overflowed
    endpoint, was_short = pace.plan.spec.endpoint, pace.is_short
    pace.is_short = isinstance(result, Shortage)
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
            if not was_short:  # once, however long it lasts
                log.warning("cannot probe %s: %s", endpoint, result.error)
            return False
    return services.reporter.overflowed == overflowed
