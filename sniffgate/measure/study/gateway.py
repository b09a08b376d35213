"""A gateway under test: a fresh process of any program that takes the file, and what it says of itself."""

import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

from ..processes import Child
from .artifact import Setting
from .clients import Door
from .control import LIMIT, Control, Reply, dig, node_of
from .nodes import HOST, Node, clock, free_port
from .scenario import TrialFailed
from .tuning import table

T = TypeVar("T")
POLL = 0.0005  # seconds between two looks at the gateway
CONFIG = "{config}"  # where a command has the configuration file
DEFAULT_COMMAND = f"python -m sniffgate run -c {CONFIG}"  # this package's own gateway, on the Python that runs this


class Gateway:
    """A started gateway with one listener over TCP and one over UDP, and one control connection. *Closes:* `with`.

    `door` is where clients come in, over both.
    """

    def __init__(
        self, command: str, settings: Mapping[str, Setting], nodes: str, folder: Path, doors: str = ""
    ) -> None:
        """Starts it and waits until it is open. `nodes`, `doors`: tables of the file. Errors: `TrialFailed`."""
        self.door = Door(free_port())
        self.admin, self.folder, self.path = free_port(), folder, folder / "gateway.toml"
        folder.mkdir(parents=True, exist_ok=True)
        head = table("[global]", {"admin_listen": f"{HOST}:{self.admin}", **settings})
        doors += "".join(
            table("[[listeners]]", {"name": each, "protocol": each, "listen": f"{HOST}:{self.door.port}"})
            for each in ("tcp", "udp")
        )
        self._head = head + doors
        self.write(nodes)
        words = [word.replace(CONFIG, str(self.path)) for word in shlex.split(command)]
        if command == DEFAULT_COMMAND:
            words[0] = sys.executable
        self.started = clock()
        self.child = Child(words, folder=folder, stays=True)  # a path in the command is one from here
        try:
            self.control = self._control_soon()
            self.control_open = clock() - self.started
            self._door_soon()
            self.data_open = clock() - self.started
        except BaseException:
            self.child.end()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.control.close()
        self.child.process.kill()
        self.child.end()

    def write(self, nodes: str | Sequence[Node]) -> float:
        """Writes the file anew, with these nodes (or these tables); when that was done."""
        text = nodes if isinstance(nodes, str) else "".join(node.table() for node in nodes)
        self.configuration = self._head + text
        self.path.write_text(self.configuration)
        return clock()

    def log(self) -> str:
        """What it has written on stderr."""
        return (self.folder / "stderr.log").read_text(errors="replace")

    def ask(self, line: str) -> Reply:
        """The reply to one command. Errors: see `Control.ask`."""
        return self.control.ask(line)

    def status(self) -> Reply:
        """What it says of itself."""
        return self.ask("status")

    def node(self, name: str) -> Reply:
        """What it says of a node."""
        return node_of(self.status(), name)

    def until(self, condition: Callable[[Reply], Any], what: str, within: float = LIMIT) -> float:
        """Asks for the status until it fulfils `condition`; when the first such answer had come.

        Errors: `TrialFailed` after `within` seconds, saying that `what` did not happen.
        """
        give_up = clock() + within
        while not condition(self.status()):
            if clock() > give_up:
                raise TrialFailed(f"{what} did not happen within {within:g} s")
            time.sleep(POLL)
        return clock()

    def until_active(self, name: str, transport: str = "tcp", within: float = LIMIT) -> float:
        """When it says that new traffic goes to a node. What it says is checked against traffic by `claims`."""
        what = f"the switch to {name} over {transport}"
        return self.until(lambda status: dig(status, "active", transport) == name, what, within)

    def until_healthy(self, *names: str) -> float:
        """When it says that these nodes are healthy, each after a probe of its own."""
        return self.until(
            lambda status: all(_is_probed(node_of(status, name)) for name in names), f"health of {', '.join(names)}"
        )

    def memory(self) -> int:
        """Resident bytes."""
        return self.child.memory()

    def processor_time(self) -> float:
        """Seconds of processor it has spent so far."""
        return self.child.processor_time()

    def _control_soon(self) -> Control:
        return self._soon(lambda: Control(self.admin), "open its control port")

    def _door_soon(self) -> None:
        self._soon(self.door.connect, "open its TCP listener").close()

    def _soon(self, attempt: Callable[[], T], what: str) -> T:
        give_up = clock() + LIMIT
        while True:
            try:
                return attempt()
            except OSError:
                if self.child.process.poll() is not None:
                    raise TrialFailed(f"the gateway ended at its start: {self.last_words()}") from None
                if clock() > give_up:
                    raise TrialFailed(f"the gateway did not {what} within {LIMIT:g} s") from None
                time.sleep(POLL)

    def last_words(self) -> str:
        """The last line that it wrote on stderr."""
        lines = self.log().strip().splitlines()
        return lines[-1] if lines else "it said nothing"


def _is_probed(node: Reply) -> bool:
    return bool(dig(node, "healthy")) and bool(node.get("last_probe_ms", True)) and node.get("state") != "unknown"
