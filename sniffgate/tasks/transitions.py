"""Every transition is logged once, here, where old and new state stand side by side."""

import logging
import math
from collections.abc import Sequence

from ..state.difference import changed_health
from ..state.events import Event, OperatorReleased
from ..state.model import Override, State, Verdict
from ..state.verdict import NO_OVERRIDE

log = logging.getLogger("sniffgate")

_LOUD = (Verdict.UNHEALTHY,)
_MOST_NAMES = 8  # a longer list is shown by its first few: a line of hundreds of names is read by nobody
_FIRST_NAMES = 3


def log_transitions(before: State, event: Event, after: State) -> None:
    """Logs what differs: verdicts, switches, pins and the operator's wishes."""
    if after is before:
        return
    if after.health is not before.health:
        _log_verdicts(before, after)
    if after.overrides is not before.overrides:
        _log_wishes(before, after)
    if after.pins is not before.pins:
        _log_pins(before, event, after)
    if after.switches is not before.switches:
        _log_switches(before, after)


def names_in_words(names: Sequence[str]) -> str:
    """An active set as text, of bounded length: `a,b`, `nothing`, or `a, b, c and 497 more`."""
    if len(names) > _MOST_NAMES:
        return f"{', '.join(names[:_FIRST_NAMES])} and {len(names) - _FIRST_NAMES} more"
    return ",".join(names) or "nothing"


def _log_verdicts(before: State, after: State) -> None:
    new = [str(each) for each in changed_health(before, after) if each not in before.health]
    if new:  # one line: a file may bring hundreds, and while their lines are made no client is served
        log.info("%s %s new", names_in_words(new), "is" if len(new) == 1 else "are")
    for endpoint in changed_health(before, after):
        known, health = before.health.get(endpoint), after.health[endpoint]
        if known is None or known.verdict is health.verdict:
            continue
        level = logging.WARNING if health.verdict in _LOUD else logging.INFO
        error = f": {health.last_error}" if health.verdict is Verdict.UNHEALTHY and health.last_error else ""
        log.log(level, "%s is %s (was %s)%s", endpoint, health.verdict.value, known.verdict.value, error)


def _log_pins(before: State, event: Event, after: State) -> None:
    """A pin that goes without having been asked to is worth a warning: the operator's choice is overruled."""
    for key in sorted(before.pins.keys() | after.pins.keys(), key=str):
        was, now = before.pins.get(key), after.pins.get(key)
        if was == now:
            continue
        if now is not None:
            log.info("%s: pinned to %s", key, now)
        elif isinstance(event, OperatorReleased):
            log.info("%s: the pin on %s is released by the operator", key, was)
        else:
            log.warning("%s: the pin on %s is released", key, was)


def _log_switches(before: State, after: State) -> None:
    last_epoch = before.switches[-1].epoch if before.switches else 0
    for switch in after.switches:
        if switch.epoch <= last_epoch:
            continue
        log.warning(
            "%s: %s -> %s (%s, epoch %d)%s",
            switch.route,
            names_in_words(switch.before),
            names_in_words(switch.after),
            switch.reason.value,
            switch.epoch,
            f": {switch.detail}" if switch.detail else "",
        )


def _log_wishes(before: State, after: State) -> None:
    for name in sorted(before.overrides.keys() | after.overrides.keys()):
        if after.config.node(name) is None:
            continue  # the wish went with its node
        was, now = before.overrides.get(name, NO_OVERRIDE), after.overrides.get(name, NO_OVERRIDE)
        if was != now:
            log.info("%s: %s", name, _wish_in_words(now))


def _wish_in_words(wish: Override) -> str:
    words = []
    if wish.enabled is not None:
        words.append("enabled by the operator" if wish.enabled else "disabled by the operator")
    if wish.drain is not None:
        words.append("draining without end" if math.isinf(wish.drain) else f"draining for at most {wish.drain:g} s")
    if wish.mark is not None:
        words.append(f"marked {wish.mark.value} by the operator")
    return ", ".join(words) or "as configured"
