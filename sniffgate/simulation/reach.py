"""When a client may count on an answer: told from what was done to the nodes, not from what the gateway thinks of them.

`recovery_time` and `detection_time` are the D of the promise: a node that has been reachable for the one is in use or
stands by, and a node that has been dead for the other is not in use any more.
"""

from collections.abc import Iterator

import attrs

from ..config.schema import Config, Endpoint, NodeConfig, RouteKey, Transport
from ..state.detection import JITTER, interval_of
from ..state.model import Mark, State, Verdict
from ..state.verdict import is_enabled, is_usable, override_of

DUST = 1e-6  # of adding floats
TCP, UDP = Transport.TCP, Transport.UDP
UNSEEN = ("dns", "lossy", "slow")  # faults that a probe may pass in spite of
GRIPPING = ("freeze", "lossy", "slow")  # faults under which a connect succeeds, and the answer may not come


def recovery_time(config: Config, node: NodeConfig) -> float:
    """Seconds from the end of a fault until a probed node is usable again, whatever went before; ejections come on top.

    A probe or a connect that began before may fail until its timeout. Then come as many good probes as the threshold
    asks for, each within its interval and its timeout, and one more that had begun before: a node that flaps has used
    up its fast probes.
    """
    rules = config.globals
    return max(rules.connect_timeout, rules.probe_timeout) + (rules.success_threshold + 1) * _longest_turn(config, node)


def detection_time(config: Config, node: NodeConfig) -> float:
    """Seconds from the begin of a fault that probes can see until the node is not used any more, whatever went before.

    `state/detection.py` knows better for a node that was well; this is the bound for one that flaps.
    """
    rules = config.globals
    return rules.connect_timeout + (rules.failure_threshold + 1) * _longest_turn(config, node)


def _longest_turn(config: Config, node: NodeConfig) -> float:
    return (1 + JITTER) * interval_of(config.globals, node) + config.globals.probe_timeout


@attrs.define(eq=False)
class Weather:
    """What was done to the nodes, and when. A host is what stands before the port of a node's address."""

    faults: dict[tuple[str, Transport], str] = attrs.field(factory=dict)  # by host
    changed: dict[str, float] = attrs.field(factory=dict)  # host or node name: when something last happened to it
    spoiled: set[str] = attrs.field(factory=set)  # hosts that anything bad ever happened to
    everything: float = 0.0  # when something happened that concerns all nodes

    def since(self, node: NodeConfig) -> float:
        """Since when nothing has happened to a node."""
        places = (node.name, *(_host(node, each) for each in node.transports))
        return max(self.everything, *(self.changed.get(each, 0.0) for each in places))

    def fault(self, node: NodeConfig, transport: Transport) -> str | None:
        """What it suffers from."""
        return self.faults.get((_host(node, transport), transport))

    def was_spoiled(self, node: NodeConfig) -> bool:
        """Whether anything bad ever happened to it."""
        return any(_host(node, each) in self.spoiled for each in node.transports)


def _host(node: NodeConfig, transport: Transport) -> str:
    address = node.address(transport)
    return "" if address is None else address.host


def decisive(node: NodeConfig, transport: Transport, *, together: bool) -> set[Transport]:
    """The transports whose faults the verdict over `transport` may come from."""
    if node.spokesman is not None:
        return {node.spokesman, transport}
    follows = transport is UDP and node.is_probed and node.tcp is not None
    return set(node.transports) if together or follows else {transport}


def is_seen_by_probes(node: NodeConfig, transport: Transport, weather: Weather) -> bool:
    """Whether the probes that decide over `transport` fail by what the node suffers from now."""
    if not node.is_probed:
        return False
    looks = node.spokesman or (TCP if node.tcp is not None else UDP)
    if node.spokesman is None and transport is UDP and node.udp_is_explicit:
        looks = UDP
    fault = weather.fault(node, looks)
    if fault is None or fault in UNSEEN:
        return False
    if looks is TCP:
        return fault != "freeze" or bool(node.expectation(TCP))
    return node.udp_is_explicit


