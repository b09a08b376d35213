"""Who may have traffic: the predicates that decide, and that `why` explains from.

In order of authority: the operator's mark, then an endpoint's own evidence, then (for a UDP endpoint without words of
its own) the verdict of its TCP sibling.
"""

from collections.abc import Mapping

from ..config.schema import Endpoint, Member, NodeConfig, Transport
from .model import Health, Mark, Override, State, Verdict

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
    if own in _USABLE and follows(node, endpoint):
        return state.health[endpoint.sibling].verdict
    return own


def is_usable(state: State, node: NodeConfig, endpoint: Endpoint) -> bool:
    """Whether evidence and operator let `endpoint` have new traffic (being enabled is another matter)."""
    return is_member_usable(state, state.config.member(endpoint))


def is_member_usable(state: State, member: Member) -> bool:
    """`is_usable` for who has the member at hand."""
    mark = override_of(state, member.node.name).mark
    return _stands(state.health, member) if mark is None else mark is Mark.UP


def may_serve(state: State, member: Member) -> bool:
    """Whether a member of a route may have new traffic: enabled and usable."""
    if member.node.name not in state.overrides:  # nearly always; asked of every member when a route is made anew
        return member.node.enabled and _stands(state.health, member)
    return is_enabled(state, member.node) and is_member_usable(state, member)


def _stands(health: Mapping[Endpoint, Health], member: Member) -> bool:
    for each in member.grounds:  # noqa: SIM110 - a generator would double the cost of making a route
        if health[each].verdict not in _USABLE:
            return False
    return True


def culprits(state: State, node: NodeConfig, endpoint: Endpoint) -> tuple[Endpoint, ...]:
    """The endpoints whose own evidence keeps `endpoint` from being usable; none under an operator's mark."""
    if override_of(state, node.name).mark is not None:
        return ()
    grounds = state.config.member(endpoint).grounds
    return tuple(each for each in grounds if state.health[each].verdict not in _USABLE)


def healthy_since(state: State, node: NodeConfig, endpoint: Endpoint) -> float:
    """Since when all that `endpoint` stands by has had its verdict, in seconds."""
    return max(state.health[each].since for each in state.config.member(endpoint).grounds)


def endpoints_that_decide(state: State, node: NodeConfig, endpoint: Endpoint) -> tuple[Endpoint, ...]:
    """The endpoints of `node` that must all be usable for `endpoint` to be: more than itself under `move_together`."""
    if state.config.pool(node.pool).move_together:
        return tuple(Endpoint(node.name, transport) for transport in node.transports)
    return (endpoint,)


def is_joining(state: State, node: NodeConfig, endpoint: Endpoint) -> bool:
    """Whether its taking over would be no failback, because a reload brought it and it was never in use since."""
    return any(state.health[each].joining for each in endpoints_that_decide(state, node, endpoint))


def may_join(state: State, node: NodeConfig, endpoint: Endpoint) -> bool:
    """False for an endpoint that a reload brought and that no probe has found healthy yet."""
    if not node.is_probed:
        return True
    for each in endpoints_that_decide(state, node, endpoint):
        if state.health[each].joining and verdict_of(state, node, each) is Verdict.UNKNOWN:
            return False
    return True


def spoken_for(node: NodeConfig, endpoint: Endpoint) -> tuple[Endpoint, ...]:
    """The endpoints whose health a probe of `endpoint` decides: none where another transport speaks for the node."""
    if not node.is_probed:
        return ()
    if node.spokesman is None:
        return (endpoint,)
    if node.spokesman is not endpoint.transport:
        return ()
    return tuple(Endpoint(node.name, transport) for transport in node.transports)


def wants_probe(node: NodeConfig, endpoint: Endpoint, health: Health) -> bool:
    """Whether to probe the endpoint now.

    A UDP endpoint that follows is probed only while suspected or unhealthy: a stray byte every second annoys VPN, SIP
    and game servers, and live traffic shows a closed port at once.
    """
    if not follows(node, endpoint):
        return bool(spoken_for(node, endpoint))
    return health.suspected or health.bad_streak > 0 or health.verdict is Verdict.UNHEALTHY
