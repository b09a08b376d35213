"""A table of names that says what it has when it is asked for something else."""

import difflib
from collections.abc import Iterable, Mapping
from typing import NoReturn, TypeVar

Value = TypeVar("Value")


class UnknownName(KeyError):
    """A test named something that is not there. The message is a sentence with the names that are, and the nearest."""

    def __str__(self) -> str:
        return str(self.args[0])  # a KeyError would show it in quotes


class Known(dict[str, Value]):
    """A dict whose missing keys are a sentence. Errors: `UnknownName`, a `KeyError`, as from any dict."""

    def __init__(self, kind: str, known: Mapping[str, Value] | None = None) -> None:
        """`kind` is what the names are names of, in the singular."""
        super().__init__(known or {})
        self._kind = kind

    def __missing__(self, name: str) -> NoReturn:
        raise UnknownName(unknown(self._kind, name, self))


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """The sentence: there is no such name, those that there are, and the nearest of them."""
    names = list(known)
    there = f"there are {', '.join(names)}" if len(names) > 1 else f"there is {names[0]}" if names else "there are none"
    near = difflib.get_close_matches(str(name), names, n=1)
    return f"no {kind} {name!r}; {there}" + (f"; did you mean {near[0]!r}?" if near else "")
