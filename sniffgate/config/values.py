"""One reader per kind of value: takes what TOML gave and returns what the schema wants, or says what is wrong.

Nothing is coerced: "80" and true are no numbers, 80.5 is no whole number. A reader raises ValueError with a
sentence that names the offending value, and nothing else.
"""

import enum
import re
from collections.abc import Callable, Iterable
from typing import Any

import attrs

from ..address import Address, parse_address
from .durations import parse_duration
from .schema import INFINITE

LONGEST = 365 * 86400.0  # seconds; longer is a slip of the pen, and "never" has its own words (0, inf)
LONGEST_NAME = 64  # characters
LONGEST_DATAGRAM = 65507  # bytes of payload that fit an IPv4 datagram
LONGEST_UNIX_PATH = 107  # bytes: sun_path is 108 with its closing NUL

NEW_NAME = re.compile(rf"[A-Za-z0-9._-]{{1,{LONGEST_NAME}}}\Z")
_SEPARATORS = str.maketrans("_-:", "   ")  # "0d:0a", as packet tools print it
LOG_LEVELS = ("error", "warn", "info", "debug", "trace")


@attrs.frozen
class Reader:
    """How the value of a key is read, and the range that the documentation states for it."""

    read: Callable[[object], Any]  # Any: this is where untyped TOML becomes typed
    range: str


def show(value: object) -> str:
    """A value as the file might have it, short enough for a line of complaint."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return clip(repr(value), 80)
        case int() if value.bit_length() > 128:  # printing may be refused by the interpreter (4300 digits)
            return f"an integer of {value.bit_length()} bits"
        case dict():  # never printed: it may be nested deeper than repr can follow
            return "a table"
        case list():
            return "an array"
        case _:
            return clip(str(value), 80)


def clip(text: str, longest: int) -> str:
    """`text`, cut to `longest` characters with an ellipsis in place of the rest."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that `word` was most likely meant to be, whatever its case; None when none is near."""
    from difflib import get_close_matches  # only a faulty file needs it

    by_folded = {name.casefold(): name for name in known}
    close = get_close_matches(word.casefold()[: 2 * LONGEST_NAME], list(by_folded), n=1, cutoff=0.6)
    return by_folded[close[0]] if close else None


def guess(word: str, known: Iterable[str]) -> str:
    """`; did you mean "..."?` for the nearest known word, or nothing."""
    near = nearest(word, known)
    return f"; did you mean {near!r}?" if near is not None else ""


def whole(lowest: int, highest: int) -> Reader:
    """A whole number between two bounds, both allowed."""

    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"must be a whole number, not {show(value)}")
        if not lowest <= value <= highest:
            raise ValueError(f"must be {lowest} to {highest}, not {show(value)}")
        return value

    return Reader(read, f"{lowest} to {highest}")


def duration(*, lowest_ms: int = 10, zero: bool = False, infinite: bool = False, longest: float = LONGEST) -> Reader:
    """Seconds from milliseconds or a duration string. `zero` and `infinite` let 0 and inf through."""
    bounds = f"{lowest_ms} ms to {longest / 86400:g} days" if lowest_ms else f"0 to {longest / 86400:g} days"
    bounds = f"0 or {bounds}" if zero and lowest_ms else bounds
    bounds = f"{bounds}, or inf" if infinite else bounds

    def read(value: object) -> float:
        seconds = _seconds(value)
        if (seconds == 0 and zero) or (seconds == INFINITE and infinite):
            return abs(seconds)  # never minus zero
        if not lowest_ms / 1000 <= seconds <= longest:  # false for NaN too
            raise ValueError(f"must be {bounds}, not {show(value)}")
        return abs(seconds)

    return Reader(read, bounds)


