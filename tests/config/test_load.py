"""Whole files: what they become, and how every unusable one is answered."""

import os
import pathlib
import subprocess
import sys
import time

import pytest

from sniffgate.address import Address
from sniffgate.config.load import load_file, load_text, read_file
from sniffgate.config.schema import Config, Failback, GlobalConfig, ListenerConfig, NodeConfig, ProbeKind, Transport
from sniffgate.config.source import LARGEST
from sniffgate.errors import ConfigError, Side
from tests.config.sample import GOOD, complaint, complaints, load, with_line

LISTENER = '[[listeners]]\nname = "web"\nprotocol = "tcp"\nlisten = ":80"\n'
NODE = '[[nodes]]\nname = "a"\ntcp = "h:1"\n'

# a file as the program that this one follows knows it: every key that it has
ORIGINAL = """\
[global]
log_level = "info"
strategy = "priority"
admin_listen = "127.0.0.1:9100"
config_poll_interval_ms = 100
probe_interval_ms = 100
probe_timeout_ms = 300
connect_timeout_ms = 500
failure_threshold = 2
success_threshold = 1
connect_retry = 3
passive_eject_threshold = 3
passive_eject_window_ms = 5000
drain_timeout_ms = 0
udp_session_timeout_ms = 60000
udp_rebind_on_switch = true
fail_open = true
shutdown_grace_ms = 5000

[[listeners]]
name = "tcp-public"
protocol = "tcp"
listen = "0.0.0.0:9000"

[[listeners]]
name = "udp-public"
protocol = "udp"
listen = "0.0.0.0:9000"

[[nodes]]
name = "node-a"
enabled = true
priority = 100
weight = 3
tcp = "10.0.0.11:9000"
udp = "10.0.0.11:9000"
probe = "auto"
probe_payload = "hex:0d_0a:41-42"
probe_expect = "pong"
probe_interval_ms = 500
remark = "主"
"""


def test_a_file_becomes_a_configuration() -> None:
    """Milliseconds become seconds, words become enums, addresses are parsed."""
    expected = Config(
        globals=GlobalConfig(
            config_poll_interval=0.1,
            probe_interval=0.1,
            probe_timeout=0.3,
            connect_timeout=0.5,
            failure_threshold=2,
            success_threshold=1,
            drain_timeout=0.0,
        ),
        listeners=(
            ListenerConfig(name="tcp-public", protocol=Transport.TCP, listen=Address("0.0.0.0", 9000)),
            ListenerConfig(name="udp-public", protocol=Transport.UDP, listen=Address("0.0.0.0", 9000)),
        ),
        nodes=(
            NodeConfig(
                name="node-a",
                priority=100,
                weight=3,
                tcp=Address("10.0.0.11", 9000),
                udp=Address("10.0.0.11", 9000),
                probe=ProbeKind.AUTO,
                probe_payload=b"\r\nAB",
                probe_expect=b"pong",
                probe_interval=0.5,
                remark="主",
            ),
        ),
    )
    assert expected == load(ORIGINAL)


def test_a_pool_takes_from_global_what_it_does_not_say() -> None:
    """`[global]` is every pool's default, and the pool `default` is a pool like others."""
    config = load(
        '[global]\nfailback = "manual"\ndrain_timeout_ms = 5\nfailback_drain_timeout_ms = 7\nhedge_delay_ms = 0\n'
        '[[pools]]\nname = "default"\nfail_open = false\n'
        '[[pools]]\nname = "db"\ndrain_timeout_ms = "inf"\nfailback = "auto"\n'
        f'{LISTENER}pool = "db"\n{NODE}pool = "db"\n'
    )
    default, db = config.pools

    assert (Failback.MANUAL, 0.005, 0.007, False, 0.0) == (
        default.failback,
        default.drain_timeout,
        default.failback_drain_timeout,
        default.fail_open,
        default.hedge_delay,
    )
    inf = float("inf")
    assert (Failback.AUTO, inf, inf, True) == (db.failback, db.drain_timeout, db.failback_drain_timeout, db.fail_open)


