"""What is written down is read back equal, and nothing else is read at all."""

import json
import types
from typing import get_args

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sniffgate.address import Address
from sniffgate.config.schema import Config, GlobalConfig, ListenerConfig, NodeConfig, PoolConfig, Transport
from sniffgate.state.events import (
    ConfigApplied,
    Event,
    FailureKind,
    ForwardFailed,
    OperatorDrained,
    ProbeFailed,
    TimePassed,
)
from sniffgate.state.model import Endpoint, Health, Override, PassiveFailure, Route, RouteKey, State, Switch
from sniffgate.state.reducer import initial_state
from sniffgate.state.serial import (
    SCHEMA,
    encode,
    event_from_json,
    event_to_json,
    state_from_json,
    state_pieces,
    state_to_json,
    type_name,
)

FLOATS = st.floats(allow_nan=False)
NAMES = st.text(min_size=1, max_size=8)
ADDRESSES = st.builds(Address, st.sampled_from(["", "10.0.0.1", "::1", "fe80::1%eth0", "db.example"]), st.just(53))

for _kind, _strategy in (
    (float, FLOATS),
    (str, NAMES),
    (bytes, st.binary(max_size=12)),
    (Address, ADDRESSES),
    (PassiveFailure, st.builds(PassiveFailure, FLOATS, st.none() | NAMES)),
):
    st.register_type_strategy(_kind, _strategy)


def filled(kind: type) -> st.SearchStrategy[object]:
    """Instances of an attrs class with every field drawn, defaults included."""
    drawn = {field.alias: st.from_type(field.type) for field in attrs.fields(kind) if field.init and field.type}
    return st.builds(kind, **drawn)


def several(kind: type) -> st.SearchStrategy[tuple[object, ...]]:
    return st.lists(filled(kind), max_size=2).map(tuple)


CONFIGS = st.builds(
    Config,
    globals=filled(GlobalConfig),
    listeners=several(ListenerConfig),
    pools=several(PoolConfig),
    nodes=several(NodeConfig),
    warnings=st.lists(NAMES, max_size=1).map(tuple),
)
ENDPOINTS = st.builds(Endpoint, NAMES, st.sampled_from(Transport))
ROUTES = st.builds(RouteKey, NAMES, st.sampled_from(Transport))
STATES = st.builds(
    State,
    now=FLOATS,
    wall_ms=st.integers(),
    epoch=st.integers(0),
    revision=st.integers(0),
    config=CONFIGS,
    health=st.dictionaries(ENDPOINTS, filled(Health), max_size=2),
    pins=st.dictionaries(ROUTES, NAMES, max_size=2),
    overrides=st.dictionaries(NAMES, filled(Override), max_size=2),
    routes=st.dictionaries(ROUTES, filled(Route), max_size=2),
    switches=several(Switch),
)
EVENTS = st.one_of(
    [filled(kind) for kind in get_args(Event) if kind is not ConfigApplied]
    + [st.builds(ConfigApplied, at=FLOATS, wall_ms=st.integers(), config=CONFIGS)]
)


def strict_json(line: str) -> object:
    def refuse(token: str) -> None:
        raise AssertionError(f"{token} is not JSON")

    return json.loads(line, parse_constant=refuse)


@settings(max_examples=150, deadline=None)
@given(event=EVENTS)
def test_every_event_survives_being_written_and_read(event: Event) -> None:
    """A replay that folds other events than the hub did proves nothing."""
    line = event_to_json(event)

    strict_json(line)
    assert line.isascii()
    assert "\n" not in line
    assert event == event_from_json(line)


@settings(max_examples=40, deadline=None)
@given(state=STATES)
def test_every_state_survives_being_written_and_read(state: State) -> None:
    """The header is what a replay starts from."""
    line = state_to_json(state)

    strict_json(line)
    assert line.isascii()
    assert "\n" not in line
    assert state == state_from_json(line)
    assert state.config.warnings == state_from_json(line).config.warnings


def a_state() -> State:
    node = NodeConfig(name="node/a", tcp=Address("10.0.0.1", 80), probe_payload=b"\x00\xff")
    endpoint, route = Endpoint("node/a", Transport.TCP), RouteKey("default", Transport.TCP)
    return State(
        config=Config(nodes=(node,)),
        health=types.MappingProxyType({endpoint: Health(window=(PassiveFailure(1.5, "10.9.9.9"),))}),
        pins={route: "node/a"},
        overrides={"node/a": Override(drain=float("inf"))},
        routes={route: Route(key=route, active=("node/a",), weights=(1,))},
    )


def test_lines_look_as_documented() -> None:
    """People and other programs read the event log too."""
    failed = ForwardFailed(at=1.25, wall_ms=7, endpoint=Endpoint("node-a", Transport.UDP), kind=FailureKind.REFUSED)
    drained = OperatorDrained(at=2.0, node="node-a", timeout=float("inf"))

    assert {
        "type": "forward_failed",
        "at": 1.25,
        "wall_ms": 7,
        "endpoint": "node-a/udp",
        "kind": "refused",
        "client": "",
        "client_spoke": False,
        "more": 0,
    } == json.loads(event_to_json(failed))
    assert '{"type":"operator_drained","at":2.0,"wall_ms":0,"node":"node-a","timeout":"inf"}' == event_to_json(drained)


