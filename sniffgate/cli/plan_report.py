"""A plan in the words of the file: values for programs, rows for people. The gateway's reply is read here too."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from ..config.keys import TABLES, Table, in_file_terms
from ..config.schema import Config, ListenerConfig, SocketIdentity, Transport
from ..state.model import Endpoint, State
from ..state.plan import Deed, Plan, plan_reload
from ..state.serial import state_from_json
from ..tasks.reload import AT_START_ONLY

Report = dict[str, Any]
_MOST_NAMES = 8
_NOTES = {Deed.RESET: "what is known of its health is forgotten"}


def report_of(reply: Mapping[str, Any], config: Config) -> Report:
    """What putting `config` in force would do to the gateway that answered `state` with `reply`.

    Errors: ValueError, KeyError, TypeError or AttributeError for a reply that is none of sniffgate's.
    """
    state = state_from_json(json.dumps(reply["state"]))
    config = _amended(config, state.config, reply["overruled"])
    return plan_in_file_terms(state, config, plan_of(reply, state, config))


def plan_of(reply: Mapping[str, Any], state: State, config: Config) -> Plan:
    """The plan itself; `state` is the reply's."""
    flows = {
        (listener, Endpoint(name.rpartition("/")[0], Transport(name.rpartition("/")[2]))): int(count)
        for listener, counts in reply["flows"].items()
        for name, count in counts.items()
    }
    return plan_reload(state, config, float(reply["at"]), flows)


def _amended(config: Config, running: Config, overruled: Sequence[str]) -> Config:
    """`config` with what the gateway's command line decides, whatever a file says."""
    held = {key: getattr(running.globals, key) for key in overruled}
    return attrs.evolve(config, globals=attrs.evolve(config.globals, **held))


def plan_in_file_terms(state: State, config: Config, plan: Plan) -> Report:
    """The plan of putting `config` in force on `state`, keys and values as in the file."""
    old = {each.socket_identity: each for each in state.config.listeners}
    new = {each.name: each for each in config.listeners}
    report: Report = {
        "changes": not plan.is_empty,
        "epoch": state.epoch,
        "listeners": [
            {
                "deed": each.deed.value, "name": each.name, "protocol": each.protocol.value, "listen": each.address,
                "keys": _listener_keys(old, new[each.name], each.keys) if each.keys else [],
            }
            for each in plan.listeners
        ],
        "nodes": [
            {
                "deed": each.deed.value, "name": each.name,
                "keys": _keys(TABLES["nodes"], state.config.node(each.name), config.node(each.name), each.keys),
            }
            for each in plan.nodes
        ],
        "settings": [_setting(state.config, config, key) for key in plan.settings],
        "routes": [{"route": str(each.route), "before": each.before, "after": each.after} for each in plan.routes],
        "draining": [
            {
                "listener": each.listener, "endpoint": str(each.endpoint), "flows": each.flows,
                "within_ms": _milliseconds(each.timeout),
            }
            for each in plan.draining
        ],
    }  # fmt: skip
    return report


def _listener_keys(
    old: Mapping[SocketIdentity, ListenerConfig], new: ListenerConfig, keys: Sequence[str]
) -> list[Report]:
    return _keys(TABLES["listeners"], old[new.socket_identity], new, keys)


def _setting(before: Config, after: Config, path: str) -> Report:
    """One entry of `Plan.settings`: `global.key`, `pools.NAME.key`, or `pools.NAME` for one that comes or goes."""
    table, _, rest = path.partition(".")
    if table == "global":
        (change,) = _keys(TABLES["global"], before.globals, after.globals, [rest])
        return {"table": "global", **change, "at_next_start": rest in AT_START_ONLY}
    old, new = ({pool.name: pool for pool in config.pools} for config in (before, after))
    if rest in old.keys() ^ new.keys():
        there, here = ("a pool" if rest in pools else None for pools in (old, new))
        return {"table": f"pools.{rest}", "key": None, "old": there, "new": here, "at_next_start": False}
    name, _, key = rest.rpartition(".")
    (change,) = _keys(TABLES["pools"], old[name], new[name], [key])
    return {"table": f"pools.{name}", **change, "at_next_start": False}


def _keys(table: Table, old: object, new: object, attributes: Sequence[str]) -> list[Report]:
    """Old and new values under the file's names. A payload may hold a password: only its length is told."""
    found = []
    for key in table.keys:
        if key.attribute in attributes:
            values = [in_file_terms(getattr(each, key.attribute), key) for each in (old, new)]
            if key.name.endswith("payload"):
                values = [f"{len(getattr(each, key.attribute))} bytes" for each in (old, new)]
            found.append({"key": key.name, "old": _plain(values[0]), "new": _plain(values[1])})
    return found


def _plain(value: object) -> object:
    return "inf" if isinstance(value, float) and math.isinf(value) else value


def _milliseconds(seconds: float) -> float | str:
    return "inf" if math.isinf(seconds) else round(seconds * 1000, 3)


# --- for people -----------------------------------------------------------------------------------


def rows(report: Report) -> Iterator[tuple[str, str, str]]:
    """What is done, to what, and how: a row for each thing that would change."""
    for each in report["listeners"]:
        how = _changed(each["keys"])
        yield each["deed"], f"listener {each['name']}", f"{each['protocol']} {each['listen']}{how and f': {how}'}"
    for each in report["nodes"]:
        note = _NOTES.get(Deed(each["deed"]), "")
        yield each["deed"], f"node {each['name']}", "; ".join(filter(None, (_changed(each["keys"]), note)))
    for each in report["settings"]:
        what = "[global]" if each["table"] == "global" else f"pool {each['table'].removeprefix('pools.')}"
        if each["key"] is None:
            yield "add" if each["old"] is None else "remove", what, ""
        else:
            late = "; takes effect at the next start" if each["at_next_start"] else ""
            yield "change", what, f"{_changed([each])}{late}"
    for each in report["routes"]:
        yield "switch", f"route {each['route']}", f"{_names(each['before'])} -> {_names(each['after'])}"
    for each in report["draining"]:
        counted = "1 flow" if each["flows"] == 1 else f"{each['flows']} flows"
        yield "drain", f"{each['endpoint']} at {each['listener']}", f"{counted}, {_within(each['within_ms'])}"


def _changed(keys: Sequence[Report]) -> str:
    return ", ".join(f"{each['key']} {_shown(each['old'])} -> {_shown(each['new'])}" for each in keys)


def _shown(value: object) -> str:
    return "unset" if value is None else json.dumps(value, ensure_ascii=False)


def _names(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return f"{', '.join(names[:_MOST_NAMES])} and {more} more" if more > 0 else ", ".join(names) or "nothing"


def _within(milliseconds: float | str) -> str:
    if isinstance(milliseconds, str):
        return "without end"
    return f"within {milliseconds / 1000:g} s" if milliseconds else "cut at once"
