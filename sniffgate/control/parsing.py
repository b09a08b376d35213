"""One request line into one command, in either form. Whatever is wrong with a line ends in one `CommandRefused`.

    switch node-b tcp
    {"cmd": "switch", "node": "node-b", "protocol": "tcp"}

The text form splits like a shell, so a name with spaces is quoted. Nothing here waits or takes long: the longest line
is parsed in about a millisecond.
"""

import difflib
import json
import math
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import NoReturn, TypeVar

import attrs

from ..config.schema import Transport
from ..errors import CommandRefused
from ..state.model import Mark
from .commands import (
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
from .words import MOST_EVENTS

LONGEST_QUOTED = 1024  # characters of a text line with quotes: the shell's grammar is read a character at a time
LONGEST_NAME = 64
LONGEST_TOKEN = 4096
LONGEST_DRAIN = 365 * 86400.0  # seconds
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_SHOWN = 40  # characters of a client's word that an answer repeats

_Word = TypeVar("_Word")
_Reader = Callable[[object, str], object]


@attrs.frozen
class _Argument:
    key: str  # in the JSON form; the text form has the arguments in this order
    read: _Reader
    optional: bool = False


def parse_line(line: bytes) -> Command:
    """The command on a line without its end. Errors: `CommandRefused` with a sentence to show, nothing else."""
    try:
        text = line.decode("utf-8").strip()
    except UnicodeDecodeError:
        raise CommandRefused("the line is not UTF-8") from None
    if "\0" in text:
        raise CommandRefused("the line has a NUL in it")
    if not text:
        raise CommandRefused("the line is empty; try help")
    return _from_json(text) if text.startswith("{") else _from_text(text)


def could_be_text(part: bytes) -> bool:
    """False when a line with this in it is no command whatever follows: it holds control characters."""
    return _CONTROL.search(part) is None


# --- the two forms --------------------------------------------------------------------------------


def _from_text(text: str) -> Command:
    word, *values = _split(text)
    name, arguments = _grammar(word)
    if len(values) > len(arguments):
        raise CommandRefused(f"{_shown(values[len(arguments)])} is too much; usage: {USAGE[name][0]}")
    given = {argument.key: value for argument, value in zip(arguments, values, strict=False)}
    return _build(name, arguments, given)


def _split(text: str) -> list[str]:
    if not any(char in text for char in "\"'\\"):
        return text.split()
    if len(text) > LONGEST_QUOTED:
        raise CommandRefused(f"a line with quotes may have {LONGEST_QUOTED} characters; JSON may have more")
    try:
        return shlex.split(text)
    except ValueError:
        raise CommandRefused("a quotation is not closed") from None


def _from_json(text: str) -> Command:
    found = _loads(text)
    word = found.pop("cmd", None)
    if not isinstance(word, str):
        raise CommandRefused('"cmd" is missing' if word is None else '"cmd" must be a string')
    name, arguments = _grammar(word)
    for key in found:
        if key not in {argument.key for argument in arguments}:
            raise CommandRefused(f"{name} has no key {_shown(key)}{_nearest(key, [each.key for each in arguments])}")
    return _build(name, arguments, {key: value for key, value in found.items() if value is not None})


def _loads(text: str) -> dict[str, object]:
    try:
        found = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise CommandRefused(f"not JSON: {error.msg} at character {error.pos + 1}") from None
    except RecursionError:
        raise CommandRefused("not a command: nested too deeply") from None
    except ValueError:  # an integer of thousands of digits
        raise CommandRefused("not a command: a number is too long") from None
    if not isinstance(found, dict):
        raise CommandRefused("not a command: a JSON object is expected")
    return found


def _unique(pairs: Iterable[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in pairs:
        if key in found:
            raise CommandRefused(f"the key {_shown(key)} is there twice")
        found[key] = value
    return found


def _refuse_constant(word: str) -> NoReturn:
    raise CommandRefused(f"not JSON: {word} is no number")


def _grammar(word: str) -> tuple[str, tuple[_Argument, ...]]:
    try:
        return word, _ARGUMENTS[word]
    except KeyError:
        near = _nearest(word.lower(), _ARGUMENTS)
        raise CommandRefused(f"unknown command {_shown(word)}{near or '; try help'}") from None


def _build(name: str, arguments: tuple[_Argument, ...], given: Mapping[str, object]) -> Command:
    values = []
    for argument in arguments:
        if argument.key in given:
            values.append(argument.read(given[argument.key], argument.key))
        elif not argument.optional:
            raise CommandRefused(f"{argument.key} is missing; usage: {USAGE[name][0]}")
    return _BUILDERS[name](*values)


# --- arguments ------------------------------------------------------------------------------------


def _name(value: object, key: str) -> str:
    if not isinstance(value, str):
        raise CommandRefused(f"{key} must be a string")
    if not value or len(value) > LONGEST_NAME or not value.isprintable():
        raise CommandRefused(f"{key} must be a name of at most {LONGEST_NAME} printable characters")
    return value


def _token(value: object, key: str) -> str:
    if not isinstance(value, str) or len(value) > LONGEST_TOKEN:
        raise CommandRefused(f"{key} must be a string of at most {LONGEST_TOKEN} characters")
    return value


def _one_of(words: Mapping[str, _Word]) -> Callable[[object, str], _Word]:
    def read(value: object, key: str) -> _Word:
        if isinstance(value, str) and value in words:
            return words[value]
        raise CommandRefused(f"{key} must be {', '.join(list(words)[:-1])} or {list(words)[-1]}, not {_shown(value)}")

    return read


def _seconds(value: object, key: str) -> float:
    sentence = f"{key} must be a number of seconds from 0 to {LONGEST_DRAIN:.0f}, or inf, not {_shown(value)}"
    if value == "inf":
        return math.inf
    if isinstance(value, str) and len(value) <= 32 and value.isascii() and value.replace(".", "", 1).isdigit():
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LONGEST_DRAIN:
        raise CommandRefused(sentence)
    return float(value)


def _count(value: object, key: str) -> int:
    sentence = f"{key} must be a whole number from 1 to {MOST_EVENTS}, not {_shown(value)}"
    if isinstance(value, str) and len(value) <= 8 and value.isascii() and value.isdigit():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_EVENTS:
        raise CommandRefused(sentence)
    return value


def _shown(value: object) -> str:
    """A client's word in an answer: short, quoted, and without anything that a terminal would obey."""
    if isinstance(value, str):
        return ascii(value if len(value) <= _SHOWN else value[:_SHOWN] + "...")
    if isinstance(value, bool) or value is None:
        return "true" if value else "null" if value is None else "false"
    if isinstance(value, int | float):
        return "that number" if isinstance(value, int) and abs(value) >= 10**18 else repr(value)
    return "a table" if isinstance(value, dict) else "a list"


def _nearest(word: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(word[:32], list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


_TRANSPORT = _one_of({"tcp": Transport.TCP, "udp": Transport.UDP})
_MARK = _one_of({"up": Mark.UP, "down": Mark.DOWN, "auto": None})
_NODE = _Argument("node", _name)
_PROTOCOL = _Argument("protocol", _TRANSPORT, optional=True)

_ARGUMENTS: dict[str, tuple[_Argument, ...]] = {
    "status": (),
    "stats": (),
    "reload": (),
    "switch": (_NODE, _PROTOCOL),
    "auto": (_PROTOCOL,),
    "enable": (_NODE,),
    "disable": (_NODE,),
    "drain": (_NODE, _Argument("seconds", _seconds, optional=True)),
    "health": (_NODE, _Argument("mark", _MARK)),
    "why": (_NODE,),
    "events": (_Argument("n", _count, optional=True),),
    "state": (),
    "help": (),
    "quit": (),
    "auth": (_Argument("token", _token),),
}

_BUILDERS: dict[str, Callable[..., Command]] = {
    "status": Status,
    "stats": Stats,
    "reload": Reload,
    "switch": Switch,
    "auto": Auto,
    "enable": Enable,
    "disable": Disable,
    "drain": Drain,
    "health": Health,
    "why": Why,
    "events": Events,
    "state": Snapshot,
    "help": Help,
    "quit": Quit,
    "auth": Auth,
}