def test_names_with_slashes_and_any_mapping_are_kept() -> None:
    """Old files may name a node `a/b`; a state may hide its dicts behind read-only views."""
    read = state_from_json(state_to_json(a_state()))

    assert a_state() == read
    assert ["node/a/tcp"] == [str(endpoint) for endpoint in read.health]


def test_fields_that_an_older_line_lacks_take_their_defaults() -> None:
    """A log written before a field existed still reads."""
    assert TimePassed(at=3.0) == event_from_json('{"type":"time_passed","at":3}')


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("", "not a whole JSON line"),
        ('{"type":"time_passed","at":', "not a whole JSON line"),
        ('{"type":"time_passed","at":NaN}', "NaN is not JSON"),
        ("[" * 100_000, "nested too deeply"),
        ('{"at":' + "9" * 5000 + "}", "digits"),
        ("[]", "not a JSON object"),
        ("{}", "no type"),
        ('{"type":5}', "no type"),
        ('{"type":"probe_dreamt","at":1}', "unknown type 'probe_dreamt'"),
        ('{"type":"gap","lost":1}', "a gap line is not an event"),
        ('{"type":"time_passed"}', "at"),
        ('{"type":"time_passed","at":"1"}', "expected a number"),
        ('{"type":"time_passed","at":true}', "expected a number"),
        ('{"type":"time_passed","at":1,"wall_ms":1.5}', "expected int, found float"),
        ('{"type":"time_passed","at":1,"colour":"red"}', "colour"),
        ('{"type":"tripwire_fired","at":1,"endpoint":"node-a"}', "expected name/transport"),
        ('{"type":"tripwire_fired","at":1,"endpoint":"node-a/sctp"}', "sctp"),
        ('{"type":"operator_marked","at":1,"node":"a","mark":"sideways"}', "sideways"),
    ],
)
def test_a_damaged_line_is_one_clear_sentence(line: str, complaint: str) -> None:
    """Whatever a disk or an editor did to a log, its reader hears what is wrong, and never guesses."""
    with pytest.raises(ValueError, match=complaint) as caught:
        event_from_json(line)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"schema": SCHEMA + 1}, "newer than this sniffgate"),
        ({"schema": 0}, "no schema 0"),
        ({"schema": None}, "no schema number"),
        ({"state": {}}, "required field missing"),
        ({"state": None}, "State"),
    ],
)
def test_a_state_of_another_schema_is_refused(change: dict[str, object], complaint: str) -> None:
    """A future writer may mean something else by the same words."""
    with pytest.raises(ValueError, match=complaint):
        state_from_json(json.dumps({**json.loads(state_to_json(a_state())), **change}))


def test_a_damaged_value_inside_a_state_is_named_by_its_place() -> None:
    """A header is long: the complaint says where to look."""
    whole = state_to_json(a_state())

    for sound, damaged, place in (
        ('"00ff"', '"zz"', r"hexadecimal .*State\.config\.nodes\[0\]\.probe_payload"),
        ('"00ff"', "5", r"expected hexadecimal bytes, found int .*State\.config\.nodes\[0\]\.probe_payload"),
        ('[1.5,"10.9.9.9"]', "[1.5]", r"expected \[at, client\] .*State\.health"),
    ):
        assert sound in whole
        with pytest.raises(ValueError, match=place):
            state_from_json(whole.replace(sound, damaged))


def test_the_probe_error_keeps_every_character() -> None:
    """Errors quote what the network said, odd characters and all."""
    event = ProbeFailed(at=0.1, endpoint=Endpoint("ü", Transport.TCP), error='dns: "ü"\n\udc80\u2028')

    assert event == event_from_json(event_to_json(event))


def test_an_event_has_a_word_of_its_own() -> None:
    """It stands in the log, and in what people read of it."""
    assert "time_passed" == type_name(TimePassed(at=1.0))


def test_the_schema_of_a_state_is_the_first() -> None:
    """Another number is a promise to older readers that is broken on purpose only."""
    assert (1, '{"schema":1,"state":{') == (SCHEMA, state_to_json(a_state())[:21])


def test_a_number_in_a_log_is_no_field_of_the_event() -> None:
    """Whoever reads single lines may pass it over."""
    assert TimePassed(at=3.0) == event_from_json(event_to_json(TimePassed(at=3.0), 7))


def test_a_truth_is_no_schema_number() -> None:
    """True would read as 1."""
    with pytest.raises(ValueError, match="no schema number"):
        state_from_json(json.dumps({**json.loads(state_to_json(a_state())), "schema": True}))


def test_a_state_is_written_node_by_node() -> None:
    """The encoder holds the interpreter's lock until a piece is done, and traffic waits for it."""
    nodes = tuple(NodeConfig(name=f"n{number}", tcp=Address("10.0.0.1", 80)) for number in range(40))
    state = initial_state(Config(nodes=nodes))
    one = len(state_to_json(initial_state(Config(nodes=nodes[:1]))))

    assert one > max(map(len, state_pieces(state)))


def test_a_number_that_json_lacks_is_refused_by_the_encoder_itself() -> None:
    """What no hook has made a word of must not get into a log that nobody could read."""
    with pytest.raises(ValueError, match="JSON compliant"):
        encode(float("nan"))
