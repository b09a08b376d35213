"""Events and states as strict JSON, one line each, exact in both directions.

Infinite numbers are the strings "inf" and "-inf", bytes are hexadecimal, enums their values, endpoints and routes
"name/transport". An event carries its class in `type` (`probe_failed`), and in an event log its number in `seq`
(`log_lines.py`). Lines are pure ASCII, so a line cut anywhere never reads as a whole one.
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

SCHEMA = 1  # of states: one more whenever an older reader would misread one

_Named = TypeVar("_Named", Endpoint, RouteKey)


class NotWhole(ValueError):
    """A line is no JSON: most likely it was cut off."""


def type_name(event: Event) -> str:
    """The word for the event's class: `probe_failed`."""
    return _TYPE_NAMES[type(event)]


def event_to_json(event: Event, seq: int | None = None) -> str:
    """One line, without its end, that `event_from_json` turns into an equal event. `seq` is its number in a log."""
    kind = type(event)
    head = {"type": _TYPE_NAMES[kind]} if seq is None else {"type": _TYPE_NAMES[kind], "seq": seq}
    if kind is ConfigApplied:
        return f"{encode(head)[:-1]},{''.join(_pieces(event))[1:]}"
    return encode({**head, **_TO_FIELDS[kind](event)})


def event_from_json(line: str) -> Event:
    """The event of that line. *Errors:* ValueError, one sentence, for anything else than a whole event."""
    fields = fields_of(line)
    if fields.get("type") in ("header", "gap"):
        raise ValueError(f"a {fields['type']} line is not an event")
    fields.pop("seq", None)
    return event_of(fields)


def event_of(fields: dict[str, Any]) -> Event:
    """The event that the fields of a line tell of. *Errors:* ValueError, one sentence."""
    match fields.pop("type", None):
        case str(name) if name in _TYPES:
            return cast("Event", structured(fields, _TYPES[name]))
        case str(name):
            raise ValueError(f"unknown type {name[:64]!r}")
        case _:
            raise ValueError("the line has no type")


def state_to_json(state: State) -> str:
    """One line, without its end, that `state_from_json` turns into an equal state."""
    return "".join(state_pieces(state))


def state_pieces(state: State, schema: int = SCHEMA) -> Iterator[str]:
    """The same in pieces, each made in well under a millisecond whatever the size of the state."""
    yield f'{{"schema":{schema},"state":'
    yield from _pieces(state)
    yield "}"


def state_from_json(line: str) -> State:
    """The state of that line. *Errors:* ValueError, one sentence, for anything else, a newer schema included."""
    return state_of(fields_of(line))


def state_of(fields: dict[str, Any], newest: int = SCHEMA) -> State:
    """The state that the fields of a line hold, of schema 1 to `newest`. *Errors:* ValueError, one sentence."""
    schema = fields.get("schema")
    if not isinstance(schema, int) or isinstance(schema, bool):
        raise ValueError("the line has no schema number")
    if schema > newest:
        raise ValueError(f"schema {schema} is newer than this sniffgate, which reads up to {newest}")
    if schema < 1:
        raise ValueError(f"there is no schema {schema}")
    return structured(fields.get("state"), State)


# --- JSON itself ----------------------------------------------------------------------------------

encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False).encode


def _pieces(value: object) -> Iterator[str]:
    """The JSON of what may hold hundreds of nodes, node by node; of anything else, whole.

    The encoder holds the interpreter's lock until it is done: 6 ms for 500 nodes, and the gateway would stand still.
    """
    match value:
        case State() | Config() | ConfigApplied():
            opening = "{"
            for field in attrs.fields(type(value)):
                if field.init:
                    yield f"{opening}{encode(field.name)}:"
                    yield from _pieces(getattr(value, field.name))
                    opening = ","
            yield "}"
        case Mapping():
            yield "{"
            for number, (key, each) in enumerate(value.items()):
                yield f"{',' * bool(number)}{encode(str(key))}:{encode(_converter.unstructure(each))}"
            yield "}"
        case tuple():
            yield "["
            for number, each in enumerate(value):
                yield f"{',' * bool(number)}{encode(_converter.unstructure(each))}"
            yield "]"
        case _:
            yield encode(_converter.unstructure(value))


def _refuse_constant(token: str) -> NoReturn:
    raise ValueError(f"{token} is not JSON")


_decode = json.JSONDecoder(parse_constant=_refuse_constant).decode


def fields_of(line: str) -> dict[str, Any]:
    """The object that a line holds. *Errors:* NotWhole for no JSON; ValueError for JSON that no line of ours is."""
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


def structured(value: object, kind: type[_Value]) -> _Value:
    """A value of that class from what JSON holds of it. *Errors:* ValueError, one sentence that says where."""
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