def test_all_faults_are_reported_at_once_in_the_file_s_order() -> None:
    """Who repairs one fault should not meet the next only then."""
    text = """\
typo = 1
pools = 5
[global]
strategy = "wieghted"
nodes = 1
[[listeners]]
name = "a"
protocol = "tcp"
listen = ":80"
[[nodes]]
name = \"\"\"
x\"\"\"
pool = "dfault"
tcp = "1.2.3"
weight = true
[nodes.extra]
[[listeners]]
name = "a"
protocol = "tcp"
listen = ":80"
[[nodes]]
tcp = "h:1"
[[nodes]]
name = "b"
tcp = ""
"""
    assert [
        "f.toml:1: typo: unknown key 'typo'",
        "f.toml:2: pools: must be an array of tables, not 5: write [[pools]]",
        "f.toml:4: global.strategy: must be one of 'priority', 'round_robin', 'weighted', not 'wieghted'; "
        "did you mean 'weighted'?",
        "f.toml:5: global.nodes: unknown key 'nodes'",
        "f.toml:13: nodes[0].pool: there is no pool 'dfault' in [[pools]]; did you mean 'default'?",
        "f.toml:14: nodes[0].tcp: '1.2.3' is not an address: the port is missing (host:port)",
        "f.toml:15: nodes[0].weight: must be a whole number, not true",
        "f.toml:16: nodes[0].extra: unknown key 'extra'",
        "f.toml:18: listeners[1].name: the name 'a' is already taken (first on line 7)",
        "f.toml:20: listeners[1].listen: tcp :80 is already listened on (first on line 9)",
        "f.toml:21: nodes[1].name: is missing: every [[nodes]] needs one",
        "f.toml:23: nodes[2]: has no address: a node needs tcp or udp",
    ] == complaints(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (NODE, "f.toml: at least one [[listeners]] is needed"),
        (LISTENER, "f.toml: at least one [[nodes]] is needed"),
        (f"nodes = []\n{LISTENER}", "f.toml:1: nodes: at least one [[nodes]] is needed"),
        (f"{LISTENER}{NODE}[[nodse]]", "f.toml:8: nodse: unknown key 'nodse'; did you mean 'nodes'?"),
        (f"global = 5\n{LISTENER}{NODE}", "f.toml:1: global: must be a table, not 5: write [global]"),
        (f"[[global]]\n{LISTENER}{NODE}", "f.toml:1: global: must be a table, not an array: write [global]"),
        (f"nodes = [\n1,\n]\n{LISTENER}", "f.toml:2: nodes[0]: must be a table, not 1"),
        (
            f'{LISTENER}[nodes]\nname = "a"',
            "f.toml:5: nodes: must be an array of tables, not a table: write [[nodes]]",
        ),
        (f"{LISTENER}{NODE}{NODE}", "f.toml:9: nodes[1].name: the name 'a' is already taken (first on line 6)"),
        (
            f'{LISTENER}{NODE}[[pools]]\nname = "p"\n[[pools]]\nname = "p"',
            "f.toml:11: pools[1].name: the name 'p' is already taken (first on line 9)",
        ),
        (
            f'[global]\nadmin_token_file = "t"\nadmin_listen = ":80"\n{LISTENER}{NODE}',
            "f.toml:3: global.admin_listen: tcp :80 is already listened on (first on line 7)",
        ),
        (
            f'[global]\nadmin_listen = "10.0.0.1:9100"\n{LISTENER}{NODE}',
            "f.toml:2: global.admin_listen: other machines can reach 10.0.0.1:9100: set admin_token_file, or listen on "
            "127.0.0.1 or a unix socket",
        ),
        (f'{LISTENER}pool = "x"\n{NODE}', "f.toml:5: listeners[0].pool: there is no pool 'x' in [[pools]]"),
        (f"{LISTENER}{NODE}Tcp = 1", "f.toml:8: nodes[0].Tcp: unknown key 'Tcp'; did you mean 'tcp'?"),
        (
            f"{LISTENER}{NODE}half_close_timeot_ms = 1",
            "f.toml:8: nodes[0].half_close_timeot_ms: unknown key 'half_close_timeot_ms' here; "
            "did you mean 'half_close_timeout_ms' of [[listeners]]?",
        ),
        (f"{LISTENER}{NODE}'a b' = 1", "f.toml:8: nodes[0].'a b': unknown key 'a b'"),
    ],
)
def test_tables_must_fit_each_other(text: str, expected: str) -> None:
    """Each sentence names both sides of a conflict."""
    assert expected == complaint(text)


