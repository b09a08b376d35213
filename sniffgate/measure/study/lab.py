"""What one trial works with: fresh processes that end with it, and a place to put what it saw."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from . import claims
from .artifact import Observation, Setting, Value
from .gateway import Gateway
from .nodes import Node
from .scenario import Absent, ArmPlan, ScenarioPlan
from .tuning import TUNING, split


class Lab:
    """One trial. *Closes:* with `with`, every process that was started through it."""

    def __init__(self, plan: ScenarioPlan, arm: ArmPlan, command: str, folder: Path) -> None:
        self.arm, self.command, self.folder = arm, command, folder
        own, self._of_nodes = split(plan.settings(arm))
        self.settings: dict[str, Setting] = {**TUNING, **own}  # [global], as every gateway of this arm gets it
        self.observations: dict[str, Observation] = {}
        self.absences: dict[str, str] = {}
        self.notes: list[str] = []
        self.configuration: str | None = None
        self._nodes: list[Node] = []
        self._gateways: list[Gateway] = []
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._stack.close()

    @property
    def parameters(self) -> dict[str, Setting]:
        """What the harness is to do differently in this arm."""
        return dict(self.arm.parameters)

    def setting(self, key: str) -> float:
        """A number of `[global]` in this arm."""
        value = self.settings[key]
        assert isinstance(value, int | float)
        return value

    def node(self, name: str, **fields: Setting) -> Node:
        """Starts a node; `fields` are keys of its table, over those that the arm gives every node."""
        self._nodes.append(self._stack.enter_context(Node(name, {**self._of_nodes, **fields})))
        return self._nodes[-1]

    def gateway(self, nodes: Sequence[Node] | str, doors: str = "", **settings: Setting) -> Gateway:
        """Starts the gateway under test before these nodes, or their tables. `doors`: more tables, for the listeners.

        Errors: `TrialFailed` when it does not start.
        """
        tables = nodes if isinstance(nodes, str) else "".join(node.table() for node in nodes)
        folder = self.folder / f"gateway-{len(list(self.folder.iterdir()))}"
        gateway = Gateway(self.command, {**self.settings, **settings}, tables, folder, doors)
        self.configuration = self.configuration or gateway.configuration
        self._gateways.append(self._stack.enter_context(gateway))
        return gateway

    def record(self, key: str, unit: str, *values: Value) -> None:
        """Adds raw values to an observation; none are none."""
        if not values:
            return
        if key in self.observations:
            self.observations[key].values.extend(values)
        else:
            self.observations[key] = Observation(unit, list(values))

    def note(self, sentence: str) -> None:
        """Adds what a reader should know of this trial."""
        self.notes.append(sentence)

    def absent(self, key: str, reason: str) -> None:
        """Says that this gateway has no such observation, and why."""
        self.absences[key] = reason

    @contextlib.contextmanager
    def perhaps(self, *keys: str) -> Iterator[None]:
        """Within it the lack of something (`Absent`) only costs these observations, not the trial."""
        try:
            yield
        except Absent as lack:
            for key in keys:
                self.absent(key, str(lack))

    def check_active(self, gateway: Gateway, name: str, transport: str = "tcp") -> None:
        """Holds the claim that new traffic goes to a node against traffic. Errors: `Lied`."""
        claims.check_active(gateway, name, transport)

    def check_answers(self) -> None:
        """Holds the answers that clients had against what the nodes counted; after each trial. Errors: `Lied`."""
        for node in self._nodes:
            if node.is_up and node.starts == 1:  # what an earlier life of it counted died with it
                claims.check_answers(node, sum(gateway.door.met[node.name] for gateway in self._gateways))
