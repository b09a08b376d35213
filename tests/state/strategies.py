"""Configurations and histories for property tests: few names and round times, so that things meet."""

from hypothesis import strategies as st

from sniffgate.address import Address
from sniffgate.config.schema import (
    Config,
    Failback,
    GlobalConfig,
    ListenerConfig,
    NodeConfig,
    PoolConfig,
    ProbeKind,
    Strategy,
    Transport,
    pool_from,
)
from sniffgate.state.events import (
    ConfigApplied,
    Event,
    FailureKind,
    ForwardFailed,
    ForwardSucceeded,
    OperatorDisabled,
    OperatorDrained,
    OperatorEnabled,
    OperatorMarked,
    OperatorReleased,
    OperatorSwitched,
    ProbeFailed,
    ProbeSilent,
    ProbeSucceeded,
    TimePassed,
    TripwireFired,
)
from sniffgate.state.model import Endpoint, Mark

NAMES = ("a", "b", "c", "d")
POOLS = ("default", "other")
STEPS = st.sampled_from([0.0, 0.0, 0.25, 0.5, 1.0, 2.0, 6.0, 70.0])  # seconds; exact in binary

names = st.sampled_from(NAMES)
transports = st.sampled_from(Transport)
endpoints = st.builds(Endpoint, names, transports)


@st.composite
def nodes(draw: st.DrawFn, name: str) -> NodeConfig:
    """One node, of any kind there is."""
    used = draw(st.sampled_from([(True, True), (True, True), (True, False), (False, True)]))
    host = f"{name}{draw(st.sampled_from('11112'))}.example"
    return NodeConfig(
        name=name,
        pool=draw(st.sampled_from(("default", "default", "default", "other"))),
        enabled=draw(st.sampled_from((True, True, True, False))),
        priority=draw(st.integers(0, 2)),
        weight=draw(st.integers(0, 3)),
        tcp=Address(host, 80) if used[0] else None,
        udp=Address(host, 53) if used[1] else None,
        probe=draw(st.sampled_from((ProbeKind.AUTO, *ProbeKind))),
        udp_probe_payload=draw(st.sampled_from((b"", b"", b"ping"))),
    )


global_configs = st.builds(
    GlobalConfig,
    strategy=st.sampled_from((Strategy.PRIORITY, *Strategy)),
    failure_threshold=st.integers(1, 3),
    success_threshold=st.integers(1, 3),
    passive_eject_threshold=st.integers(1, 3),
    eject_time=st.sampled_from((1.0, 2.0)),
    eject_time_max=st.sampled_from((0.5, 4.0, 60.0)),
    failback=st.sampled_from((Failback.AUTO, Failback.AUTO, Failback.MANUAL)),
    failback_delay=st.sampled_from((0.0, 2.0)),
    move_together=st.booleans(),
    fail_open=st.booleans(),
)


@st.composite
def pools(draw: st.DrawFn, globals_: GlobalConfig) -> tuple[PoolConfig, ...]:
    """Sometimes the second pool by name, with a mind of its own."""
    if draw(st.booleans()):
        return ()
    return (pool_from(globals_, "other", strategy=draw(st.sampled_from(Strategy)), fail_open=draw(st.booleans())),)


@st.composite
def configs(draw: st.DrawFn) -> Config:
    """A configuration of up to four nodes in two pools."""
    globals_ = draw(global_configs)
    listener = ListenerConfig(name="in", protocol=draw(transports), listen=Address("127.0.0.1", 1000))
    return Config(
        globals=globals_,
        listeners=(listener,) if draw(st.booleans()) else (),
        pools=draw(pools(globals_)),
        nodes=tuple(draw(nodes(name)) for name in NAMES if draw(st.sampled_from((True, True, True, False)))),
    )


@st.composite
def reloads(draw: st.DrawFn, config: Config) -> Config:
    """`config` edited: some nodes drawn anew, or the whole file."""
    if draw(st.booleans()):
        return draw(configs())
    kept = [node if draw(st.booleans()) else draw(nodes(node.name)) for node in config.nodes]
    return Config(globals=config.globals, listeners=config.listeners, pools=config.pools, nodes=tuple(kept))


def any_of(choices: tuple[Event, ...]) -> st.SearchStrategy[Event]:
    return st.sampled_from(choices)


@st.composite
def events(draw: st.DrawFn, at: float, config: Config) -> Event:
    """Any event at the time `at`; evidence is likelier than wishes, and wishes than reloads."""
    endpoint, name = draw(endpoints), draw(names)
    kind = draw(st.sampled_from("pppppppfffffffsstooooooorr"))
    match kind:
        case "p":
            return draw(
                any_of(
                    (
                        ProbeSucceeded(at=at, endpoint=endpoint, latency=0.25),
                        ProbeFailed(at=at, endpoint=endpoint, error="connection refused"),
                        ProbeFailed(at=at, endpoint=endpoint, error="timed out"),
                        ProbeSilent(at=at, endpoint=endpoint),
                    )
                )
            )
        case "f":
            return ForwardFailed(
                at=at,
                endpoint=endpoint,
                kind=draw(st.sampled_from(FailureKind)),
                client=draw(st.sampled_from(("10.0.0.1", "10.0.0.2"))),
                client_spoke=draw(st.booleans()),
                more=draw(st.sampled_from((0, 0, 0, 2))),
            )
        case "s":
            return ForwardSucceeded(at=at, endpoint=endpoint)
        case "t":
            return draw(any_of((TripwireFired(at=at, endpoint=endpoint), TimePassed(at=at))))
        case "r":
            return ConfigApplied(at=at, config=draw(reloads(config)))
        case _:
            transport = draw(st.none() | transports)
            return draw(
                any_of(
                    (
                        OperatorSwitched(at=at, node=name, transport=transport),
                        OperatorSwitched(at=at, node=name),
                        OperatorReleased(at=at, transport=transport),
                        OperatorEnabled(at=at, node=name),
                        OperatorDisabled(at=at, node=name),
                        OperatorDrained(at=at, node=name, timeout=draw(st.sampled_from((None, 0.0, 5.0)))),
                        OperatorMarked(at=at, node=name, mark=draw(st.none() | st.sampled_from(Mark))),
                    )
                )
            )


@st.composite
def histories(draw: st.DrawFn, max_size: int = 25) -> tuple[Config, tuple[Event, ...]]:
    """A configuration and what happens under it, in order; timers are the reader's to add."""
    config = first = draw(configs())
    at, told = 0.0, []
    for _ in range(draw(st.integers(0, max_size))):
        at += draw(STEPS)
        event = draw(events(at, config))
        config = event.config if isinstance(event, ConfigApplied) else config
        told.append(event)
    return first, tuple(told)