def test_one_address_in_two_spellings_is_one_address() -> None:
    """Else the second would fail to bind, at a worse moment."""
    second = '[[listeners]]\nname = "two"\nprotocol = "tcp"\nlisten = "[0:0::1]:80"\n'
    text = LISTENER.replace('":80"', '"[::1]:80"') + second + NODE

    assert "f.toml:8: listeners[1].listen: tcp [0:0::1]:80 is already listened on (first on line 4)" == complaint(text)


@pytest.mark.parametrize(
    ("listen", "node"),
    [
        ("127.0.0.1:80", "127.0.0.1:80"),
        ("10.0.0.1:80", "10.0.0.1:80"),
        (":80", "127.0.0.2:80"),
        (":80", "[::1]:80"),
        ("0.0.0.0:80", "127.0.0.1:80"),
        ("0.0.0.0:80", "[::ffff:127.0.0.1]:80"),
        ("0.0.0.0:80", "0.0.0.0:80"),
        ("[::]:80", "[::1]:80"),
        ("[0:0::1]:80", "[::1]:80"),
        ("gate.example:80", "Gate.example:80"),
    ],
)
@pytest.mark.parametrize("protocol", ["tcp", "udp"])
def test_a_node_that_is_a_listener_of_its_pool_is_a_fault(listen: str, node: str, protocol: str) -> None:
    """One client would take every descriptor there is: each connection makes the next."""
    text = f'[[listeners]]\nname = "web"\nprotocol = "{protocol}"\nlisten = "{listen}"\n'
    text += f'[[nodes]]\nname = "a"\n{protocol} = "{node}"\n'

    message = "is this gateway's own listener 'web': traffic would go round in circles"
    assert f"f.toml:7: nodes[0].{protocol}: {message}" == complaint(text)


@pytest.mark.parametrize(
    ("listener", "node"),
    [
        ('listen = "127.0.0.1:81"', 'tcp = "127.0.0.1:80"'),
        ('listen = "127.0.0.2:80"', 'tcp = "127.0.0.1:80"'),
        ('listen = "127.0.0.1:80"', 'udp = "127.0.0.1:80"'),
        ('listen = ":80"', 'tcp = "10.0.0.1:80"'),
        ('listen = "0.0.0.0:80"', 'tcp = "[::1]:80"'),
        ('listen = "[::]:80"', 'tcp = "127.0.0.1:80"'),
        ('listen = ":0"', 'tcp = "127.0.0.1:80"'),
        ('listen = ":80"', 'tcp = "127.0.0.1:80"\npool = "other"'),
        ('listen = ":80"\npool = "other"', 'tcp = "127.0.0.1:80"'),
    ],
)
def test_a_node_that_may_be_another_machine_or_pool_is_none(listener: str, node: str) -> None:
    """Two listeners in a row, of two pools, are a way to build something; other addresses are other programs'."""
    text = f'[[listeners]]\nname = "web"\nprotocol = "tcp"\n{listener}\n[[pools]]\nname = "other"\n'

    assert "a" == load_text(f'{text}[[nodes]]\nname = "a"\n{node}\n', file="f.toml").nodes[0].name


def test_what_is_no_duplicate_loads() -> None:
    """TCP and UDP share a port; port 0 is a different port each time; a pool may be named like a node."""
    more = "".join(f'[[listeners]]\nname = "{n}"\nprotocol = "tcp"\nlisten = ":0"\n' for n in ("x", "y"))
    udp = '[[listeners]]\nname = "u"\nprotocol = "udp"\nlisten = ":80"\n'

    assert 4 == len(load(LISTENER + more + udp + '[[pools]]\nname = "default"\n' + NODE + 'udp = "h:1"').listeners)


def warned(text: str) -> tuple[str, ...]:
    return load_text(text, file="f.toml").warnings


