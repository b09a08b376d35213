"""What applying a configuration would do, told before it is done. Pure: the reducer itself is asked.

Because `reduce` has no effects, the plan of a reload is the difference between the state as it is and the state that
`ConfigApplied` would make of it; nothing here can disagree with what the reload then does.
"""

import enum
from collections.abc import Mapping

import attrs

from ..config.schema import INFINITE, Config, ListenerConfig, Transport
from .events import ConfigApplied
from .model import Endpoint, RouteKey, State
from .reducer import reduce
from .terms import LeaseKind, Subject, Terms, terms_at


class Deed(enum.Enum):
    """What happens to a listener or a node."""

    BIND = "bind"
    CLOSE = "close"
    CHANGE = "change"  # in force for new flows; the socket, or the node's health, is kept
    ADD = "add"
    REMOVE = "remove"
    RESET = "reset"  # health starts anew: the address or the pool is another one


@attrs.frozen
class ListenerChange:
    """What becomes of one listener."""

    deed: Deed
    name: str
    protocol: Transport
    address: str
    keys: tuple[str, ...] = ()  # the settings that differ


@attrs.frozen
class NodeChange:
    """What becomes of one node; `keys` are the settings that differ."""

    deed: Deed
    name: str
    keys: tuple[str, ...] = ()


@attrs.frozen
class RouteChange:
    """The active set of a route before and after."""

    route: RouteKey
    before: tuple[str, ...]
    after: tuple[str, ...]


@attrs.frozen
class Draining:
    """Flows of a listener that would retire, and how many seconds they would have at most (inf = without end)."""

    listener: str
    endpoint: Endpoint
    flows: int
    timeout: float


@attrs.frozen
class Plan:
    """Everything that applying a configuration would change."""

    listeners: tuple[ListenerChange, ...] = ()
    nodes: tuple[NodeChange, ...] = ()
    routes: tuple[RouteChange, ...] = ()
    draining: tuple[Draining, ...] = ()
    settings: tuple[str, ...] = ()  # keys of [global] and pools that differ, and pools that come or go

    @property
    def is_empty(self) -> bool:
        """Whether nothing would change."""
        return self == Plan()


Flows = Mapping[tuple[str, Endpoint], int]


def plan_reload(state: State, config: Config, now: float, flows: Flows) -> Plan:
    """What putting `config` in force at `now` would change.

    `flows` counts, by the listener's name and the endpoint, the flows in progress that are not retiring already.
    """
    after = reduce(state, ConfigApplied(at=now, config=config))
    return Plan(
        listeners=_listener_changes(state.config, config),
        nodes=_node_changes(state.config, config),
        routes=_route_changes(state, after),
        draining=_draining(state, after, max(now, state.now), flows),
        settings=_setting_changes(state.config, config),
    )


def _listener_changes(before: Config, after: Config) -> tuple[ListenerChange, ...]:
    held = {listener.socket_identity: listener for listener in before.listeners}
    wanted = {listener.socket_identity: listener for listener in after.listeners}
    changes = [_listener(Deed.BIND, wanted[key]) for key in wanted if key not in held]
    changes += [_listener(Deed.CLOSE, held[key]) for key in held if key not in wanted]
    for key in wanted:
        if key in held and (keys := _differing(held[key], wanted[key])):
            changes.append(_listener(Deed.CHANGE, wanted[key], keys))
    return tuple(changes)


def _listener(deed: Deed, listener: ListenerConfig, keys: tuple[str, ...] = ()) -> ListenerChange:
    return ListenerChange(deed, listener.name, listener.protocol, str(listener.listen), keys)


def _node_changes(before: Config, after: Config) -> tuple[NodeChange, ...]:
    old, new = ({node.name: node for node in config.nodes} for config in (before, after))
    changes = [NodeChange(Deed.ADD, name) for name in new if name not in old]
    changes += [NodeChange(Deed.REMOVE, name) for name in old if name not in new]
    for name in new:
        if name in old and (keys := _differing(old[name], new[name])):
            changes.append(NodeChange(Deed.RESET if {"tcp", "udp", "pool"} & set(keys) else Deed.CHANGE, name, keys))
    return tuple(changes)


def _route_changes(before: State, after: State) -> tuple[RouteChange, ...]:
    changes = []
    for key in sorted(before.routes.keys() | after.routes.keys(), key=str):
        was, will = (state.routes[key].active if key in state.routes else () for state in (before, after))
        if was != will:
            changes.append(RouteChange(key, was, will))
    return tuple(changes)


def _draining(before: State, after: State, now: float, flows: Flows) -> tuple[Draining, ...]:
    held = {listener.name: listener for listener in before.config.listeners}
    wanted = {listener.socket_identity: listener for listener in after.config.listeners}
    found = []
    for name, endpoint in sorted(flows, key=lambda key: (key[0], str(key[1]))):
        listener, node = held.get(name), before.config.node(endpoint.node)
        configured = None if node is None else node.address(endpoint.transport)
        if not flows[name, endpoint] or listener is None or node is None or configured is None:
            continue
        subject = Subject(endpoint=endpoint, configured=configured, pool=before.config.pool(node.pool))
        stays = wanted.get(listener.socket_identity)
        terms = terms_at(after, now, subject, terms_at(before, now, subject, Terms()))
        if stays is not None and stays.pool != listener.pool:
            terms = terms_at(after, now, subject, terms, gone=True)
        deadline = terms.deadline if terms.kind is LeaseKind.RETIRING else INFINITE
        if stays is None:
            deadline = min(deadline, now + _closing_time(after, listener, subject))
        if stays is None or terms.kind is LeaseKind.RETIRING:
            left = round(max(deadline - now, 0.0), 6)  # without the dust of adding floats
            found.append(Draining(name, endpoint, flows[name, endpoint], left))
    return tuple(found)


def _closing_time(after: State, listener: ListenerConfig, subject: Subject) -> float:
    """Seconds that the flows of a listener have once it is closed; a UDP one waits for answers only."""
    pools = {pool.name: pool for pool in after.config.pools}
    timeout = pools.get(listener.pool, subject.pool).drain_timeout
    return min(timeout, after.config.globals.probe_timeout) if listener.protocol is Transport.UDP else timeout


def _setting_changes(before: Config, after: Config) -> tuple[str, ...]:
    keys = [f"global.{key}" for key in _differing(before.globals, after.globals)]
    old = {pool.name: pool for pool in before.pools}
    keys += [f"pools.{name}" for name in sorted(old.keys() ^ {pool.name for pool in after.pools})]
    for pool in after.pools:
        if pool.name in old:
            keys += [f"pools.{pool.name}.{key}" for key in _differing(old[pool.name], pool)]
    return tuple(keys)


def _differing(before: attrs.AttrsInstance, after: attrs.AttrsInstance) -> tuple[str, ...]:
    return tuple(
        field.name
        for field in attrs.fields(type(before))
        if field.eq and getattr(before, field.name) != getattr(after, field.name)
    )
