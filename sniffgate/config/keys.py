"""Every key of the file: the one list that the reader, the example and the documentation's test are held to.

Defaults stand in `schema`; a key `x_ms` of the file is the attribute `x` there, in seconds.
"""

import enum
import functools
from collections.abc import Mapping

import attrs

from ..address import Address
from .durations import in_milliseconds
from .schema import Failback, FlowLogMode, GlobalConfig, ListenerConfig, NodeConfig, ProbeKind, Strategy, Transport
from .values import (
    ADMIN,
    COUNT,
    FLAG,
    LISTEN,
    LOG_LEVEL,
    NAME,
    NODE_ADDRESS,
    OCTETS,
    PATH,
    POOL,
    TEXT,
    Reader,
    duration,
    one_of,
    whole,
)


@attrs.frozen
class Key:
    """One key of one table. Without a default, the example shows `sample`, and `lack` says what absence means."""

    name: str
    reader: Reader
    meaning: str
    sample: object = None
    lack: str = ""

    @property
    def attribute(self) -> str:
        """The schema's name for it."""
        return self.name.removesuffix("_ms")

    @property
    def unit(self) -> str:
        """What a plain number counts; "" where there is none."""
        return "ms" if self.name.endswith("_ms") else "MB" if self.name.endswith("_mb") else ""


@attrs.frozen(kw_only=True)
class PoolTable:
    """A `[[pools]]` table as written: None where the pool takes what `[global]` says."""

    name: str
    strategy: Strategy | None = None
    failback: Failback | None = None
    failback_delay: float | None = None
    drain_timeout: float | None = None
    failback_drain_timeout: float | None = None
    fail_open: bool | None = None
    move_together: bool | None = None
    hedge_delay: float | None = None


@attrs.frozen
class Table:
    """One kind of table: its header, what it becomes, and its keys in the order people read them."""

    header: str
    kind: type[attrs.AttrsInstance]
    keys: tuple[Key, ...]

    @property
    def is_array(self) -> bool:
        """True for `[[header]]`, which may stand many times."""
        return self.header != "global"

    @property
    def title(self) -> str:
        """The header with its brackets."""
        return f"[[{self.header}]]" if self.is_array else f"[{self.header}]"

    @functools.cached_property
    def names(self) -> frozenset[str]:
        """Every key's name."""
        return frozenset(key.name for key in self.keys)

    @functools.cached_property
    def required(self) -> frozenset[str]:
        """The attributes without a default."""
        return frozenset(each.name for each in attrs.fields(self.kind) if each.default is attrs.NOTHING)

    def default(self, key: Key) -> object:
        """The default as the file would write it; None when the key is required or absence means something else."""
        default = getattr(attrs.fields_dict(self.kind)[key.attribute], "default", attrs.NOTHING)
        return None if default is attrs.NOTHING else in_file_terms(default, key)


def in_file_terms(value: object, key: Key) -> object:
    """A value of the schema as TOML writes it."""
    match value:
        case enum.Enum():
            return value.value
        case float() if key.unit == "ms":
            return in_milliseconds(value)
        case Address():
            return str(value)
        case bytes():
            return value.decode("ascii") if value.isascii() else "hex:" + value.hex()
        case _:
            return value


_STRATEGY = one_of(Strategy)
_DELAY = duration(lowest_ms=0, zero=True)
_TIMEOUT = duration()
_DRAIN = duration(lowest_ms=0, zero=True, infinite=True)
# the kernel takes TCP_USER_TIMEOUT as a signed 32-bit number of milliseconds
_USER_TIMEOUT = duration(longest=24 * 86400.0)

# what a pool may say for itself; the words hold in both tables
_FAILOVER = (
    Key("strategy", _STRATEGY, "how the active nodes are chosen: the best priority, all in turn, or all by weight"),
    Key("failback", one_of(Failback), "whether a recovered better node takes over by itself"),
    Key("failback_delay_ms", _DELAY, "how long a recovered better node must have been healthy before it takes over"),
    Key("drain_timeout_ms", _DRAIN, "how long connections to a node that lost its place may go on; 0 cuts at once"),
    Key(
        "failback_drain_timeout_ms",
        _DRAIN,
        "the same, where the node that lost its place is still healthy",
        10000,
        "as drain_timeout_ms",
    ),
    Key("fail_open", FLAG, "with no usable node, true tries them all the same, false resets TCP and drops UDP"),
    Key("move_together", FLAG, "a node is usable only if both its TCP and its UDP side are"),
    Key(
        "hedge_delay_ms", _DELAY, "after this long without an answer to a connect, try the next node beside it; 0 = off"
    ),
)

