"""Who may have traffic: the predicates that decide, and that `why` explains from.

In order of authority: the operator's mark, then an endpoint's own evidence, then (for a UDP endpoint without words of
its own) the verdict of its TCP sibling.
"""

from ..config.schema import NodeConfig, Transport
from .model import Endpoint, Health, Mark, Override, State, Verdict

NO_OVERRIDE = Override()
_USABLE = (Verdict.UNKNOWN, Verdict.HEALTHY)


def override_of(state: State, node: str) -> Override:
    """What the operator asked of a node."""
    return state.overrides.get(node, NO_OVERRIDE)


def is_enabled(state: State, node: NodeConfig) -> bool:
    """The operator's last word, else the file's."""
    wish = override_of(state, node.name).enabled
    return node.enabled if wish is None else wish


def follows(node: NodeConfig, endpoint: Endpoint) -> bool:
    """Whether the endpoint's verdict is its TCP sibling's unless refused. A follower is never followed."""
    return endpoint.transport is Transport.UDP and node.udp_follows


def verdict_of(state: State, node: NodeConfig, endpoint: Endpoint) -> Verdict:
    """The verdict in force for one endpoint of `node`."""
    mark = override_of(state, node.name).mark
    if mark is not None:
        return Verdict.HEALTHY if mark is Mark.UP else Verdict.UNHEALTHY
    own = state.health[endpoint].verdict
    if follows(node, endpoint) and own in _USABLE:
        return state.health[endpoint.sibling].verdict
    return own


def healthy_since(state: State, node: NodeConfig, endpoint: Endpoint) -> float:
    """Since when the verdict in force has been usable, in seconds; a follower's counts from the later of the two."""
    since = state.health[endpoint].since
    if follows(node, endpoint):
        return max(since, state.health[endpoint.sibling].since)
    return since


def endpoints_that_decide(state: State, node: NodeConfig, endpoint: Endpoint) -> tuple[Endpoint, ...]:
    """The endpoints of `node` that must all be usable for `endpoint` to be: more than itself under `move_together`."""
    if state.config.pool(node.pool).move_together:
        return tuple(Endpoint(node.name, transport) for transport in node.transports)
    return (endpoint,)


def is_usable(state: State, node: NodeConfig, endpoint: Endpoint) -> bool:
    """Whether evidence and operator let `endpoint` have new traffic (being enabled is another matter)."""
    return all(verdict_of(state, node, each) in _USABLE for each in endpoints_that_decide(state, node, endpoint))


def may_join(state: State, node: NodeConfig, endpoint: Endpoint) -> bool:
    """False for an endpoint that a reload brought and that no probe has found healthy yet."""
    if not node.is_probed:
        return True
    return not any(
        state.health[each].joining and verdict_of(state, node, each) is Verdict.UNKNOWN
        for each in endpoints_that_decide(state, node, endpoint)
    )


def is_joining(state: State, node: NodeConfig, endpoint: Endpoint) -> bool:
    """Whether its taking over would be no failback, because a reload brought it and it never was in use since."""
    return state.health[endpoint].joining


def wants_probe(node: NodeConfig, endpoint: Endpoint, health: Health) -> bool:
    """Whether to probe the endpoint now.

    A UDP endpoint that follows is probed only while suspected or unhealthy: a stray byte every second annoys VPN, SIP
    and game servers, and live traffic shows a closed port at once.
    """
    if not follows(node, endpoint):
        return True
    return health.suspected or health.bad_streak > 0 or health.verdict is Verdict.UNHEALTHY
