"""Importing an edited module in the place of the one in the file."""

import importlib.abc
import importlib.machinery
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from types import CodeType, ModuleType


class Replacement(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives the edited module to whoever imports it."""

    def __init__(self, name: str, code: CodeType, path: Path) -> None:
        self._name = name
        self._code = code
        self._path = path

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The module's, for its own name; None for any other."""
        del path, target
        if fullname != self._name:
            return None
        return importlib.util.spec_from_file_location(fullname, self._path, loader=self)

    def exec_module(self, module: ModuleType) -> None:
        """Runs the edited code."""
        exec(self._code, module.__dict__)