GLOBAL = Table(
    "global",
    GlobalConfig,
    (
        Key("log_level", LOG_LEVEL, "how much is logged"),
        _FAILOVER[0],
        Key("admin_listen", ADMIN, "where the control port listens"),
        Key("admin_token_file", PATH, "a file with the control port's token: owner-only, at least 16 bytes"),
        Key("config_poll_interval_ms", _TIMEOUT, "how often this file is looked at for changes"),
        Key("probe_interval_ms", _TIMEOUT, "time between two probes of an endpoint"),
        Key("probe_fast_interval_ms", _TIMEOUT, "the same, while a verdict is in doubt"),
        Key("probe_timeout_ms", _TIMEOUT, "the whole of one probe, from connect to expected answer"),
        Key("connect_timeout_ms", _TIMEOUT, "how long a client's connection may take to reach a node"),
        Key("failure_threshold", COUNT, "failed probes in a row that make an endpoint unhealthy"),
        Key("success_threshold", COUNT, "good probes in a row that make it healthy"),
        Key("connect_retry", COUNT, "how many different nodes one connection tries"),
        _FAILOVER[7],
        Key("passive_eject_threshold", COUNT, "failures of live traffic, within the window, that eject an endpoint"),
        Key("passive_eject_window_ms", _TIMEOUT, "the window for that"),
        Key("eject_time_ms", _TIMEOUT, "how long a first ejection lasts at least; doubled for each soon after it"),
        Key("eject_time_max_ms", _TIMEOUT, "the most that doubling reaches"),
        *_FAILOVER[1:7],
        Key("udp_session_timeout_ms", _TIMEOUT, "a UDP session idle both ways for this long is forgotten"),
        Key("udp_rebind_on_switch", FLAG, "move UDP sessions at once when their node loses its place"),
        Key("udp_max_sessions", COUNT, "UDP sessions per listener; the longest idle makes room"),
        Key("shutdown_grace_ms", _DELAY, "how long connections may finish after SIGTERM; 0 cuts at once"),
        Key("event_log", PATH, "a file that records every event, for `sniffgate replay`"),
        Key("event_log_max_mb", whole(1, 1_000_000), "the size at which that file is rotated"),
        Key("flow_log", one_of(FlowLogMode), "which finished connections and sessions get a log line"),
    ),
)

LISTENERS = Table(
    "listeners",
    ListenerConfig,
    (
        Key("name", NAME, "what it is called in logs and on the control port; unique", "web", "required"),
        Key("protocol", one_of(Transport), "what it carries", "tcp", "required"),
        Key("listen", LISTEN, "the address that clients know", "0.0.0.0:8080", "required"),
        Key("pool", POOL, "whose nodes it forwards to"),
        Key("max_connections", COUNT, "open connections at once; more wait in the kernel", 1000, "no limit of its own"),
        Key("idle_timeout_ms", duration(zero=True), "a connection silent both ways for this long is closed; 0 = off"),
        Key("half_close_timeout_ms", _TIMEOUT, "the same, once one side has finished sending"),
        Key("tcp_user_timeout_ms", _USER_TIMEOUT, "unacknowledged data for this long breaks a connection off"),
    ),
)

POOLS = Table(
    "pools",
    PoolTable,
    (Key("name", NAME, "what listeners and nodes call it; unique", "default", "required"), *_FAILOVER),
)

NODES = Table(
    "nodes",
    NodeConfig,
    (
        Key("name", NAME, "what it is called in logs and on the control port; unique", "node-a", "required"),
        Key("pool", POOL, "the pool it belongs to"),
        Key("enabled", FLAG, "false keeps it in the file and out of service"),
        Key("priority", whole(-(2**31), 2**31 - 1), "higher is better; equals share the traffic"),
        Key("weight", whole(0, 2**32 - 1), 'its share under strategy = "weighted"; 0 = only if all are 0'),
        Key("tcp", NODE_ADDRESS, "where it takes TCP", "10.0.0.11:8080", "none"),
        Key("udp", NODE_ADDRESS, "where it takes UDP", "10.0.0.11:8080", "none"),
        Key("probe", one_of(ProbeKind), "what is probed: each side for itself, one for both, or nothing"),
        Key("probe_payload", OCTETS, "what a probe sends, over TCP if the node has it, else over UDP"),
        Key("probe_expect", OCTETS, "what the answer to it must contain"),
        Key("udp_probe_payload", OCTETS, "what a UDP probe sends"),
        Key("udp_probe_expect", OCTETS, "what the answer to it must contain"),
        Key("probe_interval_ms", _TIMEOUT, "this node's own pace", 1000, "as in [global]"),
        Key("tripwire", FLAG, "keep one idle TCP connection open, to notice a crash at once"),
        Key("remark", TEXT, "a note, shown by status"),
    ),
)

TABLES: Mapping[str, Table] = {table.header: table for table in (GLOBAL, LISTENERS, POOLS, NODES)}


def inherits(table: Table, key: Key) -> bool:
    """True for a key of `[[pools]]` that `[global]` has too."""
    return table is POOLS and key in _FAILOVER
