"""What can be asked of a gateway: one frozen value for each command, and how each is written."""

import attrs

from ..config.schema import Transport
from ..state.model import Mark
from .words import MOST_EVENTS

USUAL_EVENTS = 100


@attrs.frozen
class Status:
    """Everything about nodes, routes and listeners."""


@attrs.frozen
class Stats:
    """The counters of the whole gateway."""


@attrs.frozen
class Reload:
    """Read the configuration file and put it in force."""


@attrs.frozen
class Switch:
    """Pin a node; `transport` None is each one it has."""

    node: str
    transport: Transport | None = None


@attrs.frozen
class Auto:
    """Back to automatic choice; `transport` None is both."""

    transport: Transport | None = None


@attrs.frozen
class Enable:
    """Let a node have traffic; undoes disable and drain."""

    node: str


@attrs.frozen
class Disable:
    """Keep new traffic from a node."""

    node: str


@attrs.frozen
class Drain:
    """Disable a node with a deadline of its own: `seconds` (0 = now, inf = never), None as configured."""

    node: str
    seconds: float | None = None


@attrs.frozen
class Health:
    """Declare a node up or down; `mark` None gives it back to the evidence."""

    node: str
    mark: Mark | None


@attrs.frozen
class Why:
    """Explain why a node is or is not active."""

    node: str


@attrs.frozen
class Events:
    """The last `count` transitions."""

    count: int = USUAL_EVENTS


@attrs.frozen
class Snapshot:
    """The whole routing state, as the event log writes it, and the flows in progress: what a plan is made from."""


@attrs.frozen
class Help:
    """List the commands."""


@attrs.frozen
class Quit:
    """Close the connection."""


@attrs.frozen
class Auth:
    """Show the token."""

    token: str = attrs.field(repr=False)


Command = (
    Status
    | Stats
    | Reload
    | Switch
    | Auto
    | Enable
    | Disable
    | Drain
    | Health
    | Why
    | Events
    | Snapshot
    | Help
    | Quit
    | Auth
)

# the text form of each command, and what it does, in the order that help shows
USAGE = {
    "status": ("status", "nodes, routes, listeners, the last reload and recent switches"),
    "stats": ("stats", "counters of the whole gateway"),
    "reload": ("reload", "read the configuration file and put it in force"),
    "switch": ("switch NODE [tcp|udp]", "pin NODE as the active one"),
    "auto": ("auto [tcp|udp]", "release pins; a better node that waits takes over"),
    "enable": ("enable NODE", "let NODE have traffic; undoes disable and drain"),
    "disable": ("disable NODE", "keep new traffic from NODE; its flows drain as configured"),
    "drain": ("drain NODE [SECONDS|inf]", "disable NODE and give its flows that long"),
    "health": ("health NODE up|down|auto", "overrule the evidence about NODE, or stop doing so"),
    "why": ("why NODE", "why NODE is or is not active, and what would change that"),
    "events": ("events [N]", f"the last N transitions, {USUAL_EVENTS} unless given, {MOST_EVENTS} at most"),
    "state": ("state", "the whole routing state and the flows in progress, for `sniffgate plan` and for diagnosis"),
    "help": ("help", "this list"),
    "quit": ("quit", "close the connection"),
    "auth": ("auth TOKEN", "show the token; the first line where one is needed"),
}
