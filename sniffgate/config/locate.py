"""On which line of a TOML text each key stands.

tomllib gives values without lines, and tomlkit's items carry none either. So the text is walked once more, knowing
only what decides where a key begins: strings, comments, brackets. The text is taken to be valid (tomllib has
read it); on one that is not, the walk ends early with what it has seen.
"""

import contextlib
import re
import tomllib

Path = tuple[str | int, ...]

_DEEPEST = 6  # keys below that are never complained about; dotted keys may be absurdly long

_GAP = re.compile(r"(?:[ \t\r\n]++|#[^\n]*+)*+")
_GAP_OR_COMMA = re.compile(r"(?:[ \t\r\n,]++|#[^\n]*+)*+")
_BASIC = r'"(?:[^"\\\n]|\\.)*+"'
_LITERAL = r"'[^'\n]*+'"
_KEY = re.compile(rf"[ \t]*+({_BASIC}|{_LITERAL}|[A-Za-z0-9_-]++)[ \t]*+")
# a multi-line string may end in up to two quotes of its own before the closing three
_SCALAR = re.compile(
    rf'"""(?:[^"\\]|\\.|"(?!""))*+""""{{0,2}}+|\'\'\'.*?\'\'\'\'{{0,2}}+|{_BASIC}|{_LITERAL}|[^,\]}}\n#]++', re.DOTALL
)


class Lines:
    """The line of every key path in `text`, and the first key that is given twice."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._lines: dict[Path, int] = {}
        self._lengths: dict[Path, int] = {}  # of arrays of tables
        self._complete: set[Path] = set()  # keys with a value and table headers: these may stand once only
        self._counted = (0, 1)  # a position, and the line it is on
        self.twice: tuple[Path, int, int] | None = None  # path, first line, second line
        with contextlib.suppress(_Lost, IndexError, tomllib.TOMLDecodeError):
            self._walk()

    def of(self, path: Path) -> int:
        """The line of `path`, else of the nearest table around it; 0 for the whole file."""
        while path and path not in self._lines:
            path = path[:-1]
        return self._lines.get(path, 0)

    def _walk(self) -> None:
        text, table = self._text, Path()
        position = _match(_GAP, text, 0).end()
        while position < len(text):
            if text.startswith("[[", position):
                keys, end = self._keys(position + 2)
                table = (*self._resolve(keys[:-1]), keys[-1])
                self._mark(table, position)
                length = self._lengths[table] = self._lengths.get(table, 0) + 1
                table = (*table, length - 1)
                self._mark(table, position)
                position = end + 2
            elif text[position] == "[":
                keys, end = self._keys(position + 1)
                table = self._resolve(keys)
                self._mark(table, position, complete=True)
                position = end + 1
            else:
                position = self._value(*self._pair(table, position))
            position = _match(_GAP, text, position).end()

    def _pair(self, table: Path, position: int) -> tuple[Path, int]:
        """Marks the key that begins at `position`; returns its path and where its value begins."""
        keys, end = self._keys(position)
        for count in range(1, min(len(keys), _DEEPEST)):
            self._mark((*table, *keys[:count]), position)
        path = (*table, *keys)[:_DEEPEST]
        self._mark(path, position, complete=len(table) + len(keys) <= _DEEPEST)
        return path, _match(_GAP, self._text, end + 1).end()

    def _value(self, path: Path, position: int) -> int:
        """Walks the value of `path`, marking what stands inside; returns its end. A loop: arrays may nest deep."""
        text = self._text
        around: list[tuple[Path, bool]] = []  # the open brackets: path, and whether it is an inline table
        lengths: list[int] = []
        while True:
            if text[position] in "[{":
                around.append((path, text[position] == "{"))
                lengths.append(0)
                position += 1
            else:
                position = _match(_SCALAR, text, position).end()
            while around:
                position = _match(_GAP_OR_COMMA, text, position).end()
                if text[position] not in "]}":
                    break
                around.pop()
                lengths.pop()
                position += 1
            if not around:
                return position
            base, is_table = around[-1]
            if is_table:
                path, position = self._pair(base, position)
            else:
                path = (*base, lengths[-1])[:_DEEPEST]
                lengths[-1] += 1
                self._mark(path, position)

    def _keys(self, position: int) -> tuple[tuple[str, ...], int]:
        """The parts of the dotted key at `position`, and its end."""
        keys = []
        while True:
            part = _match(_KEY, self._text, position)
            keys.append(_unquoted(part[1]))
            position = part.end()
            if self._text[position] != ".":
                return tuple(keys), position
            position += 1

    def _resolve(self, keys: tuple[str, ...]) -> Path:
        """A header's path: below an array of tables it means the last one."""
        path = Path()
        for key in keys[:_DEEPEST]:
            path = (*path, key)
            if path in self._lengths:
                path = (*path, self._lengths[path] - 1)
        return path

    def _mark(self, path: Path, position: int, *, complete: bool = False) -> None:
        counted, line = self._counted
        line += self._text.count("\n", counted, position)
        self._counted = (position, line)
        first = self._lines.setdefault(path, line)
        if complete:
            if path in self._complete and self.twice is None:
                self.twice = (path, first, line)
            self._complete.add(path)


def spelled(path: Path) -> str:
    """A path as people write it: `nodes[1].tcp`."""
    words = []
    for part in path:
        if isinstance(part, int):
            words.append(f"[{part}]")
        else:
            bare = re.fullmatch(r"[A-Za-z0-9_-]{1,80}", part)
            words.append(("." if words else "") + (part if bare else repr(part[:80])))
    return "".join(words)


class _Lost(Exception):
    """The text is not the TOML it was taken for."""


def _match(pattern: re.Pattern[str], text: str, position: int) -> re.Match[str]:
    found = pattern.match(text, position)
    if found is None:
        raise _Lost
    return found


def _unquoted(key: str) -> str:
    if key[0] not in "\"'":
        return key
    return next(iter(tomllib.loads(f"{key} = 0")))  # escapes are TOML's own business
