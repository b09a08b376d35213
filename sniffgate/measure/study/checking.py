"""Reads plain JSON values into attrs classes, strictly: whatever does not fit is named by the path to it. Pure."""

import math
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal, get_args, get_origin

import attrs


class Mismatch(ValueError):
    """A value is not what it should be; the text begins with the path to it."""


def structure(wanted: Any, raw: object, path: str = "") -> Any:
    """A value of the type `wanted` from plain JSON. Errors: `Mismatch`, also for what was never asked for."""
    if attrs.has(wanted):
        return _structure_class(wanted, raw, path)
    origin, arguments = get_origin(wanted), get_args(wanted)
    if origin is dict:
        return {key: structure(arguments[1], value, _join(path, key)) for key, value in _mapping(raw, path).items()}
    if origin is list:
        if not isinstance(raw, list):
            raise _mismatch(path, "a list", raw)
        return [structure(arguments[0], value, f"{path}[{place}]") for place, value in enumerate(raw)]
    if origin is Literal:
        if raw not in arguments:
            raise _mismatch(path, "one of " + ", ".join(map(str, arguments)), raw)
        return raw
    allowed = arguments if origin in (types.UnionType, typing.Union) else (wanted,)
    classes = [each for each in allowed if attrs.has(each)]
    if classes and raw is not None:
        return _structure_class(classes[0], raw, path)
    return _structure_plain(allowed, raw, path)


def _structure_class(wanted: Any, raw: object, path: str) -> Any:
    values = _mapping(raw, path)
    hints = typing.get_type_hints(wanted)
    known = {field.name: field for field in attrs.fields(wanted)}
    for key in values:
        if key not in known:
            raise Mismatch(f"{_join(path, key)} is not a key of this schema")
    for key, field in known.items():
        if key not in values and field.default is attrs.NOTHING:
            raise Mismatch(f"{_join(path, key)} is missing")
    made = {key: structure(hints[key], value, _join(path, key)) for key, value in values.items()}
    try:
        return wanted(**made)
    except Mismatch as error:
        raise Mismatch(f"{_join(path, str(error))}") from None


def _structure_plain(allowed: tuple[Any, ...], raw: object, path: str) -> object:
    if isinstance(raw, float) and not math.isfinite(raw):
        raise Mismatch(f"{path} must be finite, not {raw}")
    for each in allowed:
        if each is Any or (each is float and type(raw) is int) or type(raw) is each:
            return raw
    names = {"str": "a text", "float": "a number", "int": "a whole number", "bool": "true or false", "NoneType": "null"}
    kinds = [each.__name__ for each in allowed if not (each is int and float in allowed)]
    words = " or ".join(names.get(kind, kind) for kind in kinds)
    raise _mismatch(path, words, raw)


def _mapping(raw: object, path: str) -> Mapping[str, object]:
    if not isinstance(raw, dict):
        raise _mismatch(path, "an object", raw)
    return raw


def _mismatch(path: str, wanted: str, raw: object) -> Mismatch:
    shown = repr(raw) if isinstance(raw, str | int | float | bool | None) else f"a {type(raw).__name__}"
    return Mismatch(f"{path or 'the whole'} must be {wanted}, not {shown[:60]}")


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
