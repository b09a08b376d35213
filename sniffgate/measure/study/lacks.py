"""What the gateway under test does not take from the file: found out by starting it, never guessed."""

import tempfile
from collections.abc import Mapping
from pathlib import Path

from .artifact import Setting
from .gateway import DEFAULT_COMMAND, Gateway
from .nodes import Node
from .scenario import TrialFailed
from .tuning import NODES, TUNING, new_keys, split

NONSENSE = "no_gateway_knows_this_key"


class Abilities:
    """Which keys beyond the common ones it takes. Each is tried once, with a process of its own."""

    def __init__(self, command: str) -> None:
        self._command = command
        self._knows_all = command == DEFAULT_COMMAND
        self._lacks: dict[str, str | None] = {}
        self._ignores_nonsense: bool | None = None

    def lack_of(self, overrides: Mapping[str, Setting]) -> str | None:
        """Why an arm with these overrides cannot be measured; None when it can."""
        if self._knows_all:
            return None
        for key in new_keys(overrides):
            if key not in self._lacks:
                self._lacks[key] = self._try(key, overrides[key])
            if self._lacks[key]:
                return self._lacks[key]
        return None

    def _try(self, key: str, value: Setting) -> str | None:
        if self._ignores_nonsense is None:
            self._ignores_nonsense = self._refusal({NONSENSE: 1}) is None
        if self._ignores_nonsense:
            return f"it ignores keys that it does not know, so {key.removeprefix(NODES)} cannot be relied upon"
        refusal = self._refusal({key: value})
        return None if refusal is None else f"it does not take {key.removeprefix(NODES)}: {refusal}"

    def _refusal(self, overrides: Mapping[str, Setting]) -> str | None:
        own, of_nodes = split(overrides)
        with Node("node-a", of_nodes) as node, tempfile.TemporaryDirectory(prefix="sniffgate-study-") as folder:
            try:
                Gateway(self._command, {**TUNING, **own}, node.table(), Path(folder)).__exit__()
            except TrialFailed as error:
                return str(error)
        return None
