"""Replies as tables for people. Rich is imported only when a table is drawn: it takes longer than a whole command."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .columns import open_page, plain, print_table, text_of

if TYPE_CHECKING:
    from rich.console import Console

Reply = Mapping[str, Any]  # JSON, as the gateway sent it
_STATUS = frozenset({"status", "switch", "auto", "enable", "disable", "drain", "health"})


def render(command: str, reply: Reply, *, width: int | None = None, color: bool = False) -> str:
    """The reply to `command` (its first word) as text, with its end of line; an error is its sentence.

    `width` in columns (None = as wide as the terminal). Nothing that the gateway sent reaches the terminal as anything
    but plain printable text.
    """
    if reply.get("ok") is not True:
        return f"error: {plain(reply.get('error', 'no reason given'))}\n"
    draw = _DRAWERS.get("status" if command in _STATUS else command, _draw_anything)
    console, page = open_page(width, color=color)
    draw(console, reply)
    return text_of(page)


def draw_table(
    titles: Sequence[str], rows: Iterable[Sequence[object]], *, width: int | None = None, color: bool = False
) -> str:
    """A table as text, with its end of line, as harmless as what `render` makes."""
    console, page = open_page(width, color=color)
    print_table(console, titles, rows)
    return text_of(page).removeprefix("\n")


# --- one drawer for each shape of reply -----------------------------------------------------------


def _draw_status(console: Console, reply: Reply) -> None:
    console.print(
        f"sniffgate {plain(reply['version'])}, pid {reply['pid']}, up {_duration(reply['uptime_s'])}, "
        f"epoch {reply['epoch']}, {plain(reply['config_path'] or 'no file')}"
        + ("  STOPPING" if reply["stopping"] else "")
    )
    is_one_pool = len(reply["pools"]) == 1  # then its name says nothing
    listeners = [
        [each["name"], each["protocol"], each["address"], "" if is_one_pool else each["pool"]]
        for each in reply["listeners"]
    ]
    print_table(console, ["listener", "protocol", "address", "pool"], listeners)
    routes = [
        [f"{pool}/{transport}", ", ".join(route["active"]) or "nothing", ", ".join(route["standbys"]) or "none",
         route["trial"], route["pin"], route["mode"]]
        for pool, transports in reply["pools"].items()
        for transport, route in transports.items()
    ]  # fmt: skip
    print_table(console, ["route", "active", "standby", "trial", "pin", "mode"], routes)
    print_table(
        console,
        ["node", "pool", "state", "priority", "tcp", "udp", "flows", "to node", "from node", "last error"],
        [_node_row(node, "" if is_one_pool else node["pool"], reply["now_ms"]) for node in reply["nodes"]],
        state_column=2,
    )
    _draw_reload(console, reply["reload"])
    switches = [
        [_time(each["ts_ms"]), f"{each['pool']}/{each['protocol']}", f"{each['from'] or 'nothing'} -> "
         f"{each['to'] or 'nothing'}", each["reason"], each["detail"]]
        for each in reply["recent_switches"][-10:]
    ]  # fmt: skip
    print_table(console, ["switched", "route", "change", "reason", "evidence"], switches)
    incidents = [
        [_time(each["evidence_ms"]), each["route"], each["node"], _milliseconds(each["verdict_ms"]),
         _milliseconds(each["switched_ms"]), _milliseconds(each["outage_ms"]), _milliseconds(each["drained_ms"]),
         each["slow"], each["lost"], each["evidence"]]
        for each in reply["incidents"][-5:]
    ]  # fmt: skip
    titles = ["incident", "route", "node", "unhealthy", "switched", "outage", "drained", "slow", "lost", "evidence"]
    print_table(console, titles, incidents)


def _node_row(node: Reply, pool: str, now_ms: float) -> list[object]:
    stats = node["stats"]
    flows = stats["tcp_conns_active"] + stats["udp_sessions_active"]
    word = node["state"]
    if node["draining"]:
        until = node["draining_until_ms"]
        word = f"{word}, draining" if word != "draining" else word
        word += f", {_duration(max(until - now_ms, 0) / 1000)} left" if until is not None else ""
    sent, received = _bytes(stats["bytes_tx"]), _bytes(stats["bytes_rx"])
    return [
        node["name"], pool, word, node["priority"], node["tcp"], node["udp"], flows, sent, received,
        _last_error(node, now_ms),
    ]  # fmt: skip


def _last_error(node: Reply, now_ms: float) -> str:
    """With how long the node has been healthy since, when it is: an old error must not look like a present one."""
    if node["last_error"] and node["state"] == "healthy" and node["last_change_ms"]:
        return f"{node['last_error']} (healthy for {_duration(max(now_ms - node['last_change_ms'], 0) / 1000)})"
    return str(node["last_error"])


def _draw_reload(console: Console, reload: Reply | None) -> None:
    if reload is not None:
        outcome = "reload" if reload["ok"] else "RELOAD FAILED"
        lines = str(reload["message"]).split("\n")  # one for each fault
        between = " " if len(lines) == 1 else "\n  "
        console.print(f"\n{outcome} at {_time(reload['at_ms'])}:{between}{between.join(plain(line) for line in lines)}")


def _draw_stats(console: Console, reply: Reply) -> None:
    rows: list[list[object]] = []
    for key, value in reply.items():
        if isinstance(value, dict):
            rows += [[f"{key}.{name}", count] for name, count in value.items() if count]
        elif key != "ok":
            rows.append([key, value])
    print_table(console, ["counter", "value"], rows)


def _draw_why(console: Console, reply: Reply) -> None:
    console.print("\n".join(plain(line) for line in str(reply["text"]).splitlines()))


def _draw_events(console: Console, reply: Reply) -> None:
    named = ("ts_ms", "epoch", "type", "node", "protocol", "route", "from", "to", "detail")
    rows = [
        [
            _time(each["ts_ms"]),
            each["type"],
            each.get("route") or "/".join(str(each[key]) for key in ("node", "protocol") if key in each),
            f"{each['from'] or 'nothing'} -> {each['to'] or 'nothing'}" if "to" in each else "",
            _incident(each)
            if each["type"] == "incident"
            else ", ".join(str(value) for key, value in each.items() if key not in named),
            each.get("detail", ""),
        ]
        for each in reply["events"]
    ]
    print_table(console, ["time", "event", "where", "change", "reason", "detail"], rows)


def _incident(event: Reply) -> str:
    outage = _milliseconds(event["outage_ms"])
    return f"outage {outage}, {event['slow']} slow, {event['lost']} lost" + (", over" if event["over"] else "")


def _draw_state(console: Console, reply: Reply) -> None:
    state = reply["state"]["state"]
    console.print(f"epoch {state['epoch']}, revision {state['revision']}, at {reply['at']:.3f} s; --json has the whole")
    rows = [[name, endpoint, flows] for name, counts in reply["flows"].items() for endpoint, flows in counts.items()]
    print_table(console, ["listener", "endpoint", "flows"], rows)


def _draw_help(console: Console, reply: Reply) -> None:
    print_table(console, ["command", "meaning"], [[each["usage"], each["meaning"]] for each in reply["commands"]])


def _draw_anything(console: Console, reply: Reply) -> None:
    message = reply.get("message")
    console.print(plain(message) if message is not None else "\n".join(f"{k}: {plain(v)}" for k, v in reply.items()))


_DRAWERS: dict[str, Callable[[Console, Reply], None]] = {
    "status": _draw_status,
    "stats": _draw_stats,
    "why": _draw_why,
    "events": _draw_events,
    "state": _draw_state,
    "help": _draw_help,
}


# --- cells ----------------------------------------------------------------------------------------


def _time(wall_ms: float) -> str:
    moment = datetime.datetime.fromtimestamp(wall_ms / 1000, tz=datetime.UTC)
    return moment.isoformat(sep=" ", timespec="milliseconds").replace("+00:00", "Z")


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m{rest:02}s" if hours else f"{minutes}m{rest:02}s" if minutes else f"{seconds:.1f}s"


def _milliseconds(count: float | None) -> str:
    return "not yet" if count is None else f"{count:.0f} ms"


def _bytes(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
