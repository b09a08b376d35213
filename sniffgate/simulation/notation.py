"""A history as JSON, to be kept and played again."""

import json
import math
import typing
from collections.abc import Mapping

import attrs

from ..config.schema import Config
from ..errors import SniffgateError
from .history import COMMANDS, FAULTS, KINDS, NAME_OF, VISITS, Fault, History, Order, Recover, Reload, Step, Visit

WORDS: Mapping[tuple[type[Step], str], tuple[str, ...]] = {
    (Fault, "kind"): FAULTS,
    (Order, "command"): COMMANDS,
    (Visit, "kind"): VISITS,
}


class HistoryInvalid(SniffgateError):
    """What was given is no history of this configuration; the message says where and why."""


def history_to_json(history: History) -> dict[str, typing.Any]:
    """The history as what `json` can write."""
    steps = [{"do": NAME_OF[type(step)], **attrs.asdict(step)} for step in history.steps]
    return {**attrs.asdict(history, recurse=False), "steps": steps}


def history_from_json(text: str, config: Config) -> History:
    """The history that `text` is. Errors: `HistoryInvalid`, with the key."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise HistoryInvalid(f"is not JSON: {error}") from error
    fields = _fields(History, found, "")
    if not isinstance(fields["steps"], list):
        raise HistoryInvalid("steps: must be a list")
    steps = tuple(_step(each, f"steps[{number}]", config) for number, each in enumerate(fields["steps"]))
    late = next((number for number in range(1, len(steps)) if steps[number].at < steps[number - 1].at), None)
    if late is not None:
        raise HistoryInvalid(f"steps[{late}].at: must not be earlier than the step before")
    history = History(**{**fields, "steps": steps})
    if history.seconds <= 0:
        raise HistoryInvalid("seconds: must be more than 0")
    return history


def _step(found: object, where: str, config: Config) -> Step:
    if not isinstance(found, dict):
        raise HistoryInvalid(f"{where}: must be an object")
    kind = KINDS.get(str(found.get("do")))
    if kind is None:
        raise HistoryInvalid(f"{where}.do: must be one of {', '.join(KINDS)}")
    fields = _fields(kind, {key: value for key, value in found.items() if key != "do"}, f"{where}.")
    for key, words in ((key, words) for (owner, key), words in WORDS.items() if owner is kind):
        if fields[key] not in words:
            raise HistoryInvalid(f"{where}.{key}: must be one of {', '.join(words)}")
    step = kind(**fields)
    _check_names(step, where, config)
    return step


def _check_names(step: Step, where: str, config: Config) -> None:
    match step:
        case Fault(node=node) | Recover(node=node):
            key, unknown = "node", config.node(node) is None
        case Order(node=node):
            key, unknown = "node", config.node(node) is None and step.command != "release"
        case Reload(without=without):
            key, unknown = "without", any(config.node(each) is None for each in without)
        case Visit(listener=listener):
            key, unknown = "listener", all(each.name != listener for each in config.listeners)
    if unknown:
        what = "listener" if key == "listener" else "node"
        raise HistoryInvalid(f"{where}.{key}: the configuration has no such {what}")


def _fields(kind: type[attrs.AttrsInstance], found: object, where: str) -> dict[str, typing.Any]:
    """The values of a class's fields, each of the type that the class says."""
    if not isinstance(found, dict):
        raise HistoryInvalid(f"{where.rstrip('.') or 'the whole'}: must be an object")
    types = typing.get_type_hints(kind)
    values = {}
    for field in attrs.fields(kind):
        if field.name in found:
            values[field.name] = _value(types[field.name], found[field.name], where + field.name)
        elif field.default is attrs.NOTHING:
            raise HistoryInvalid(f"{where}{field.name}: is missing")
        else:
            values[field.name] = field.default
    unknown = next((key for key in found if key not in values), None)
    if unknown is not None:
        raise HistoryInvalid(f"{where}{unknown}: is no key of a history")
    return values


def _value(wanted: object, value: object, where: str) -> object:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if wanted is str and not isinstance(value, str):
        raise HistoryInvalid(f"{where}: must be text")
    if wanted is int and not (isinstance(value, int) and not isinstance(value, bool)):
        raise HistoryInvalid(f"{where}: must be a whole number")
    if wanted in (float, float | None):
        if value is None and wanted is not float:
            return None
        if not is_number or typing.cast("float", value) < 0:
            raise HistoryInvalid(f"{where}: must be a number of seconds, 0 or more")
        return float(typing.cast("float", value))
    if wanted == tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise HistoryInvalid(f"{where}: must be a list of texts")
        return tuple(value)
    return value