def wrong_verdicts(state: State, weather: Weather, now: float) -> Iterator[str]:
    """Nodes that the gateway misjudges, though nothing has happened to them for long enough."""
    read = {(each.pool, each.protocol) for each in state.config.listeners}
    for node in state.config.nodes:
        calm = now - weather.since(node)
        together = state.config.pool(node.pool).move_together
        for transport in node.transports:
            if (node.pool, transport) not in read or calm < recovery_time(state.config, node):
                continue
            endpoint = Endpoint(node.name, transport)
            health = state.health[endpoint]
            if health.ejected_until is not None and not node.is_probed and health.ejected_until < now - DUST:
                yield f"{endpoint} is still ejected"
            if override_of(state, node.name).mark is not None or not node.is_probed:
                continue
            is_known = calm >= detection_time(state.config, node)
            if is_known and is_seen_by_probes(node, transport, weather) and is_usable(state, node, endpoint):
                yield f"{endpoint} counts as usable, and has not been there for {calm:.1f} s"
            if not any(weather.fault(node, each) for each in decisive(node, transport, together=together)):
                if not is_usable(state, node, endpoint) and has_recovered(state, node, weather, now):
                    yield f"{endpoint} counts as {health.verdict.value}, and has been well for {calm:.1f} s"
                elif health.verdict is Verdict.UNKNOWN and not (transport is UDP and node.udp_follows):
                    yield f"{endpoint} was never probed"


def has_recovered(state: State, node: NodeConfig, weather: Weather, now: float) -> bool:
    """Whether a node that is well now must be usable: for long enough nothing happened, and no ejection keeps it."""
    needed = recovery_time(state.config, node)
    last = weather.since(node)
    for transport in node.transports:
        until = state.health[Endpoint(node.name, transport)].ejected_until
        last = max(last, until if until is not None else 0.0)
    return last + needed <= now


@attrs.frozen
class Promise:
    """Who may be counted on, by what is known of the nodes."""

    weather: Weather

    def holds(self, state: State, key: RouteKey, now: float) -> str | None:
        """The name of a node that guarantees service on a route now; None when nothing can be promised."""
        members = [each.node for each in state.config.members(key) if is_enabled(state, each.node)]
        sure = next((each for each in members if self._is_sure(state, each, key, now)), None)
        if sure is None:
            return None
        retries = state.config.globals.connect_retry >= len(members)
        if not all(self._is_harmless(state, each, key.transport, now, retries=retries) for each in members):
            return None
        return sure.name

    def _is_sure(self, state: State, node: NodeConfig, key: RouteKey, now: float) -> bool:
        deciding = decisive(node, key.transport, together=state.config.pool(key.pool).move_together)
        if any(self.weather.fault(node, each) for each in deciding):
            return False
        if override_of(state, node.name).mark is Mark.DOWN or not has_recovered(state, node, self.weather, now):
            return False
        return node.is_probed or not self.weather.was_spoiled(node)

    def _is_harmless(self, state: State, node: NodeConfig, transport: Transport, now: float, *, retries: bool) -> bool:
        """Whether a client is served even if this one is chosen, or this one is known to be dead."""
        fault = self.weather.fault(node, transport)
        if fault is None:
            return True
        if transport is TCP and retries and fault not in GRIPPING:
            return True
        if transport is UDP and fault in ("kill", "refuse"):
            return True
        known = self.weather.since(node) + detection_time(state.config, node)
        if override_of(state, node.name).mark is Mark.UP or known > now:
            return False
        if not is_seen_by_probes(node, transport, self.weather):
            return False
        if transport is TCP or state.config.globals.udp_rebind_on_switch:
            return True
        return known + state.config.pool(node.pool).drain_timeout <= now
