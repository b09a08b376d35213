"""The last transitions, for `events`: verdicts, switches, pins, the operator's wishes, reloads and incidents."""

from collections import deque
from collections.abc import Callable

from ..state.difference import changed_health
from ..state.events import ConfigApplied, Event
from ..state.model import Endpoint, State
from ..state.verdict import NO_OVERRIDE
from ..tasks.incidents import Incident, Incidents
from .incident_report import incident_report
from .words import MOST_EVENTS, clip, node_names, wish_in_words

Transition = dict[str, object]


class Recent:
    """Keeps the last `maxlen` transitions. `observe` is an observer of the hub; it never waits."""

    def __init__(self, maxlen: int = MOST_EVENTS) -> None:
        self._kept: deque[Transition] = deque(maxlen=maxlen)
        self.count_lost_lines: Callable[[], int | None] | None = None  # the event log's, where there is one

    @property
    def lost_lines(self) -> int | None:
        """Lines that the event log could not record; None when there is no event log."""
        return self.count_lost_lines() if self.count_lost_lines is not None else None

    def follow(self, incidents: Incidents) -> None:
        """Notes each incident twice: when its outage has a length, and when it is over; once if both are one moment."""
        incidents.on_good = lambda incident: None if incident.is_over else self._note_incident(incident)
        incidents.on_over = self._note_incident

    def last(self, count: int) -> list[Transition]:
        """The last `count` transitions, oldest first."""
        return list(self._kept)[-count:]

    def observe(self, before: State, event: Event, after: State) -> None:
        """Notes what `event` changed."""
        if isinstance(event, ConfigApplied):
            self._note(
                after, "reload", detail=f"{len(after.config.nodes)} nodes, {len(after.config.listeners)} listeners"
            )
        if after is before:
            return
        if after.health is not before.health:
            for endpoint in changed_health(before, after):
                self._note_verdict(before, after, endpoint)
        if after.overrides is not before.overrides:
            for name in sorted(before.overrides.keys() | after.overrides.keys()):
                wish = after.overrides.get(name, NO_OVERRIDE)
                if wish != before.overrides.get(name, NO_OVERRIDE):
                    self._note(after, "operator", node=name, detail=wish_in_words(wish))
        if after.pins is not before.pins:
            for key in sorted(before.pins.keys() | after.pins.keys(), key=str):
                was, now = before.pins.get(key), after.pins.get(key)
                if was != now:
                    self._note(after, "pin", route=str(key), **{"from": was, "to": now})
        if after.switches is not before.switches:
            self._note_switches(before, after)

    def _note_verdict(self, before: State, after: State, endpoint: Endpoint) -> None:
        known, health = before.health.get(endpoint), after.health.get(endpoint)
        if known is not None and health is not None and known.verdict is not health.verdict:
            self._note(
                after,
                "verdict",
                node=endpoint.node,
                protocol=endpoint.transport.value,
                **{"from": known.verdict.value, "to": health.verdict.value},
                cause=health.cause.value,
                detail=clip(health.last_error),
            )

    def _note_switches(self, before: State, after: State) -> None:
        last = before.switches[-1].epoch if before.switches else 0
        for switch in after.switches:
            if switch.epoch > last:
                self._note(
                    after,
                    "switch",
                    route=str(switch.route),
                    **{"from": node_names(switch.before), "to": node_names(switch.after)},
                    reason=switch.reason.value,
                    detail=clip(switch.detail),
                )

    def _note_incident(self, incident: Incident) -> None:
        ends = [each for each in (incident.good_at, incident.drained_at) if each is not None]
        moment = incident.wall_ms + round((max(ends) - incident.evidence_at) * 1000)
        report = incident_report(incident)
        kept = {key: report[key] for key in ("route", "node", "outage_ms", "slow", "lost", "over")}
        detail = {"detail": report["evidence"]}
        self._kept.append({"ts_ms": moment, "epoch": incident.epoch, "type": "incident", **kept, **detail})

    def _note(self, state: State, kind: str, **more: object) -> None:
        self._kept.append({"ts_ms": state.wall_ms, "epoch": state.epoch, "type": kind, **more})
