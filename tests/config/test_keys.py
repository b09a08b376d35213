"""Each key of the file: its default, both ends of its range, and what happens when it is misspelt or misplaced."""

import json

import attrs
import pytest

from sniffgate.config.keys import GLOBAL, LISTENERS, NODES, POOLS, TABLES, Key, Table, inherits
from sniffgate.config.load import load_text
from sniffgate.config.schema import GlobalConfig, ListenerConfig, NodeConfig, PoolConfig
from tests.config.sample import GOOD, complaint, with_line

ALL = [pytest.param(table, key, id=f"{table.header}.{key.name}") for table in TABLES.values() for key in table.keys]
DAY = 86_400_000
INT32 = 2**31


def test_the_keys_are_the_schema_s() -> None:
    """A field without a key could not be set; a key without a field would do nothing."""
    for table, kind in ((GLOBAL, GlobalConfig), (LISTENERS, ListenerConfig), (POOLS, PoolConfig), (NODES, NodeConfig)):
        assert {field.name for field in attrs.fields(kind)} == {key.attribute for key in table.keys}
        assert len(table.keys) == len({key.name for key in table.keys})


@pytest.mark.parametrize(("table", "key"), ALL)
def test_a_default_written_out_changes_nothing(table: Table, key: Key) -> None:
    """What the documentation calls the default is what an absent key means."""
    default = (GLOBAL if inherits(table, key) else table).default(key)
    if default is None:
        return
    written = load_text(with_line(table.header, f"{key.name} = {json.dumps(default)}"), file="f.toml")

    assert load_text(GOOD, file="f.toml") == written


@pytest.mark.parametrize(("table", "key"), ALL)
def test_a_key_that_lost_a_letter_is_reported_with_the_nearest_one(table: Table, key: Key) -> None:
    """A misspelt key that is ignored is a setting that its owner believes in for months."""
    for gone in range(len(key.name)):
        misspelt = key.name[:gone] + key.name[gone + 1 :]
        text = with_line(table.header, f"{misspelt} = 1")
        line = 1 + text.split("\n").index(f"{misspelt} = 1")
        path = table.header if table is GLOBAL else f"{table.header}[0]"

        expected = f"f.toml:{line}: {path}.{misspelt}: unknown key {misspelt!r}; did you mean {key.name!r}?"
        assert expected == complaint(text)


@pytest.mark.parametrize(("table", "key"), ALL)
def test_a_key_above_its_table_is_reported_with_its_place(table: Table, key: Key) -> None:
    """Moved to the top of the file, a key belongs to nothing."""
    told = complaint(f"{key.name} = 1\n{GOOD}")

    assert told.startswith(f"f.toml:1: {key.name}: unknown key '{key.name}' here; it belongs in ")
    assert table.title in told


@pytest.mark.parametrize(("table", "key"), ALL)
def test_a_key_in_the_table_above_is_reported(table: Table, key: Key) -> None:
    """Where the other table does not know it. (A key that both know is simply that other table's.)"""
    order = list(TABLES.values())
    above = order[(order.index(table) or len(order)) - 1]
    if any(key.name == other.name for other in above.keys):
        return
    told = complaint(with_line(above.header, f"{key.name} = 1"))

    assert f"unknown key '{key.name}' here; it belongs in " in told
    assert table.title in told


def lines_of(key: str, *values: str) -> list[str]:
    return [f"{key} = {value}" for value in values]


PLAIN = [
    (GLOBAL, key) for key in ("failure_threshold", "success_threshold", "connect_retry", "passive_eject_threshold")
]
PLAIN += [(GLOBAL, "udp_max_sessions"), (GLOBAL, "event_log_max_mb"), (LISTENERS, "max_connections")]
TIMES = [
    (table, key.name)
    for table in (GLOBAL, LISTENERS, NODES)
    for key in table.keys
    if key.unit == "ms" and "drain" not in key.name and key.name not in ("tcp_user_timeout_ms", "idle_timeout_ms")
    if key.name not in ("hedge_delay_ms", "failback_delay_ms", "shutdown_grace_ms")
]
DELAYS = [(table, key) for table in (GLOBAL, POOLS) for key in ("hedge_delay_ms", "failback_delay_ms")]
DELAYS.append((GLOBAL, "shutdown_grace_ms"))
DRAINS = [(table, key) for table in (GLOBAL, POOLS) for key in ("drain_timeout_ms", "failback_drain_timeout_ms")]

