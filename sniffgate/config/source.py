"""From a file's bytes to TOML's values, with one clear sentence for everything that is no TOML file at all."""

import os
import re
import stat
import tomllib

from ..errors import ConfigError, Fault
from .locate import Lines, spelled
from .values import clip

LARGEST = 16 * 1024 * 1024  # bytes: a thousand times a large configuration

_AT = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)\Z")
_UTF32 = (b"\xff\xfe\x00\x00", b"\x00\x00\xfe\xff")
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


def read_file(path: str | os.PathLike[str], *, regular: bool = False) -> bytes:
    """The bytes of a configuration file. Raises ConfigError with one sentence when they cannot be had.

    With `regular` it waits for nobody and takes regular files only. That is asked of what was opened: a path may lead
    to something else a moment after it was looked at, and to open a pipe for reading waits for a writer.
    """
    name = os.fspath(path)
    try:
        with open(name, "rb", opener=_open_without_waiting if regular else None) as file:
            if regular and not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise _unusable(name, "is not a regular file: it cannot be read again")
            content = file.read(LARGEST + 1)  # bounded: the path may name a device that never ends
    except IsADirectoryError:
        raise _unusable(name, "is a directory, not a configuration file") from None
    except FileNotFoundError:
        raise _unusable(name, "there is no such file") from None
    except PermissionError:
        raise _unusable(name, "may not be read (permission denied)") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise _unusable(name, f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(content) > LARGEST:
        raise _unusable(name, f"is larger than {LARGEST // 1024 // 1024} MiB: not a configuration file")
    return content


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def decode(text: str | bytes, file: str) -> str:
    """The text of a file, without byte-order mark. Raises ConfigError when it is no text that TOML allows."""
    # a str is held to the same rules as a file: a lone surrogate, for one, cannot be UTF-8
    octets = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if octets.startswith(_UTF32) or octets.startswith(_UTF16) or _looks_like_utf16(octets):
        width = 32 if octets.startswith(_UTF32) else 16
        raise _unusable(file, f"is encoded as UTF-{width}: save it as UTF-8")
    octets = octets.removeprefix(b"\xef\xbb\xbf")
    nul = octets.find(0)
    if nul >= 0:
        raise _unusable(file, "holds a NUL byte: a binary or damaged file", _line(octets, nul))
    try:
        decoded = octets.decode("utf-8")
    except UnicodeDecodeError as error:
        message = f"is not UTF-8 text: byte 0x{octets[error.start]:02x}"
        raise _unusable(file, message, _line(octets, error.start)) from None
    if not decoded.strip():
        raise _unusable(file, "is empty: at least one [[listeners]] and one [[nodes]] table are needed")
    lone = re.search(r"\r(?!\n)", decoded)
    if lone is not None:
        message = "holds a carriage return without a line feed: end lines with LF or CR LF"
        raise _unusable(file, message, _line(octets, len(decoded[: lone.start()].encode())))
    return decoded


def parse(text: str, file: str) -> dict[str, object]:
    """The values of a TOML text. Raises ConfigError with the line of the first thing that is no TOML."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise _unusable(file, "is nested too deeply") from None
    except ValueError as error:  # TOMLDecodeError, or a number too long for the interpreter
        message = str(error)
    if not _AT.search(message):
        raise _unusable(file, "holds a number that is too long")
    raise ConfigError(_syntax_fault(message, text, file))


def _syntax_fault(message: str, text: str, file: str) -> Fault:
    lines = text.replace("\r\n", "\n").split("\n")
    if message.startswith("Cannot "):  # overwrite a value, declare a table twice, ...
        twice = Lines(text).twice
        if twice is not None:
            path, first, second = twice
            return Fault(file, second, spelled(path), f"given twice (first on line {first})")
    at = _AT.search(message)
    what = _AT.sub("", message)
    what = what[:1].lower() + what[1:]
    if at is None or at[1] is None:
        return Fault(file, len(text.rstrip().split("\n")), "", f"not valid TOML: {what} at the end of the file")
    line, column = int(at[1]), int(at[2])
    return Fault(
        file, line, "", f"not valid TOML: {what}, column {column} of {clip(repr(lines[line - 1].strip()), 80)}"
    )


def _looks_like_utf16(octets: bytes) -> bool:
    """True for UTF-16 without a mark: mostly ASCII, so that every other byte is NUL."""
    start = octets[:64]
    half = len(start) // 2
    return half >= 2 and max(start[0::2].count(0), start[1::2].count(0)) * 10 >= half * 8 and start.count(0) <= half + 1


def _line(octets: bytes, position: int) -> int:
    return octets.count(b"\n", 0, position) + 1


def _unusable(file: str, message: str, line: int = 0) -> ConfigError:
    return ConfigError(Fault(file, line, "", message))