@pytest.mark.parametrize(
    ("table", "lines", "key"),
    [
        ("listeners", 'name = "é"', "name"),
        ("pools", 'name = "spare pool"', "name"),
        ("nodes", 'name = "a b"', "name"),
        ("global", 'eject_time_ms = "2m"', "eject_time_ms"),
        ("nodes", 'probe = "none"\nprobe_payload = "x"', "probe_payload"),
        ("nodes", 'probe = "none"\nprobe_interval_ms = 10', "probe_interval_ms"),
        ("nodes", 'probe = "tcp"\nudp_probe_expect = "x"', "udp_probe_expect"),
        ("nodes", 'probe = "udp"\nprobe_expect = "x"\nudp_probe_expect = "y"', "probe_expect"),
    ],
)
def test_what_was_probably_not_meant_is_a_warning(table: str, lines: str, key: str) -> None:
    """It loads, and says so on the line of the key."""
    warnings = warned(with_line(table, lines))
    path = table if table == "global" else f"{table}[0]"

    assert f"{path}.{key}: " in warnings[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f'{LISTENER}{NODE}probe = "udp"', 'f.toml:8: nodes[0].probe: the node has no udp address: works as "auto"'),
        (
            f"{LISTENER}{NODE}udp_probe_payload = 'x'",
            "f.toml:8: nodes[0].udp_probe_payload: has no effect without a udp",
        ),
        (
            f'{LISTENER.replace("tcp", "udp")}idle_timeout_ms = 0\n{NODE}udp = "h:1"',
            "f.toml:5: listeners[0].idle_timeout_ms: has no effect on a UDP listener (see udp_session_timeout_ms)",
        ),
        (
            f'{LISTENER}[[nodes]]\nname = "a"\nudp = "h:1"',
            "f.toml:3: listeners[0].protocol: no node of pool 'default' has a tcp address: nothing will be forwarded",
        ),
        (
            f'{LISTENER.replace("tcp", "udp")}[[nodes]]\nname = "a"\nudp = "h:1"\ntripwire = true',
            "f.toml:8: nodes[0].tripwire: has no effect without a tcp address",
        ),
        (f'{LISTENER}[[pools]]\nname = "p"\n{NODE}', "f.toml:6: pools[0].name: no listener and no node is in pool 'p'"),
    ],
)
def test_a_warning_says_where_and_why(text: str, expected: str) -> None:
    """One line, like a fault."""
    (warning,) = warned(text)
    assert warning.startswith(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = 1\nb = \n", "f.toml:2: not valid TOML: invalid value, column 5 of 'b ='"),
        ('a = 1\nb = "x\n', "f.toml:2: not valid TOML: illegal character '\\n', column 7 of 'b = \"x'"),
        ("a = [1,\n2\n", "f.toml:2: not valid TOML: unclosed array at the end of the file"),
        (
            '[global]\nlog_level = "info"\nlog_level = "warn"\n',
            "f.toml:3: global.log_level: given twice (first on line 2)",
        ),
        ("[global]\n[[nodes]]\n[global]\n", "f.toml:3: global: given twice (first on line 1)"),
        ("a = " + "9" * 5000, "f.toml: holds a number that is too long"),
        ("a = " + "[" * 50_000, "f.toml: is nested too deeply"),
        ("a = " + "{b=" * 50_000, "f.toml: is nested too deeply"),
        ("", "f.toml: is empty: at least one [[listeners]] and one [[nodes]] table are needed"),
        (" \r\n\t\n", "f.toml: is empty: at least one [[listeners]] and one [[nodes]] table are needed"),
        (GOOD.encode("utf-16"), "f.toml: is encoded as UTF-16: save it as UTF-8"),
        (GOOD.encode("utf-16-le"), "f.toml: is encoded as UTF-16: save it as UTF-8"),
        (GOOD.encode("utf-16-be"), "f.toml: is encoded as UTF-16: save it as UTF-8"),
        (GOOD.encode("utf-32"), "f.toml: is encoded as UTF-32: save it as UTF-8"),
        (GOOD.encode() + b"\0\0", "f.toml:16: holds a NUL byte: a binary or damaged file"),
        (b"\x7fELF\x02\x01\x01\0\0\0", "f.toml:1: holds a NUL byte: a binary or damaged file"),
        (b"a = 1\n# \xe9\n", "f.toml:2: is not UTF-8 text: byte 0xe9"),
        (
            "a = 1\rb = 2\n",
            "f.toml:1: holds a carriage return without a line feed: end lines with LF or CR LF",
        ),
        ("a = '\ud800'", "f.toml:1: is not UTF-8 text: byte 0xed"),
    ],
)
def test_what_is_no_toml_is_one_clear_sentence(text: str | bytes, expected: str) -> None:
    """With the line where there is one."""
    assert expected == complaint(text)


