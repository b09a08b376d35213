"""Random configurations and histories of a whole gateway: few names and round times, so that things meet.

Everything here is plain data with a short `repr`, so that a shrunk failure reads like a story.
"""

import enum
from collections.abc import Mapping

import attrs
from hypothesis import strategies as st

from sniffgate.address import Address
from sniffgate.config.schema import (
    Config,
    Failback,
    GlobalConfig,
    ListenerConfig,
    NodeConfig,
    ProbeKind,
    Strategy,
    Transport,
    pool_from,
)
from sniffgate.state.model import Mark
from tests.tasks.configs import GATEWAY

TCP, UDP = Transport.TCP, Transport.UDP
NAMES = ("a", "b", "c", "d")
PLACES = (1, 2)  # each node has two machines that it may be configured at
INF = float("inf")
BASE = {  # short times, so that much happens in a short history
    "probe_interval": 0.5,
    "probe_timeout": 0.3,
    "connect_timeout": 1.0,
    "udp_session_timeout": 6.0,
    "eject_time_max": 2.0,
    "drain_timeout": 3.0,
    "connect_retry": 2,
}


@attrs.frozen(repr=False)
class Brief:
    """Shows only what differs from the defaults."""

    def __repr__(self) -> str:
        fields = [field for field in attrs.fields(type(self)) if getattr(self, field.name) != field.default]
        return f"{type(self).__name__}({', '.join(f'{f.name}={_brief(getattr(self, f.name))}' for f in fields)})"


def _brief(value: object) -> str:
    return value.name if isinstance(value, enum.Enum) else repr(value)


@attrs.frozen(repr=False)
class Spec(Brief):
    """A node as the configuration has it."""

    name: str
    place: int = 1
    pool: str = "default"
    tier: int = 0
    weight: int = 1
    tcp: bool = True
    udp: bool = True
    probe: ProbeKind = ProbeKind.AUTO
    expects: bool = False  # probes ask, and want to be answered
    tripwire: bool = False
    enabled: bool = True

    @property
    def host(self) -> str:
        """The machine it is configured at."""
        return host_of(self.name, self.place)

    def node(self) -> NodeConfig:
        """The same for the gateway."""
        here = Address(self.host, 7000)
        words = b"?" if self.expects else b""
        return NodeConfig(
            name=self.name, pool=self.pool, priority=self.tier, weight=self.weight, enabled=self.enabled,
            tcp=here if self.tcp else None, udp=here if self.udp else None, probe=self.probe, tripwire=self.tripwire,
            probe_payload=words, probe_expect=words,
        )  # fmt: skip


def host_of(name: str, place: int) -> str:
    """The address of one of a node's machines."""
    return f"10.0.{place}.{NAMES.index(name) + 1}"


@attrs.frozen(repr=False)
class Door(Brief):
    """A listener. Each has ports of its own to move between."""

    name: str
    moved: bool = False
    pool: str = "default"

    @property
    def protocol(self) -> Transport:
        """By its name."""
        return TCP if self.name.startswith("tcp") else UDP

    def listener(self) -> ListenerConfig:
        """The same for the gateway."""
        port = {"tcp": 80, "tcp2": 81, "udp": 53, "udp2": 54}[self.name] + 100 * self.moved
        return ListenerConfig(
            name=self.name, protocol=self.protocol, listen=Address(GATEWAY, port), pool=self.pool,
            half_close_timeout=4.0, tcp_user_timeout=6.0,
        )  # fmt: skip


@attrs.frozen(repr=False)
class Shape(Brief):
    """A whole configuration. `settings` are attributes of GlobalConfig, `second` those of the pool `second`."""

    nodes: tuple[Spec, ...] = ()
    doors: tuple[Door, ...] = (Door("tcp"), Door("udp"))
    settings: Mapping[str, object] = attrs.field(factory=dict)
    second: Mapping[str, object] = attrs.field(factory=dict)

    def config(self) -> Config:
        """The same for the gateway."""
        settings = GlobalConfig(**{**BASE, **self.settings})  # type: ignore[arg-type]
        return Config(
            globals=settings,
            listeners=tuple(door.listener() for door in self.doors),
            pools=(pool_from(settings, "default"), pool_from(settings, "second", **self.second)),
            nodes=tuple(spec.node() for spec in self.nodes),
        )

    def with_node(self, spec: Spec) -> "Shape":
        """With a node added, or another in its place."""
        others = {each.name: each for each in self.nodes}
        return attrs.evolve(self, nodes=tuple({**others, spec.name: spec}.values()))

    def with_door(self, door: Door) -> "Shape":
        """With a listener added, or another in its place."""
        others = {each.name: each for each in self.doors}
        return attrs.evolve(self, doors=tuple({**others, door.name: door}.values()))


