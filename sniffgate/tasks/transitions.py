"""Every transition is logged once, here, where old and new state stand side by side."""

import logging

from ..state.events import Event
from ..state.model import Override, State, Verdict
from ..state.verdict import NO_OVERRIDE

log = logging.getLogger("sniffgate")

_LOUD = (Verdict.UNHEALTHY,)


def log_transitions(before: State, event: Event, after: State) -> None:
    """Logs what differs: verdicts, switches, pins and the operator's wishes."""
    if after is before:
        return
    if after.health is not before.health:
        _log_verdicts(before, after)
    if after.overrides is not before.overrides:
        _log_wishes(before, after)
    for key in before.pins.keys() - after.pins.keys():
        log.warning("%s: the pin on %s is released", key, before.pins[key])
    for key in after.pins.keys() - before.pins.keys():
        log.info("%s: pinned to %s", key, after.pins[key])
    if after.switches is not before.switches:
        _log_switches(before, after)


def _log_verdicts(before: State, after: State) -> None:
    for endpoint, health in after.health.items():
        known = before.health.get(endpoint)
        if known is health or (known is not None and known.verdict is health.verdict):
            continue
        if known is None:
            log.info("%s is new", endpoint)
            continue
        level = logging.WARNING if health.verdict in _LOUD else logging.INFO
        error = f": {health.last_error}" if health.verdict is Verdict.UNHEALTHY and health.last_error else ""
        log.log(level, "%s is %s (was %s)%s", endpoint, health.verdict.value, known.verdict.value, error)


def _log_switches(before: State, after: State) -> None:
    last_epoch = before.switches[-1].epoch if before.switches else 0
    for switch in after.switches:
        if switch.epoch <= last_epoch:
            continue
        log.warning(
            "%s: %s -> %s (%s, epoch %d)%s",
            switch.route,
            ",".join(switch.before) or "nothing",
            ",".join(switch.after) or "nothing",
            switch.reason.value,
            switch.epoch,
            f": {switch.detail}" if switch.detail else "",
        )


def _log_wishes(before: State, after: State) -> None:
    for name in before.overrides.keys() | after.overrides.keys():
        was, now = before.overrides.get(name, NO_OVERRIDE), after.overrides.get(name, NO_OVERRIDE)
        if was != now:
            log.info("%s: %s", name, _wish_in_words(now))


def _wish_in_words(wish: Override) -> str:
    words = []
    if wish.enabled is not None:
        words.append("enabled by the operator" if wish.enabled else "disabled by the operator")
    if wish.drain is not None:
        words.append(f"draining for at most {wish.drain:g} s")
    if wish.mark is not None:
        words.append(f"marked {wish.mark.value} by the operator")
    return ", ".join(words) or "as configured"
