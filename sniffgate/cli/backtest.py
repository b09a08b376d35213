"""`sniffgate replay FILE --config NEW`: what a backtest found, as values for programs and as a page for people."""

from collections.abc import Iterator, Sequence
from typing import Any

import attrs

from ..config.schema import Config, FlowLogMode
from ..state.backtest import Run
from ..state.course import Course, Shortage, Told
from ..state.cuts import Cuts, cuts_in
from ..state.plan import plan_reload
from ..state.serial import type_name
from .flow_spans import FlowLogRead
from .plan_report import plan_in_file_terms, rows

Report = dict[str, Any]
BOTH, RECORDED, NEW = "both", "only recorded", "only with NEW"
# What the fold itself decides. With other values of any other key, other things would have been seen.
JUDGED = frozenset({
    "strategy", "failback", "failback_delay_ms", "drain_timeout_ms", "failback_drain_timeout_ms", "fail_open",
    "move_together", "failure_threshold", "success_threshold", "passive_eject_threshold", "passive_eject_window_ms",
    "eject_time_ms", "eject_time_max_ms", "priority", "enabled", "pool",
})  # fmt: skip
SILENT = frozenset({
    "log_level", "admin_listen", "admin_token_file", "config_poll_interval_ms", "event_log", "event_log_max_mb",
    "flow_log", "remark", "shutdown_grace_ms",
})  # fmt: skip


def report_of(run: Run, config: Config, flows: FlowLogRead | None) -> Report:
    """What the run was like, what it would have been like under `config`, and what the log cannot say of that."""
    plan = plan_in_file_terms(run.began, config, plan_reload(run.began, config, run.began.now, {}))
    inherited = {(each["key"], str(each["new"])) for each in plan["settings"] if each["table"] == "global"}
    own = [
        each for each in plan["settings"]
        if each["table"] == "global" or (each["key"], str(each["new"])) not in inherited
    ]  # fmt: skip
    differs = rows({**plan, "settings": own, "routes": [], "draining": [], "listeners": []})
    return {
        "first_line": run.first_line,
        "last_line": run.last_line,
        "began_s": run.began.now,
        "ended_s": run.ended_at,
        "wall_ms": run.began.wall_ms,
        "from_start": run.is_whole,
        "evidence": run.evidence.total(),
        "differs": [" ".join(filter(None, each)) for _, *each in differs],
        "switches": list(_switches(run)),
        "routes": list(_routes(run)),
        "flows": None if flows is None else _flows(run, flows),
        "cannot_say": list(_unsaid(run, config, plan, flows)),
    }


def _switches(run: Run) -> Iterator[Report]:
    """Both lists as one, by time: a switch is in both when time, route, nodes and reason are the same."""
    recorded, other = _numbered(run.recorded), _numbered(run.other)
    merged = {**other, **recorded}
    for key in sorted(merged, key=lambda key: (key[0], merged[key][0], key not in recorded)):
        told = merged[key][1]
        yield {
            "at_s": told.switch.at,
            "route": str(told.switch.route),
            "before": list(told.switch.before),
            "after": list(told.switch.after),
            "reason": told.switch.reason.value,
            "detail": told.switch.detail,
            "line": told.line,
            "by_timer": told.by_timer,
            "where": BOTH if key in recorded and key in other else RECORDED if key in recorded else NEW,
        }


def _numbered(course: Course) -> dict[tuple[Any, ...], tuple[int, Told]]:
    """The switches of a course and their places in it, by what makes two of them the same."""
    found: dict[tuple[Any, ...], tuple[int, Told]] = {}
    for place, told in enumerate(course.switches):
        switch = told.switch
        key = (switch.at, switch.route, switch.before, switch.after, switch.reason)
        found[(*key, sum(key == each[:-1] for each in found))] = place, told
    return found


def _routes(run: Run) -> Iterator[Report]:
    for key in sorted(run.recorded.state.routes.keys() | run.other.state.routes.keys(), key=str):
        yield {
            "route": str(key),
            **{
                name: {
                    "switches": sum(each.switch.route == key for each in course.switches),
                    "unusable_s": round(_shortage(course, key).unusable, 6),
                    "failing_s": round(_shortage(course, key).failing, 6),
                }
                for name, course in (("recorded", run.recorded), ("new", run.other))
            },
        }


def _shortage(course: Course, key: Any) -> Shortage:
    return course.shortages.get(key, Shortage())


def _flows(run: Run, read: FlowLogRead) -> Report:
    """The flows that lived during the run. `cut` is what the flow log says, the rest an estimate."""
    began = run.recorded.tables[0].from_ms
    inside = [each for each in read.flows if each.ended_ms >= began and each.began_ms <= run.ended_ms]
    return {
        "tcp": len(inside),
        "cut": sum(each.was_cut for each in inside),
        "recorded": _cuts(cuts_in(run.recorded, run.recorded, inside)),
        "new": _cuts(cuts_in(run.other, run.recorded, inside)),
    }


def _cuts(cuts: Cuts) -> Report:
    return attrs.asdict(cuts)


# --- what the log cannot say ----------------------------------------------------------------------