def _seconds(value: object) -> float:
    if isinstance(value, str):
        try:
            return parse_duration(value)
        except ValueError:
            sentence = f'must be a number of milliseconds or a duration such as "200ms", not {show(value)}'
            raise ValueError(sentence) from None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"must be a number of milliseconds or a duration string, not {show(value)}")
    if isinstance(value, int) and value.bit_length() > 128:  # would overflow a float, and is not meant as inf
        raise ValueError(f"must be a sensible number of milliseconds, not {show(value)}")
    return value / 1000


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"must be a string, not {show(value)}")
    return value


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"must be true or false, not {show(value)}")
    return value


def one_of(kind: type[enum.Enum]) -> Reader:
    """A member of an enumeration, by its value."""
    known = {member.value: member for member in kind}

    def read(value: object) -> enum.Enum:
        word = _string(value)
        if word not in known:
            choices = ", ".join(map(repr, known))
            raise ValueError(f"must be one of {choices}, not {show(word)}{guess(word, known)}")
        return known[word]

    return Reader(read, ", ".join(f'"{word}"' for word in known))


def _log_level(value: object) -> str:
    word = _string(value).lower()  # the original's logger takes any case
    word = "warn" if word == "warning" else word
    if word not in LOG_LEVELS:
        choices = ", ".join(map(repr, LOG_LEVELS))
        raise ValueError(f"must be one of {choices}, not {show(value)}{guess(word, LOG_LEVELS)}")
    return word


def _name(value: object) -> str:
    word = _string(value)
    if not 1 <= len(word) <= LONGEST_NAME:
        raise ValueError(f"must be 1 to {LONGEST_NAME} characters long, not {len(word)}: {show(word)}")
    if not word.isprintable():
        raise ValueError(f"must be printable, unlike {show(word)}")
    return word


def _path(value: object) -> str:
    word = _string(value)
    if "\0" in word:
        raise ValueError(f"must be a path without NUL, not {show(word)}")
    return word


def _octets(value: object) -> bytes:
    word = _string(value)
    octets = word.encode()
    if word.startswith("hex:"):
        try:
            octets = bytes.fromhex(word[4:].translate(_SEPARATORS))
        except ValueError:
            raise ValueError(f"must be pairs of hexadecimal digits after 'hex:', not {show(word)}") from None
    if len(octets) > LONGEST_DATAGRAM:
        raise ValueError(f"must be at most {LONGEST_DATAGRAM} bytes long, not {len(octets)}")
    return octets


def _address(value: object, *, listening: bool) -> Address:
    word = _string(value)
    try:
        return parse_address(word, listening=listening)
    except ValueError as error:
        raise ValueError(clip(str(error), 240)) from None


def _node_address(value: object) -> Address | None:
    return None if value == "" else _address(value, listening=False)


def _admin_address(value: object) -> str:
    word = _path(value)
    if not word.startswith("unix:"):
        if word:
            _address(word, listening=True)
        return word
    path = word.removeprefix("unix:")
    if not path.startswith("/") or path.endswith("/"):
        raise ValueError(f"must be unix: and the absolute path of a socket, not {show(word)}")
    if len(path.encode()) > LONGEST_UNIX_PATH:
        raise ValueError(
            f"must have a path of at most {LONGEST_UNIX_PATH} bytes, not {len(path.encode())}: {show(word)}"
        )
    return word


FLAG = Reader(_flag, "true, false")
TEXT = Reader(_string, "any text")
NAME = Reader(_name, f"1 to {LONGEST_NAME} characters")
POOL = Reader(_name, "`default` or the name of a pool")
PATH = Reader(_path, "a path, empty = off")
OCTETS = Reader(_octets, f"text or `hex:…`, at most {LONGEST_DATAGRAM} bytes")
LISTEN = Reader(lambda value: _address(value, listening=True), "`host:port`, `[v6]:port`, `:port`; port 0 = any free")
NODE_ADDRESS = Reader(_node_address, "`host:port`, `[v6]:port`")
ADMIN = Reader(_admin_address, "`host:port`, `unix:/path`, empty = off")
LOG_LEVEL = Reader(_log_level, ", ".join(f'"{word}"' for word in LOG_LEVELS))
COUNT = whole(1, 1_000_000)