# --- what may happen ------------------------------------------------------------------------------


@attrs.frozen(repr=False)
class Fault(Brief):
    """Something befalls a machine: `kind` is a method of `Node`."""

    kind: str
    name: str
    transport: Transport | None = None
    place: int = 1


@attrs.frozen(repr=False)
class Recover(Brief):
    """Both machines of a node are well again."""

    name: str


@attrs.frozen(repr=False)
class Operator(Brief):
    """A command: a method of `Gateway` and its arguments."""

    command: str
    name: str | None = None
    value: object = None


@attrs.frozen(repr=False)
class Put(Brief):
    """A reload that adds a node or changes it."""

    spec: Spec


@attrs.frozen(repr=False)
class Drop(Brief):
    """A reload that removes a node."""

    name: str


@attrs.frozen(repr=False)
class Set(Brief):
    """A reload that changes a global setting."""

    key: str
    value: object


@attrs.frozen(repr=False)
class Open(Brief):
    """A reload that adds a listener, moves it or gives it another pool."""

    door: Door


@attrs.frozen(repr=False)
class Shut(Brief):
    """A reload that removes a listener."""

    name: str


@attrs.frozen(repr=False)
class Client(Brief):
    """A client comes: `kind` is a method of `Crowd`."""

    kind: str
    door: str
    lasting: float = 0.0


@attrs.frozen(repr=False)
class Wait(Brief):
    """Time passes."""

    seconds: float


Step = Fault | Recover | Operator | Put | Drop | Set | Open | Shut | Client | Wait

names = st.sampled_from(("a", "b", "a", "b", "c", "d"))
transports = st.sampled_from(Transport)
DRAINS = (3.0, 0.0, 1.0, INF)
SETTINGS: Mapping[str, tuple[object, ...]] = {  # the first of each is the default
    "strategy": (Strategy.PRIORITY, Strategy.ROUND_ROBIN, Strategy.WEIGHTED),
    "probe_interval": (0.5, 1.0),
    "probe_timeout": (0.3, 0.8),
    "connect_timeout": (1.0, 0.5, 3.0),
    "failure_threshold": (3, 1),
    "success_threshold": (2, 1),
    "connect_retry": (2, 1, 3, 4),
    "hedge_delay": (0.2, 0.0),
    "passive_eject_threshold": (3, 1),
    "failback": (Failback.AUTO, Failback.MANUAL),
    "failback_delay": (0.0, 2.0),
    "drain_timeout": DRAINS,
    "failback_drain_timeout": (None, *DRAINS),
    "move_together": (False, True),
    "udp_rebind_on_switch": (True, False),
    "fail_open": (True, False),
}
SECOND = ("strategy", "fail_open", "drain_timeout", "move_together", "hedge_delay")
FAULTS = ("kill", "refuse", "black_hole", "freeze", "unreachable", "power_off", "reset_clients")


@st.composite
def settings_of(draw: st.DrawFn, keys: tuple[str, ...]) -> Mapping[str, object]:
    """A few settings that are not the defaults."""
    chosen = draw(st.lists(st.sampled_from(keys), unique=True, max_size=5))
    return {key: draw(st.sampled_from(SETTINGS[key][1:])) for key in sorted(chosen)}


@st.composite
def specs(draw: st.DrawFn, name: str) -> Spec:
    """A node of any kind."""
    tcp, udp = draw(st.sampled_from(((True, True), (True, True), (True, False), (False, True))))
    return Spec(
        name,
        place=draw(st.sampled_from((1, 1, 1, 1, 2))),
        pool=draw(st.sampled_from(("default",) * 5 + ("second",))),
        tier=draw(st.integers(0, 2)),
        weight=draw(st.sampled_from((1, 1, 2, 0))),
        tcp=tcp,
        udp=udp,
        probe=draw(st.sampled_from((ProbeKind.AUTO, *ProbeKind))),
        expects=draw(st.booleans()),
        tripwire=draw(st.booleans()),
        enabled=draw(st.sampled_from((True,) * 6 + (False,))),
    )


