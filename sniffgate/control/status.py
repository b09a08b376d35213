"""What `status` and `stats` answer. Their size depends on the configuration and never on clients.

Reading the state is one attribute; turning 500 nodes into JSON takes tens of milliseconds, more than a Trio step may
have. So `status_line` goes over one published state in slices, with a checkpoint after each.
"""

import os
from collections.abc import Callable, Iterable

import trio

from .. import __version__
from ..config.schema import DEFAULT_POOL, RouteKey, Transport
from ..net.relay import EndReason
from ..state.model import Route, State, Switch
from ..tasks.gateway import Gateway
from .incident_report import incident_report
from .node_report import NodeReports, Report
from .protocol import encode
from .words import clip, node_names

SLICE = 4  # nodes, or list entries of their size, between two checkpoints: about a third of a millisecond
SHOWN_SWITCHES = 50
SHOWN_INCIDENTS = 20

# why a datagram went nowhere, and what this machine ran short of: closed lists, explained in docs/control.md
DROP_REASONS = (
    "send", "reply", "refused", "waiting", "no_slot",
    *(EndReason(word).value for word in ("no_node", "local_shortage", "evicted", "idle", "drained", "dns_gone")),
    *(EndReason(word).value for word in ("shutdown", "crashed")),
)  # fmt: skip
SHORTAGES = ("accept", "connect", "probe")


def status(gateway: Gateway) -> Report:
    """The whole of `status`, at once: for a library or a test. The keys are listed in docs/control.md."""
    reports = NodeReports(gateway)
    nodes = [reports.node(node) for node in reports.state.config.nodes]
    pools = [dict([entry]) for entry in _pools(reports.state)]
    return {**_head(gateway, reports), "pools": {k: v for each in pools for k, v in each.items()}, "nodes": nodes}


async def status_line(gateway: Gateway) -> bytes:
    """The same as one line of JSON, made in slices. The state is that of one moment, counters may move meanwhile."""
    reports = NodeReports(gateway)
    head = encode(_head(gateway, reports))
    await trio.lowlevel.checkpoint()
    pools = await in_slices(_pools(reports.state), lambda entry: encode(dict([entry]))[1:-2])
    nodes = await in_slices(reports.state.config.nodes, lambda node: encode(reports.node(node))[:-1])
    return b"".join((head[:-2], b',"pools":{', pools, b'},"nodes":[', nodes, b"]}\n"))


async def in_slices(items: Iterable[object], render: Callable[..., bytes]) -> bytes:
    """The items rendered one by one, with commas between, and a checkpoint after every few."""
    parts = []
    for number, item in enumerate(items, 1):
        parts.append(render(item))
        if number % SLICE == 0:
            await trio.lowlevel.checkpoint()
    return b",".join(parts)


def stats(gateway: Gateway, lost_lines: int | None = None) -> Report:
    """The counters of the whole gateway since its start; `lost_lines` are those of the event log, None without one."""
    ledger, services = gateway.ledger, gateway.services
    return {
        "ok": True,
        "uptime_s": round(services.clock.now(), 3),
        "now_ms": services.clock.wall_ms(),
        "epoch": gateway.state.epoch,
        "revision": gateway.state.revision,
        "flows": ledger.flows(Transport.TCP),
        "sessions": ledger.flows(Transport.UDP),
        "endings": {reason.value: ledger.endings[reason] for reason in EndReason},
        "dropped_datagrams": {**dict.fromkeys(DROP_REASONS, 0), **ledger.dropped_datagrams},
        "shortages": {**dict.fromkeys(SHORTAGES, 0), **ledger.shortages},
        "crashes": ledger.crashes,
        "events_overflowed": services.reporter.overflowed,
        "event_log_lines_lost": lost_lines,
    }


# --- the parts of status that are not about single nodes ------------------------------------------


def _head(gateway: Gateway, reports: NodeReports) -> Report:
    state, settings = reports.state, reports.state.config.globals
    return {
        "ok": True,
        "engine": "sniffgate",
        "version": __version__,
        "pid": os.getpid(),
        "uptime_s": round(reports.now, 3),
        "now_ms": reports.wall_ms,
        "epoch": state.epoch,
        "revision": state.revision,
        "loaded_at_ms": gateway.loaded_at_ms,
        "strategy": settings.strategy.value,
        "config_path": gateway.path,
        "stopping": gateway.stopping.is_set(),
        "active": {transport.value: _first(_default(state, transport)) for transport in Transport},
        "pins": {each.value: state.pins.get(RouteKey(DEFAULT_POOL, each)) for each in Transport},
        "listeners": _listeners(gateway),
        "reload": _reload(gateway),
        "recent_switches": [_switch(switch) for switch in state.switches[-SHOWN_SWITCHES:]],
        "incidents": [incident_report(each) for each in list(gateway.services.incidents)[-SHOWN_INCIDENTS:]],
    }


def _default(state: State, transport: Transport) -> Route | None:
    return state.routes.get(RouteKey(DEFAULT_POOL, transport))


def _first(route: Route | None) -> str | None:
    return route.active[0] if route is not None and route.active else None


def _listeners(gateway: Gateway) -> list[Report]:
    return [
        {
            "name": each.settings.name,
            "protocol": each.settings.protocol.value,
            "listen": str(each.settings.listen),
            "address": str(each.address),
            "pool": each.settings.pool,
        }
        for each in gateway.listeners.values()
    ]


def _reload(gateway: Gateway) -> Report | None:
    report = gateway.reload_report
    if report is None:
        return None
    return {
        "at_ms": report.at_ms,
        "ok": report.ok,
        "message": report.message,
        "path": report.path,
        "epoch": report.epoch,
    }


def _switch(switch: Switch) -> Report:
    return {
        "epoch": switch.epoch,
        "protocol": switch.route.transport.value,
        "from": node_names(switch.before),
        "to": node_names(switch.after),
        "reason": switch.reason.value,
        "ts_ms": switch.wall_ms,
        "pool": switch.route.pool,
        "detail": clip(switch.detail),
    }


def _pools(state: State) -> list[tuple[str, dict[str, Report]]]:
    pools: dict[str, dict[str, Report]] = {pool.name: {} for pool in state.config.pools}
    for key, route in state.routes.items():
        pools.setdefault(key.pool, {})[key.transport.value] = {
            "active": route.active,
            "standbys": route.standbys,
            "trial": route.trial,
            "pin": route.pin,
            "mode": route.mode.value,
            "tier": route.tier,
            "strategy": route.strategy.value,
        }
    return list(pools.items())
