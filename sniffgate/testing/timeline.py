"""What happened in a gateway, as lines for a person whose test has failed."""

from collections import deque

from ..state.events import (
    ConfigApplied,
    Event,
    ForwardFailed,
    ForwardSucceeded,
    OperatorDisabled,
    OperatorDrained,
    OperatorEnabled,
    OperatorMarked,
    OperatorReleased,
    OperatorSwitched,
    ProbeFailed,
    ProbeSilent,
    ProbeSucceeded,
    TimePassed,
    TripwireFired,
)
from ..state.model import State, Switch
from ..tasks.transitions import names_in_words

KEPT = 200  # lines
SHOWN = 20

Line = tuple[float, str]  # gateway seconds, and what happened


class Timeline:
    """The latest evidence and what followed from it; `observe` is an observer of the hub.

    Good probes that change nothing are left out: there is one a second for each endpoint, and they explain nothing.
    """

    def __init__(self) -> None:
        self._lines: deque[Line] = deque(maxlen=KEPT)

    def observe(self, before: State, event: Event, after: State) -> None:
        """Notes an event, and each verdict and active set that it changed."""
        consequences = [*_verdicts(before, after), *_switches(before, after)]
        evidence = _in_words(event)
        if evidence and (consequences or not isinstance(event, ProbeSucceeded | ProbeSilent)):
            self._lines.append((max(after.now, event.at), evidence))  # what changes nothing leaves the old time
        self._lines.extend((after.now, f"  {line}") for line in consequences)

    def tell(self, at: float, what: str) -> None:
        """Adds a line of the caller's own: what was done to a node, say."""
        self._lines.append((at, what))

    def last(self, count: int = SHOWN) -> tuple[Line, ...]:
        """The last lines, oldest first."""
        return tuple(self._lines)[-count:]


def lines_of_switches(state: State) -> tuple[Line, ...]:
    """What is known without a timeline: the switches that the state remembers."""
    return tuple((switch.at, _switch_in_words(switch)) for switch in state.switches[-SHOWN:])


def _verdicts(before: State, after: State) -> list[str]:
    if after.health is before.health:
        return []
    return [
        f"{endpoint} is {health.verdict.value} (was {before.health[endpoint].verdict.value})"
        for endpoint, health in after.health.items()
        if endpoint in before.health and health.verdict is not before.health[endpoint].verdict
    ]


def _switches(before: State, after: State) -> list[str]:
    last = before.switches[-1].epoch if before.switches else 0
    return [_switch_in_words(switch) for switch in after.switches if switch.epoch > last]


def _switch_in_words(switch: Switch) -> str:
    because = f": {switch.detail}" if switch.detail else ""
    names = f"{names_in_words(switch.before)} -> {names_in_words(switch.after)}"
    return f"{switch.route}: {names} ({switch.reason.value}){because}"


def _in_words(event: Event) -> str:
    match event:
        case ProbeSucceeded():
            return f"{event.endpoint}: probe answered after {event.latency * 1000:.0f} ms"
        case ProbeFailed():
            return f"{event.endpoint}: probe failed: {event.error}"
        case ProbeSilent():
            return f"{event.endpoint}: probe not answered, not refused either"
        case ForwardSucceeded():
            return f"{event.endpoint}: traffic got through"
        case ForwardFailed():
            return f"{event.endpoint}: traffic failed: {event.kind.value}"
        case TripwireFired():
            return f"{event.endpoint}: connection broken by the node"
        case TimePassed():
            return "a moment came that the state waited for"
        case ConfigApplied():
            return "a configuration was applied"
        case OperatorReleased():
            return "operator: automatic choice"
        case OperatorMarked():
            return f"operator: {event.node} marked {event.mark.value if event.mark else 'auto'}"
        case OperatorDrained() if event.timeout is not None:
            return f"operator: drain {event.node} within {event.timeout:g} s"
        case OperatorSwitched() | OperatorEnabled() | OperatorDisabled() | OperatorDrained():
            return f"operator: {type(event).__name__.removeprefix('Operator').lower()} {event.node}"