NO_NUMBERS = ("true", '"80"', "[]", "{}", "1979-05-27", '""')
EDGES: list[tuple[Table, str, tuple[str, ...], tuple[str, ...]]] = [
    *((table, key, ("1", "1000000"), ("0", "-1", "1000001", "1.0", "inf", "nan", *NO_NUMBERS)) for table, key in PLAIN),
    *(
        (
            table,
            key,
            ("10", "10.0", '"10ms"', str(365 * DAY), '"365d"'),
            ("9", "9.999", "0", "-0.0", "-10", str(365 * DAY + 1), "inf", '"inf"', "nan", "1e400", *NO_NUMBERS),
        )
        for table, key in TIMES
    ),
    *(
        (table, key, ("0", "-0.0", "0.5", '"0s"', str(365 * DAY)), ("-1", "inf", '"inf"', "nan", *NO_NUMBERS))
        for table, key in DELAYS
    ),
    *(
        (table, key, ("0", "1", "inf", "+inf", '"inf"', str(365 * DAY)), ("-1", "-inf", '"-inf"', "nan", *NO_NUMBERS))
        for table, key in DRAINS
    ),
    (LISTENERS, "idle_timeout_ms", ("0", "10"), ("9", "-1", "inf", "nan", *NO_NUMBERS)),
    (LISTENERS, "tcp_user_timeout_ms", ("10", str(24 * DAY)), ("0", "9", str(24 * DAY + 1), "inf", *NO_NUMBERS)),
    (NODES, "weight", ("0", str(2**32 - 1)), ("-1", str(2**32), "1.0", "nan", *NO_NUMBERS)),
    (NODES, "priority", (str(-INT32), str(INT32 - 1)), (str(-INT32 - 1), str(INT32), "1.0", *NO_NUMBERS)),
    (LISTENERS, "listen", ('":0"', '":65535"', '"[::1]:80"'), ('":65536"', '""', "80", '"a:b:80"', '"host"')),
    (NODES, "tcp", ('"h:1"', '"[fe80::1%eth0]:1"'), ('"h:0"', '":1"', "1", '"unix:/a"', '"h:٣"')),
    (NODES, "udp", ('"h:1"', '""'), ('"h:0"', '":1"', "1", '"300.1.1.1:1"')),
    (
        GLOBAL,
        "admin_listen",
        ('""', '"[::1]:0"', f'"unix:/{"a" * 106}"'),
        ('"unix:a"', f'"unix:/{"a" * 107}"', "1", '"a"'),
    ),
    (GLOBAL, "event_log", ('""', '"/var/log/x"'), ("1", '"a\\u0000b"')),
    (GLOBAL, "admin_token_file", ('""', '"x"'), ("1", '"\\u0000"')),
    (GLOBAL, "log_level", ('"error"', '"warn"', '"warning"', '"INFO"', '"debug"', '"trace"'), ('"loud"', '""', "1")),
    (GLOBAL, "flow_log", ('"failed"', '"off"', '"all"'), ('"none"', "true")),
    (GLOBAL, "strategy", ('"priority"', '"round_robin"', '"weighted"'), ('"Priority"', '""', "1")),
    (POOLS, "failback", ('"auto"', '"manual"'), ('"never"', "false")),
    (LISTENERS, "protocol", ('"tcp"', '"udp"'), ('"TCP"', '"sctp"', "6")),
    (NODES, "probe", ('"auto"', '"tcp"', '"udp"', '"none"'), ('"http"', "false")),
    (NODES, "name", ('"a"', f'"{"a" * 64}"', '"é è"'), ('""', f'"{"a" * 65}"', '"a\\nb"', '"\\u200b"', "5")),
    (LISTENERS, "name", ('"a"', f'"{"ü" * 64}"'), ('""', f'"{"ü" * 65}"', "true")),
    (NODES, "probe_payload", ('""', '"PING\\r\\n"', '"hex:"', '"hex:00 ff"'), ('"hex:0"', '"hex:zz"', "1")),
    (NODES, "udp_probe_expect", (f'"{"a" * 65507}"',), (f'"{"a" * 65508}"', f'"hex:{"00" * 65508}"')),
    (NODES, "remark", ('""', '"any\\nthing"'), ("1",)),
    *(
        (table, key.name, ("true", "false"), ("1", '"true"', "[]"))
        for table in TABLES.values()
        for key in table.keys
        if key.reader.range == "true, false"
    ),
]


@pytest.mark.parametrize(
    ("table", "key", "good", "bad"), [pytest.param(*edge, id=f"{edge[0].header}.{edge[1]}") for edge in EDGES]
)
def test_a_range_ends_where_it_says(table: Table, key: str, good: tuple[str, ...], bad: tuple[str, ...]) -> None:
    """The edge itself loads; one step further is a fault on that line, and nothing is coerced."""
    for line in lines_of(key, *good):
        load_text(with_line(table.header, line), file="f.toml")
    for line in lines_of(key, *bad):
        text = with_line(table.header, line)
        where = 1 + text.split("\n").index(line)
        path = table.header if table is GLOBAL else f"{table.header}[0]"

        assert complaint(text).startswith(f"f.toml:{where}: {path}.{key}: ")


def test_every_key_stands_in_the_table_of_edges() -> None:
    """A new key needs its edges tested."""
    tested = {(table.header, key) for table, key, _, _ in EDGES}
    untested = {(table.header, key.name) for table in TABLES.values() for key in table.keys} - tested

    shared = {("pools", key) for key in ("name", "strategy")} | {("global", "failback")}
    pools = {("listeners", "pool"), ("nodes", "pool")}
    twins = {("nodes", key) for key in ("probe_expect", "udp_probe_payload")}
    assert shared | pools | twins == untested