def test_absurd_values_are_named_without_being_printed() -> None:
    """A complaint stays one short line, whatever the value is."""
    deep = "a" + ".a" * 2_000
    for line in (
        f"priority = 0x{'f' * 9000}",
        f"remark.{deep} = 1",
        f'tcp = "{"x" * 9000}"',
        f'probe = "{"x" * 9000}"',
    ):
        assert 300 > len(complaint(with_line("nodes", line)))
    assert 300 > len(complaint(with_line("global", f"drain_timeout_ms = 0x{'f' * 9000}")))


def test_a_byte_order_mark_and_crlf_change_nothing() -> None:
    """Some editors write both; lines count the same."""
    dos = b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode()

    assert load(GOOD) == load(dos)
    assert load(GOOD) == load("\ufeff" + GOOD)
    assert "f.toml:16: nodes[0].x: unknown key 'x'" == complaint(dos + b"x = 1\r\n")


def test_a_file_that_cannot_be_read_is_one_clear_sentence(tmp_path: pathlib.Path) -> None:
    """The operator's mistake, never a traceback."""
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for path, expected in {
        tmp_path: "is a directory, not a configuration file",
        tmp_path / "none": "there is no such file",
        loop: "cannot be read: Too many levels of symbolic links",
        pathlib.Path("a\0b"): "cannot be read: embedded null byte",
        pathlib.Path("/dev/zero"): f"is larger than {LARGEST // 2**20} MiB: not a configuration file",
    }.items():
        with pytest.raises(ConfigError) as caught:
            load_file(path)
        assert f"{path}: {expected}" == str(caught.value)
        assert Side.OPERATOR is caught.value.side


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_one_clear_sentence(tmp_path: pathlib.Path) -> None:
    """Common when a service runs as a user of its own."""
    path = tmp_path / "f.toml"
    path.write_text(GOOD)
    path.chmod(0)

    with pytest.raises(ConfigError, match=r"may not be read \(permission denied\)"):
        read_file(path)


def test_reading_and_parsing_are_two_steps(tmp_path: pathlib.Path) -> None:
    """So that a reload can compare the bytes that it is going to parse."""
    path = tmp_path / "f.toml"
    path.write_text(GOOD)

    assert GOOD.encode() == read_file(path)
    assert load_file(path) == load_text(read_file(path), file=str(path))


def test_five_hundred_nodes_load_fast_and_without_tomlkit() -> None:
    """A reload must not cost a noticeable moment, nor the start an import that it does not need."""
    nodes = "".join(
        f'[[nodes]]\nname = "n{n}"\ntcp = "10.0.0.1:{n + 1}"\npriority = {n}\nweight = 2\n' for n in range(500)
    )
    started = time.process_time()
    assert 500 == len(load(LISTENER + nodes).nodes)
    assert 1.0 > time.process_time() - started  # some 20 ms; the bound only has to catch a square

    code = "import sys; from sniffgate.config import load; load.load_text(sys.stdin.read(), file='f')"
    code += "; print('tomlkit' in sys.modules)"
    told = subprocess.run(
        [sys.executable, "-c", code], input=GOOD, capture_output=True, text=True, check=True, timeout=30
    )
    assert "False\n" == told.stdout


def test_five_hundred_faults_are_found_fast() -> None:
    """Locating walks the text once, not once for each fault."""
    nodes = "".join(f'[[nodes]]\nname = "n{n}"\ntcp = "10.0.0.1:{n + 1}"\nx = 1\n' for n in range(500))
    started = time.process_time()
    assert "f.toml:2004: nodes[499].x: unknown key 'x'" == complaints(LISTENER + nodes)[-1]
    assert 2.0 > time.process_time() - started
