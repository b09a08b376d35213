"""Events and states as strict JSON, one line each, exact in both directions.

Infinite numbers are the strings "inf" and "-inf", bytes are hexadecimal, enums their values, endpoints and routes
"name/transport". An event carries its class in `type` (`probe_failed`); the event log's own lines are `header` and
`gap`. Lines are pure ASCII, so a line cut anywhere never reads as a whole one.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn, TypeVar, cast, get_args

import attrs
import cattrs
from cattrs.v import format_exception

from ..config.schema import Config, Transport
from .events import ConfigApplied, Event
from .model import Endpoint, PassiveFailure, RouteKey, State

SCHEMA = 1  # one more whenever an older reader would misread a line

_Named = TypeVar("_Named", Endpoint, RouteKey)


class NotWhole(ValueError):
    """A line is no JSON: most likely it was cut off."""


@attrs.frozen(kw_only=True)
class Header:
    """The first line of an event log: the whole state that the events after it start from."""

    wall_ms: int
    state: State


@attrs.frozen(kw_only=True)
class Gap:
    """Says that `lost` lines are missing at this place of an event log."""

    lost: int


def type_name(event: Event) -> str:
    """The word for the event's class: `probe_failed`."""
    return _TYPE_NAMES[type(event)]


def event_to_json(event: Event) -> str:
    """One line, without its end, that `event_from_json` turns into an equal event."""
    kind = type(event)
    if kind is ConfigApplied:
        return f'{{"type":"{_TYPE_NAMES[kind]}",{"".join(_pieces(event))[1:]}'
    return _encode({"type": _TYPE_NAMES[kind], **_TO_FIELDS[kind](event)})


def event_from_json(line: str) -> Event:
    """The event of that line. *Errors:* ValueError, one sentence, for anything else than a whole event."""
    found = line_from_json(line)
    if isinstance(found, Header | Gap):
        raise ValueError(f"a {type(found).__name__.lower()} line is not an event")
    return found


def state_to_json(state: State) -> str:
    """One line, without its end, that `state_from_json` turns into an equal state."""
    return "".join(state_pieces(state))


def state_pieces(state: State) -> Iterator[str]:
    """The same in pieces, each made in well under a millisecond whatever the size of the state."""
    yield f'{{"schema":{SCHEMA},"state":'
    yield from _pieces(state)
    yield "}"


def state_from_json(line: str) -> State:
    """The state of that line. *Errors:* ValueError, one sentence, for anything else, a newer schema included."""
    return _state_from(_loads(line))


def header_to_json(state: State, wall_ms: int) -> str:
    """The line that starts an event log, or a new part of it."""
    return f'{{"type":"header","wall_ms":{wall_ms},{state_to_json(state)[1:]}'


def gap_to_json(lost: int) -> str:
    """The line that stands where `lost` lines of an event log are missing."""
    return _encode({"type": "gap", "lost": lost})


def line_from_json(line: str) -> Header | Gap | Event:
    """What one line of an event log says. *Errors:* ValueError, one sentence, for a damaged or unknown line."""
    fields = _loads(line)
    name = fields.pop("type", None)
    match name:
        case "header":
            return Header(wall_ms=_structured(fields.get("wall_ms"), int), state=_state_from(fields))
        case "gap":
            return _structured(fields, Gap)
        case str() if name in _TYPES:
            return cast("Event", _structured(fields, _TYPES[name]))
        case str():
            raise ValueError(f"unknown type {name[:64]!r}")
        case _:
            raise ValueError("the line has no type")


def _state_from(fields: dict[str, Any]) -> State:
    schema = fields.get("schema")
    if not isinstance(schema, int) or isinstance(schema, bool):
        raise ValueError("the line has no schema number")
    if schema > SCHEMA:
        raise ValueError(f"schema {schema} is newer than this sniffgate, which reads up to {SCHEMA}")
    if schema < 1:
        raise ValueError(f"there is no schema {schema}")
    return _structured(fields.get("state"), State)


# --- JSON itself ----------------------------------------------------------------------------------

_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False).encode