doors = st.builds(
    Door,
    st.sampled_from(("tcp", "udp", "tcp2", "udp2")),
    moved=st.booleans(),
    pool=st.sampled_from(("default",) * 4 + ("second",)),
)


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    """Two to four nodes behind listeners of both transports."""
    shape = Shape(
        nodes=tuple(draw(specs(name)) for name in NAMES[: draw(st.integers(2, 4))]),
        settings=draw(settings_of(tuple(SETTINGS))),
        second=draw(settings_of(SECOND)),
    )
    return shape.with_door(draw(doors))


def _operator() -> st.SearchStrategy[Step]:
    return st.one_of(
        st.builds(Operator, st.just("switch"), names, st.none() | transports),
        st.builds(Operator, st.just("release"), st.none(), st.none() | transports),
        st.builds(Operator, st.sampled_from(("disable", "enable")), names),
        st.builds(Operator, st.just("drain"), names, st.sampled_from((None, 0.0, 1.0, 2.0, INF))),
        st.builds(Operator, st.just("mark"), names, st.none() | st.sampled_from(Mark)),
    )


def _reload() -> st.SearchStrategy[Step]:
    return st.one_of(
        st.builds(Put, names.flatmap(specs)),
        st.builds(Drop, names),
        st.sampled_from(sorted(SETTINGS)).flatmap(
            lambda key: st.builds(Set, st.just(key), st.sampled_from(SETTINGS[key]))
        ),
        st.builds(Open, doors),
        st.builds(Shut, st.sampled_from(("tcp", "udp", "tcp2", "udp2"))),
    )


_faults = st.builds(
    Fault, st.sampled_from(FAULTS), names, st.none() | st.none() | transports, st.sampled_from((1,) * 5 + (2,))
)
_clients = st.builds(
    Client,
    st.sampled_from(("ask", "chat", "chat", "half", "rude", "mute")),
    st.sampled_from(("tcp", "tcp", "tcp", "udp", "udp", "tcp2", "udp2")),
    st.sampled_from((0.0, 2.0, 20.0)),
)
_waits = st.builds(Wait, st.sampled_from((0.25, 0.0, 0.05, 0.8, 1.0, 2.0, 3.0, 6.0, 15.0)))
_KINDS: Mapping[str, st.SearchStrategy[Step]] = {
    "wait": _waits,
    "client": _clients,
    "fault": _faults,
    "recover": st.builds(Recover, names),
    "operator": _operator(),
    "reload": _reload(),
}
_LIKELIHOOD = ("wait",) * 5 + ("client",) * 4 + ("fault",) * 5 + ("recover",) * 2 + ("operator",) * 3 + ("reload",) * 2
steps = st.sampled_from(_LIKELIHOOD).flatmap(_KINDS.__getitem__)


@st.composite
def episodes(draw: st.DrawFn) -> tuple[Step, ...]:
    """One step, and sometimes its undoing a little later."""
    step = draw(steps)
    undoing: Step
    match step:
        case Fault(name=name):
            undoing = Recover(name)
        case Operator(command="disable" | "drain", name=name):
            undoing = Operator("enable", name)
        case Operator(command="switch"):
            undoing = Operator("release")
        case Operator(command="mark", name=name):
            undoing = Operator("mark", name)
        case _:
            return (step,)
    return (step, draw(_waits), undoing) if draw(st.booleans()) else (step,)


@attrs.frozen(repr=False)
class History(Brief):
    """A configuration and what happens under it. `stop`: seconds of grace of an end amidst everything."""

    shape: Shape
    steps: tuple[Step, ...] = ()
    busy: bool = False  # clients come all the time
    latency: float = 0.0
    stop: float | None = None


@st.composite
def histories(draw: st.DrawFn, max_size: int) -> History:
    """Any history."""
    return History(
        draw(shapes()),
        tuple(step for _ in range(draw(st.integers(0, max_size))) for step in draw(episodes())),
        busy=draw(st.booleans()),
        latency=draw(st.sampled_from((0.0, 0.0, 0.004))),
        stop=draw(st.none() | st.sampled_from((0.0, 1.0, 3.0))),
    )
