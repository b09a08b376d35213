"""Whose health a piece of evidence concerns, and what the rest of the state makes of it.

`health.py` knows one endpoint; here it is decided what a probe says of a sibling, when a client may be to blame, and
when an endpoint is the last one left.
"""

from collections.abc import Mapping
from typing import assert_never

from ..config.schema import Endpoint, NodeConfig, RouteKey
from . import health as rules
from .events import (
    FailureKind,
    ForwardFailed,
    ForwardSucceeded,
    ProbeFailed,
    ProbeSilent,
    ProbeSucceeded,
    TripwireFired,
)
from .health import Moment
from .model import Health, PassiveFailure, State, Verdict
from .verdict import follows, may_serve, spoken_for

Probed = ProbeSucceeded | ProbeFailed | ProbeSilent
Forwarded = ForwardSucceeded | ForwardFailed | TripwireFired


def after_probe(state: State, event: Probed, when: Moment) -> Mapping[Endpoint, Health]:
    """The health of every endpoint that the probe speaks for; none when it came too late to mean anything."""
    node, settings = state.config.node(event.endpoint.node), state.config.globals
    if node is None or event.endpoint not in state.health:
        return {}
    after = {}
    for endpoint in spoken_for(node, event.endpoint):
        health = state.health[endpoint]
        match event:
            case ProbeSucceeded():
                after[endpoint] = rules.probe_succeeded(health, settings, when, event.latency)
            case ProbeFailed():
                after[endpoint] = rules.probe_failed(health, settings, when, event.error)
            case ProbeSilent():
                health = rules.silent_probe(health, when)
                if _silence_heals(state, node, endpoint):
                    health = rules.good_step(health, settings, when)
                after[endpoint] = health
            case _:
                assert_never(event)
    return after


def after_traffic(state: State, event: Forwarded, when: Moment) -> Mapping[Endpoint, Health]:
    """The health of the endpoint that live traffic tells something about."""
    endpoint = event.endpoint
    node, health = state.config.node(endpoint.node), state.health.get(endpoint)
    if node is None or health is None:
        return {}
    match event:
        case ForwardSucceeded():
            return {endpoint: rules.forward_succeeded(health, when, probed=node.is_probed)}
        case TripwireFired():
            after = rules.suspect(health, "connection broken by the node")
        case ForwardFailed():
            after = _forward_failed(state, node, health, event, when)
        case _:
            assert_never(event)
    if after.suspected and node.spokesman is endpoint.transport.sibling:
        # the doubt is the probed one's to clear up: nobody looks at this endpoint but through it
        return {endpoint: after, endpoint.sibling: rules.suspect(state.health[endpoint.sibling], after.last_error)}
    return {endpoint: after}


def _silence_heals(state: State, node: NodeConfig, endpoint: Endpoint) -> bool:
    """While unhealthy by refusal, a probe no longer refused is a success, unless the TCP sibling is unhealthy."""
    if state.health[endpoint].verdict is not Verdict.UNHEALTHY:
        return False
    return not follows(node, endpoint) or state.health[endpoint.sibling].verdict is not Verdict.UNHEALTHY


def _forward_failed(state: State, node: NodeConfig, health: Health, event: ForwardFailed, when: Moment) -> Health:
    settings = state.config.globals
    failures = (PassiveFailure(when.now),) * (1 + event.more)
    if event.kind is FailureKind.RESET and event.client_spoke:
        # Garbage from a client makes an honest node reset it: with probes that is suspicion only; without them it
        # counts, once per client, so that one client alone cannot eject a node.
        if node.is_probed or not rules.counts_once(health, settings, when.now, event.client):
            return rules.suspect(health, event.kind.value)
        failures = (PassiveFailure(when.now, event.client),)
    return rules.forward_failed(
        health,
        settings,
        when,
        failures,
        event.kind.value,
        probed=node.is_probed,
        is_connect=rules.is_connect_failure(event.kind),
        may_fall=event.kind in rules.CONCLUSIVE or _has_alternative(state, node, event.endpoint),
    )


def _has_alternative(state: State, node: NodeConfig, endpoint: Endpoint) -> bool:
    return any(
        member.node.name != node.name and may_serve(state, member)
        for member in state.config.members(RouteKey(node.pool, endpoint.transport))
    )