def _unsaid(run: Run, config: Config, plan: Report, flows: FlowLogRead | None) -> Iterator[str]:
    yield from _unjudged(plan)
    recorded = run.recorded.state.config
    for endpoint in config.endpoints:
        about = {endpoint, endpoint.sibling} if config.member(endpoint).node.spokesman else {endpoint}
        if not any(run.evidence[each] for each in about.union(config.member(endpoint).grounds)):
            where = "is only in NEW" if recorded.node(endpoint.node) is None else "was not looked at"
            yield f"{endpoint} {where}: no evidence, so it counts as usable all along"
    missing = {each: count for each, count in run.evidence.items() if each not in set(config.endpoints)}
    for endpoint in sorted(missing, key=str):
        yield f"{endpoint} is not in NEW: {_counted(missing[endpoint], 'event')} left out"
    for endpoint in sorted(run.readdressed, key=str):
        yield f"{endpoint} has another address in NEW: the evidence is about the recorded one"
    for left in run.left_out:
        yield f"line {left.line}: {type_name(left.event)} at {left.at:.3f} s is left out: {left.reason}"
    for each in run.unwatched:
        yield (
            f"line {each.line}: {each.endpoint} is out with NEW from {each.at:.3f} s on and was not in the recording: "
            "nothing looked for its return, so it may have been back earlier than here"
        )
    if not run.is_whole:
        yield "the log begins in the middle of a run: NEW is taken to come as by a reload at its first line"
    yield from _unsaid_of_flows(run, flows)


def _unjudged(plan: Report) -> Iterator[str]:
    changes = [*plan["settings"], *(key for each in (*plan["nodes"], *plan["listeners"]) for key in each["keys"])]
    unjudged = {each["key"] for each in changes if each["key"] not in JUDGED | SILENT | {"tcp", "udp", None}}
    if unjudged:
        yield (
            f"not judged: {', '.join(sorted(unjudged))}. The log holds what was seen with the recorded values; with "
            "others, other things would have been seen, sooner or later"
        )
    yield "live traffic was seen only at the nodes that were in use in the recording; of the others only probes tell"


def _unsaid_of_flows(run: Run, flows: FlowLogRead | None) -> Iterator[str]:
    if flows is None:
        yield "flows: the event log holds none; give the program's log with --flows"
        return
    if run.recorded.state.config.globals.flow_log is not FlowLogMode.ALL:
        mode = run.recorded.state.config.globals.flow_log.value
        yield f'flows: flow_log was "{mode}", so not every flow is in the log, and the figures are too low'
    for count, what in (
        (flows.summed_up, "of which only the number was logged"),
        (flows.udp, "of UDP: sessions move, and are not counted here"),
        (flows.without_node, "without a node"),
    ):
        if count:
            yield f"flows: {count} {what}"
    yield "flows: those still open when the log ended are not in it"


# --- for people -----------------------------------------------------------------------------------


def page(report: Report) -> Iterator[str]:
    """The lines of one run's page."""
    lasted = report["ended_s"] - report["began_s"]
    yield (
        f"lines {report['first_line']} to {report['last_line']}: {lasted:.3f} s of a run, "
        f"{_counted(report['evidence'], 'piece')} of evidence"
    )
    yield "NEW differs in:" if report["differs"] else "NEW differs in nothing"
    yield from (f"  {each}" for each in report["differs"])
    yield "switches:" if report["switches"] else "switches: none"
    yield from _columns([_switch_row(each) for each in report["switches"]])
    yield "routes:"
    yield from _columns([["", "", "recorded", "with NEW"], *(row for each in report["routes"] for row in _rows(each))])
    if report["flows"] is not None:
        yield from _page_of_flows(report["flows"])
    yield "what the log cannot say:"
    yield from (f"  {each}" for each in report["cannot_say"])


def _switch_row(switch: Report) -> list[str]:
    line = f"after line {switch['line']}" if switch["by_timer"] else f"line {switch['line']}"
    change = f"{_names(switch['before'])} -> {_names(switch['after'])}"
    return [f"{switch['at_s']:.3f} s", line, switch["route"], change, switch["reason"], switch["where"]]


def _rows(route: Report) -> Iterator[list[str]]:
    old, new = route["recorded"], route["new"]
    yield [route["route"], "switches", str(old["switches"]), str(new["switches"])]
    yield ["", "nothing usable", f"{old['unusable_s']:.3f} s", f"{new['unusable_s']:.3f} s"]
    yield ["", "only failing nodes in use", f"{old['failing_s']:.3f} s", f"{new['failing_s']:.3f} s"]


def _page_of_flows(flows: Report) -> Iterator[str]:
    yield f"flows: {flows['tcp']} over TCP, of which {flows['cut']} were cut at a drain deadline; by the estimate:"
    yield from _columns(
        [
            ["", "recorded", "with NEW"],
            ["cut", _span(flows["recorded"]), _span(flows["new"])],
            ["at another node", str(flows["recorded"]["moved"]), str(flows["new"]["moved"])],
            ["without a node or listener", str(flows["recorded"]["unknown"]), str(flows["new"]["unknown"])],
        ]
    )


def _span(cuts: Report) -> str:
    few, many = cuts["surely"], cuts["at_most"]
    return str(few) if few == many else f"{few} to {many}"


def _columns(table: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max((len(row[column]) for row in table), default=0) for column in range(len(table[0]))] if table else []
    for row in table:
        yield "  " + "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()


def _names(names: Sequence[str]) -> str:
    return ", ".join(names) or "nothing"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
