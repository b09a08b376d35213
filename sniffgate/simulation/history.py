"""What a history is made of: plain values that can be written down, read back and left out one by one."""

import attrs

FAULTS = (
    "kill", "freeze", "refuse", "black_hole", "unreachable", "power_off", "partition", "close_udp", "slow", "lossy",
    "reset_clients", "dns",
)  # fmt: skip
MOMENTARY = ("reset_clients",)  # over as soon as it has happened
COMMANDS = ("switch", "release", "enable", "disable", "drain", "mark_up", "mark_down", "mark_auto")
VISITS = ("ask", "chat", "leave")


@attrs.frozen
class Fault:
    """Something befalls a node, and takes the place of whatever it suffered from."""

    at: float
    node: str
    kind: str

    def __str__(self) -> str:
        return f"{self.node}: {self.kind}"


@attrs.frozen
class Recover:
    """A node is well again."""

    at: float
    node: str

    def __str__(self) -> str:
        return f"{self.node}: recover"


@attrs.frozen
class Order:
    """An operator's command. `seconds` is the timeout of a drain; None as configured."""

    at: float
    command: str
    node: str = ""
    seconds: float | None = None

    def __str__(self) -> str:
        drain = "" if self.seconds is None else f" within {self.seconds:g} s"
        return f"operator: {self.command} {self.node}".rstrip() + drain


@attrs.frozen
class Reload:
    """The configuration is applied anew, without the nodes named here."""

    at: float
    without: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"reload without {', '.join(self.without)}" if self.without else "reload of the whole file"


@attrs.frozen
class Visit:
    """A client comes to a listener: one question, or several for so many `seconds`, or leaves after the first."""

    at: float
    kind: str
    listener: str
    seconds: float = 0.0

    def __str__(self) -> str:
        lasting = f" for {self.seconds:g} s" if self.seconds else ""
        return f"client: {self.kind} at {self.listener}{lasting}"


Step = Fault | Recover | Order | Reload | Visit
KINDS: dict[str, type[Step]] = {
    "fault": Fault,
    "recover": Recover,
    "order": Order,
    "reload": Reload,
    "visit": Visit,
}
NAME_OF: dict[type[Step], str] = {kind: name for name, kind in KINDS.items()}


@attrs.frozen
class History:
    """What happens, and when. `seed` gives the order of tasks and the dice; times in seconds, steps in their order."""

    seed: int
    seconds: float
    latency: float = 0.0  # one way, between the gateway and each node
    steps: tuple[Step, ...] = ()
