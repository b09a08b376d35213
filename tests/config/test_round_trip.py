"""Generated files: every valid one comes back as it went in, and no damage raises anything but ConfigError."""

import json

import attrs
from hypothesis import given
from hypothesis import strategies as st

from sniffgate.address import Address
from sniffgate.config.keys import GLOBAL, LISTENERS, NODES, POOLS, Table, in_file_terms
from sniffgate.config.load import load_text
from sniffgate.config.schema import (
    Config,
    Failback,
    FlowLogMode,
    GlobalConfig,
    ListenerConfig,
    NodeConfig,
    ProbeKind,
    Strategy,
    Transport,
    pool_from,
)
from sniffgate.errors import ConfigError
from tests.config.sample import GOOD

NAMES = st.text(alphabet="abcXYZ019._-", min_size=1, max_size=12)
TIMES = st.integers(10, 10**8).map(lambda ms: ms / 1000)
DRAINS = st.one_of(st.integers(0, 10**8).map(lambda ms: ms / 1000), st.just(float("inf")))
COUNTS = st.integers(1, 1_000_000)
HOSTS = st.sampled_from(["10.0.0.1", "::1", "fe80::1%eth0", "db.example.net", "localhost"])
ADDRESSES = st.builds(Address, HOSTS, st.integers(1, 65535))
WORDS = st.binary(max_size=20).filter(lambda octets: not octets.startswith(b"hex:"))
TEXTS = st.text(max_size=20)

GLOBALS = st.builds(
    GlobalConfig,
    log_level=st.sampled_from(["error", "warn", "info", "debug", "trace"]),
    strategy=st.sampled_from(Strategy),
    admin_listen=st.sampled_from(["", "127.0.0.1:0", "unix:/run/x"]),
    probe_interval=TIMES,
    probe_timeout=TIMES,
    failure_threshold=COUNTS,
    hedge_delay=st.one_of(st.just(0.0), TIMES),
    failback=st.sampled_from(Failback),
    drain_timeout=DRAINS,
    failback_drain_timeout=st.one_of(st.none(), DRAINS),
    fail_open=st.booleans(),
    udp_max_sessions=COUNTS,
    flow_log=st.sampled_from(FlowLogMode),
)


@st.composite
def configs(draw: st.DrawFn) -> Config:
    globals_ = draw(GLOBALS)
    pool_names = draw(st.lists(NAMES, unique=True, max_size=3))
    pools = tuple(
        pool_from(globals_, name, drain_timeout=draw(DRAINS), failback_drain_timeout=draw(DRAINS))
        for name in pool_names
    )
    known = st.sampled_from(["default", *pool_names])
    listeners = tuple(
        ListenerConfig(
            name=name,
            protocol=draw(st.sampled_from(Transport)),
            listen=Address(draw(HOSTS), 0),
            pool=draw(known),
            max_connections=draw(st.one_of(st.none(), COUNTS)),
            idle_timeout=draw(st.one_of(st.just(0.0), TIMES)),
        )
        for name in draw(st.lists(NAMES, unique=True, min_size=1, max_size=3))
    )
    nodes = tuple(
        NodeConfig(
            name=name,
            pool=draw(known),
            enabled=draw(st.booleans()),
            priority=draw(st.integers(-(2**31), 2**31 - 1)),
            weight=draw(st.integers(0, 2**32 - 1)),
            tcp=draw(ADDRESSES),
            udp=draw(st.one_of(st.none(), ADDRESSES)),
            probe=draw(st.sampled_from(ProbeKind)),
            probe_payload=draw(WORDS),
            udp_probe_expect=draw(WORDS),
            probe_interval=draw(st.one_of(st.none(), TIMES)),
            remark=draw(TEXTS),
        )
        for name in draw(st.lists(NAMES, unique=True, min_size=1, max_size=4))
    )
    return Config(globals=globals_, listeners=listeners, pools=pools, nodes=nodes)


def written(table: Table, values: attrs.AttrsInstance) -> str:
    lines = [table.title]
    for key in table.keys:
        value = in_file_terms(getattr(values, key.attribute), key)
        if value is None:
            continue
        # JSON's strings are TOML's, but for DEL and for characters beyond 16 bits, which stand for themselves
        text = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        lines.append(f"{key.name} = {text.replace('Infinity', 'inf') if isinstance(value, float) else text}")
    return "\n".join(lines) + "\n\n"


def text_of(config: Config) -> str:
    rows: list[tuple[Table, tuple[attrs.AttrsInstance, ...]]] = [
        (GLOBAL, (config.globals,)),
        (LISTENERS, config.listeners),
        (POOLS, config.pools),
        (NODES, config.nodes),
    ]
    return "".join(written(table, values) for table, all_values in rows for values in all_values)


@given(configs())
def test_what_is_written_comes_back(config: Config) -> None:
    """Nothing is lost, rounded or coerced on the way through a file."""
    assert config == load_text(text_of(config), file="f.toml")


def load_or_refuse(octets: bytes) -> None:
    try:
        load_text(octets, file="f.toml")
    except ConfigError as error:
        faults = error.faults
    else:
        return
    assert faults
    for fault in faults:
        assert 0 <= fault.line <= octets.count(b"\n") + 1
        assert str(fault).isprintable()
    assert sorted(fault.line for fault in faults) == [fault.line for fault in faults]


SNIPPETS = st.sampled_from(
    [b"\n", b'"', b"[", b"]", b"=", b"nan", b"inf", b"-", b"\xff", b"\0", b"\r", b"[[x]]", b"'''", b"."]
)


@given(
    st.lists(
        st.tuples(st.integers(0, len(GOOD)), st.integers(0, 8), st.one_of(SNIPPETS, st.binary(max_size=4))), max_size=4
    )
)
def test_a_damaged_file_is_refused_or_loaded_and_nothing_else(damage: list[tuple[int, int, bytes]]) -> None:
    """A reload meets files in every state; only ConfigError may come out."""
    octets = GOOD.encode()
    for position, gone, new in damage:
        octets = octets[:position] + new + octets[position + gone :]
    load_or_refuse(octets)


@given(st.binary(max_size=200))
def test_any_bytes_are_refused(octets: bytes) -> None:
    """The path may name anything."""
    load_or_refuse(octets)


TOML_VALUES = st.recursive(
    st.one_of(st.integers(), st.floats(), st.booleans(), TEXTS, st.just(None)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=5,
)


def inline(value: object) -> str:
    match value:
        case None:
            return "1979-05-27T07:32:00Z"
        case dict():
            return "{" + ", ".join(f"'{key}' = {inline(inner)}" for key, inner in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(inline, value)) + "]"
        case float():
            return str(value)
        case _:
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


@given(
    st.sampled_from([(table, key.name) for table in (GLOBAL, LISTENERS, POOLS, NODES) for key in table.keys]),
    TOML_VALUES,
)
def test_any_value_of_any_type_under_any_key_is_refused_or_loaded(where: tuple[Table, str], value: object) -> None:
    """Types that a key does not know are faults, not crashes."""
    table, key = where
    load_or_refuse(f"{GOOD}{table.title if table is not GLOBAL else '[g]'}\n{key} = {inline(value)}\n".encode())
    load_or_refuse(f"{table.header} = {inline(value)}\n".encode())
    load_or_refuse(f"{table.header}.{key} = {inline(value)}\n".encode())
