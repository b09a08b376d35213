"""Every line is one command or one sentence, in either form."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sniffgate.config.schema import Transport
from sniffgate.control.commands import (
    USAGE,
    Auth,
    Auto,
    Command,
    Disable,
    Drain,
    Enable,
    Events,
    Health,
    Help,
    Quit,
    Reload,
    Snapshot,
    Stats,
    Status,
    Switch,
    Why,
)
from sniffgate.control.parsing import parse_line
from sniffgate.errors import CommandRefused
from sniffgate.state.model import Mark

BOTH_FORMS: list[tuple[str, str, Command]] = [
    ("status", '{"cmd":"status"}', Status()),
    ("stats", '{"cmd":"stats"}', Stats()),
    ("reload", '{"cmd":"reload"}', Reload()),
    ("switch node-b", '{"cmd":"switch","node":"node-b"}', Switch("node-b")),
    ("switch node-b tcp", '{"cmd":"switch","node":"node-b","protocol":"tcp"}', Switch("node-b", Transport.TCP)),
    ("auto", '{"cmd":"auto","protocol":null}', Auto()),
    ("auto udp", '{"cmd":"auto","protocol":"udp"}', Auto(Transport.UDP)),
    ("enable 'node b'", '{"cmd":"enable","node":"node b"}', Enable("node b")),
    ("disable nœud", '{"cmd":"disable","node":"nœud"}', Disable("nœud")),
    ("drain a", '{"cmd":"drain","node":"a"}', Drain("a")),
    ("drain a 0", '{"cmd":"drain","node":"a","seconds":0}', Drain("a", 0.0)),
    ("drain a 2.5", '{"cmd":"drain","node":"a","seconds":2.5}', Drain("a", 2.5)),
    ("drain a inf", '{"cmd":"drain","node":"a","seconds":"inf"}', Drain("a", math.inf)),
    ("health a up", '{"cmd":"health","node":"a","mark":"up"}', Health("a", Mark.UP)),
    ("health a down", '{"cmd":"health","node":"a","mark":"down"}', Health("a", Mark.DOWN)),
    ("health a auto", '{"cmd":"health","node":"a","mark":"auto"}', Health("a", None)),
    ("why a", '{"cmd":"why","node":"a"}', Why("a")),
    ("events", '{"cmd":"events"}', Events(100)),
    ("events 7", '{"cmd":"events","n":7}', Events(7)),
    ("state", '{"cmd":"state"}', Snapshot()),
    ("help", '{"cmd":"help"}', Help()),
    ("quit", '{"cmd":"quit"}', Quit()),
    ("auth s3cret", '{"cmd":"auth","token":"s3cret"}', Auth("s3cret")),
]


@pytest.mark.parametrize(("text", "as_json", "command"), BOTH_FORMS)
def test_every_command_can_be_written_in_both_forms(text: str, as_json: str, command: Command) -> None:
    """People type the one, programs write the other."""
    assert command == parse_line(text.encode())
    assert command == parse_line(as_json.encode())


def test_every_command_of_help_is_understood() -> None:
    """Help is what an operator types off."""
    assert set(USAGE) == {text.split()[0] for text, _, _ in BOTH_FORMS}


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (b"", "the line is empty; try help"),
        (b"   ", "the line is empty; try help"),
        (b"\xff\xfe", "the line is not UTF-8"),
        (b"status\0", "the line has a NUL in it"),
        (b"statsu", "unknown command 'statsu'; did you mean 'stats'?"),
        (b"STATUS", "unknown command 'STATUS'; did you mean 'status'?"),
        (b"frobnicate", "unknown command 'frobnicate'; try help"),
        (b"GET / HTTP/1.1", "unknown command 'GET'; try help"),
        (b"\x1b[2J", "unknown command '\\x1b[2J'; try help"),
        (b"status now", "'now' is too much; usage: status"),
        (b"switch", "node is missing; usage: switch NODE [tcp|udp]"),
        (b"switch a icmp", "protocol must be tcp or udp, not 'icmp'"),
        (b"switch 'a", "a quotation is not closed"),
        (b"switch ''", "node must be a name of at most 64 printable characters"),
        (b"health a", "mark is missing; usage: health NODE up|down|auto"),
        (b"health a sideways", "mark must be up, down or auto, not 'sideways'"),
        (b"drain a soon", "seconds must be a number of seconds from 0 to 31536000, or inf, not 'soon'"),
        (b"drain a -1", "seconds must be a number of seconds from 0 to 31536000, or inf, not '-1'"),
        (b"drain a nan", "seconds must be a number of seconds from 0 to 31536000, or inf, not 'nan'"),
        (b"events 0", "n must be a whole number from 1 to 1000, not '0'"),
        (b"events 1001", "n must be a whole number from 1 to 1000, not '1001'"),
        (b"events 2.5", "n must be a whole number from 1 to 1000, not '2.5'"),
        (b"{}", '"cmd" is missing'),
        (b'{"cmd":7}', '"cmd" must be a string'),
        (b'{"cmd":"status","cmd":"stats"}', "the key 'cmd' is there twice"),
        (b'{"cmd":"switch","nod":"a"}', "switch has no key 'nod'; did you mean 'node'?"),
        (b'{"cmd":"switch","node":["a"]}', "node must be a string"),
        (b'{"cmd":"switch","node":null}', "node is missing; usage: switch NODE [tcp|udp]"),
        (b'{"cmd":"switch","node":"\\ud800"}', "node must be a name of at most 64 printable characters"),
        (b'{"cmd":"drain","node":"a","seconds":NaN}', "not JSON: NaN is no number"),
        (b'{"cmd":"drain","node":"a","seconds":-Infinity}', "not JSON: -Infinity is no number"),
        (b'{"cmd":"events","n":true}', "n must be a whole number from 1 to 1000, not true"),
        (b'{"cmd":"events","n":1e999}', "n must be a whole number from 1 to 1000, not inf"),
        (b'{"cmd":"events","n":{"a":1}}', "n must be a whole number from 1 to 1000, not a table"),
        (b'{"cmd":"events","n":' + b"9" * 30 + b"}", "n must be a whole number from 1 to 1000, not that number"),
        (b'{"cmd":"events","n":' + b"9" * 5000 + b"}", "not a command: a number is too long"),
        (b'{"cmd":' * 10_000, "not a command: nested too deeply"),
        (b'{"cmd":"status"', "not JSON: Expecting ',' delimiter at character 16"),
        (b'{"cmd":"status"} x', "not JSON: Extra data at character 18"),
        (b"why " + b"a" * 65, "node must be a name of at most 64 printable characters"),
        (b"'" + b"x" * 2000, "a line with quotes may have 1024 characters; JSON may have more"),
        (b"x" * 60_000, f"unknown command '{'x' * 40}...'; try help"),
    ],
)
def test_whatever_is_wrong_is_said_in_one_sentence(line: bytes, sentence: str) -> None:
    """The operator sees this sentence and nothing else, so it has to say what to mend."""
    with pytest.raises(CommandRefused) as refused:
        parse_line(line)

    assert sentence == str(refused.value)


def test_a_token_is_not_shown_by_its_command() -> None:
    """Commands end in tracebacks and logs; tokens must not."""
    assert "s3cret" not in repr(parse_line(b"auth s3cret"))


WORDS = st.sampled_from([*USAGE, "tcp", "udp", "inf", "nan", "up", "'", '"', "\\", "a", "{", "}", "[", ":", ",", "\0"])
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=70),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
COMMANDS = st.builds(
    lambda word, rest: json.dumps({"cmd": word, **rest}).encode(),
    st.sampled_from(list(USAGE)),
    st.dictionaries(st.sampled_from(["node", "protocol", "seconds", "mark", "n", "token"]), ANY_JSON, max_size=3),
)


@given(st.binary() | st.lists(WORDS).map(lambda words: " ".join(words).encode()) | COMMANDS)
def test_any_bytes_are_a_command_or_a_printable_sentence(line: bytes) -> None:
    """Whoever can reach the port can send anything."""
    sentence = "fine"
    try:
        parse_line(line)
    except CommandRefused as refused:
        sentence = str(refused)
    assert sentence.isprintable()
    assert len(sentence) < 300