def _pieces(value: object) -> Iterator[str]:
    """The JSON of what may hold hundreds of nodes, node by node; of anything else, whole.

    The encoder holds the interpreter's lock until it is done: 6 ms for 500 nodes, and the gateway would stand still.
    """
    match value:
        case State() | Config() | ConfigApplied():
            opening = "{"
            for field in attrs.fields(type(value)):
                if field.init:
                    yield f"{opening}{_encode(field.name)}:"
                    yield from _pieces(getattr(value, field.name))
                    opening = ","
            yield "}"
        case Mapping():
            yield "{"
            for number, (key, each) in enumerate(value.items()):
                yield f"{',' * bool(number)}{_encode(str(key))}:{_encode(_converter.unstructure(each))}"
            yield "}"
        case tuple():
            yield "["
            for number, each in enumerate(value):
                yield f"{',' * bool(number)}{_encode(_converter.unstructure(each))}"
            yield "]"
        case _:
            yield _encode(_converter.unstructure(value))


def _refuse_constant(token: str) -> NoReturn:
    raise ValueError(f"{token} is not JSON")


_decode = json.JSONDecoder(parse_constant=_refuse_constant).decode


def _loads(line: str) -> dict[str, Any]:
    try:
        found = _decode(line)
    except json.JSONDecodeError as error:
        raise NotWhole(f"not a whole JSON line: {error.msg} at column {error.colno}") from error
    except RecursionError:
        raise ValueError("not a line of ours: nested too deeply") from None
    if not isinstance(found, dict):
        raise ValueError("not a JSON object")
    return found


# --- values ---------------------------------------------------------------------------------------

_Value = TypeVar("_Value")


def _structured(value: object, kind: type[_Value]) -> _Value:
    try:
        return _converter.structure(value, kind)
    except Exception as error:  # cattrs raises whatever its hooks and the classes' own checks raise, in groups
        raise ValueError("; ".join(cattrs.transform_error(error, kind.__name__, _in_words))) from error


def _in_words(error: BaseException, kind: type | None) -> str:
    return str(error) if type(error) is ValueError else format_exception(error, kind)


def _exactly(kind: type) -> Callable[[object, object], Any]:
    """A hook that takes `kind` and nothing that could be coerced to it (True is no int, "80" no number)."""

    def structure(value: object, _: object) -> Any:
        if type(value) is not kind:
            raise ValueError(f"expected {kind.__name__}, found {type(value).__name__}")
        return value

    return structure


def _float_to(value: float) -> float | str:
    return value if value - value == 0 else str(value)  # "inf", "-inf", "nan": JSON has no such numbers


def _float_from(value: object, _: object) -> float:
    if type(value) in (int, float) or value in ("inf", "-inf", "nan"):
        return float(cast("float", value))
    raise ValueError(f"expected a number, found {type(value).__name__}")


def _bytes_from(value: object, _: object) -> bytes:
    if not isinstance(value, str):
        raise ValueError(f"expected hexadecimal bytes, found {type(value).__name__}")
    return bytes.fromhex(value)


def _named_from(value: object, kind: type[_Named]) -> _Named:
    # A name may hold a slash, a transport never does.
    if not isinstance(value, str) or "/" not in value:
        raise ValueError("expected name/transport")
    name, _, transport = value.rpartition("/")
    return kind(name, Transport(transport))


def _failure_from(value: object, _: object) -> PassiveFailure:
    match value:
        case [at, (str() | None) as client]:
            return PassiveFailure(_float_from(at, float), client)
    raise ValueError("expected [at, client]")


def _failure_to(failure: PassiveFailure) -> list[object]:
    return [_float_to(failure.at), failure.client]


def _build_converter() -> cattrs.Converter:
    converter = cattrs.Converter(forbid_extra_keys=True)
    for kind in (int, str, bool):
        converter.register_structure_hook(kind, _exactly(kind))
    converter.register_structure_hook(float, _float_from)
    converter.register_unstructure_hook(float, _float_to)
    converter.register_structure_hook(bytes, _bytes_from)
    converter.register_unstructure_hook(bytes, bytes.hex)
    for named in (Endpoint, RouteKey):
        converter.register_structure_hook(named, _named_from)
        converter.register_unstructure_hook(named, str)
    converter.register_structure_hook(PassiveFailure, _failure_from)
    converter.register_unstructure_hook(PassiveFailure, _failure_to)
    return converter


_converter = _build_converter()
_EVENTS: tuple[type, ...] = get_args(Event)
_TYPE_NAMES = {kind: re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower() for kind in _EVENTS}
_TYPES = {name: kind for kind, name in _TYPE_NAMES.items()}
_TO_FIELDS = {kind: _converter.get_unstructure_hook(kind) for kind in _EVENTS}
