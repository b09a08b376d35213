"""What `status` says of one node: the original's keys, and under `endpoints` each transport for itself."""

from collections import defaultdict
from collections.abc import Mapping

from ..config.schema import NodeConfig, Transport
from ..state.health import passive_failures
from ..state.model import Endpoint, Health, State, Verdict
from ..state.terms import LeaseKind
from ..state.verdict import is_enabled, is_usable, verdict_of
from ..tasks.gateway import Gateway
from ..tasks.leases import Lease
from ..tasks.ledger import Traffic
from .words import clip, microseconds

Report = dict[str, object]
REMOVED = "(removed)"  # stands for every listener that a reload removed and whose flows still drain
_NOTHING = Traffic()


class NodeReports:
    """The nodes of one published state. Counters are as they are when each node is asked for."""

    def __init__(self, gateway: Gateway) -> None:
        self.state: State = gateway.state
        self._traffic: Mapping[Endpoint, Traffic] = gateway.ledger.traffic
        self.now = gateway.services.clock.now()
        self.wall_ms = gateway.services.clock.wall_ms()
        self._counted: dict[Endpoint, dict[str, int]] = {}
        self._leases: defaultdict[Endpoint, list[tuple[str, Lease]]] = defaultdict(list)
        for name, listener in [
            *((listener.settings.name, listener) for listener in gateway.listeners.values()),
            *((REMOVED, listener) for listener in gateway.leaving),
        ]:
            for lease in listener.leases:
                self._leases[lease.endpoint].append((name, lease))

    def node(self, node: NodeConfig) -> Report:
        """Everything about one node."""
        state = self.state
        endpoints = [Endpoint(node.name, transport) for transport in node.transports]
        healths = [state.health[endpoint] for endpoint in endpoints]
        reports = {each.transport.value: self._endpoint(node, each) for each in endpoints}
        draining = [lease for endpoint in endpoints for lease in self._draining(endpoint)]
        stats = _stats(
            healths, {name: self._traffic_of(Endpoint(node.name, Transport(name))) for name in ("tcp", "udp")}
        )
        last = max(healths, key=lambda health: health.last_probe_at or 0.0)
        return {
            "name": node.name,
            "enabled": is_enabled(state, node),
            "priority": node.priority,
            "weight": node.weight,
            "tcp": str(node.tcp) if node.tcp else None,
            "udp": str(node.udp) if node.udp else None,
            "probe": node.probe.value,
            "remark": node.remark,
            "healthy": all(report["usable"] for report in reports.values()),
            "state": self._word(node, reports, is_draining=bool(draining)),
            "last_error": clip(_error(healths)),
            "last_probe_ms": max(health.probed_wall_ms for health in healths) or None,
            "last_change_ms": max(health.changed_wall_ms for health in healths) or None,
            "probe_latency_us": microseconds(last.last_latency),
            "passive_fails": sum(passive_failures(health, state.config.globals, self.now) for health in healths),
            "inflight_tcp": stats["tcp_conns_active"],
            "draining": bool(draining),
            "draining_until_ms": self._wall(max((lease.terms.deadline for lease in draining), default=None)),
            "stats": stats,
            "pool": node.pool,
            "endpoints": reports,
        }

    def _word(self, node: NodeConfig, reports: Mapping[str, Report], *, is_draining: bool) -> str:
        if not is_enabled(self.state, node):
            return "draining" if is_draining else "disabled"
        verdicts = {report["verdict"] for report in reports.values()}
        worst = (Verdict.UNHEALTHY, Verdict.PROBATION, Verdict.UNKNOWN)
        return next((verdict.value for verdict in worst if verdict.value in verdicts), Verdict.HEALTHY.value)

    def _draining(self, endpoint: Endpoint) -> list[Lease]:
        leases = self._leases.get(endpoint, ())
        return [lease for _, lease in leases if lease.terms.kind is LeaseKind.RETIRING and lease.flows]

    def _endpoint(self, node: NodeConfig, endpoint: Endpoint) -> Report:
        state, health = self.state, self.state.health[endpoint]
        return {
            "address": str(node.address(endpoint.transport)),
            "usable": is_usable(state, node, endpoint),
            "verdict": verdict_of(state, node, endpoint).value,
            "own_verdict": health.verdict.value,
            "cause": health.cause.value,
            "good_streak": health.good_streak,
            "bad_streak": health.bad_streak,
            "passive_failures": passive_failures(health, state.config.globals, self.now),
            "ejections": health.ejections,
            "ejected_until_ms": self._wall(health.ejected_until),
            "suspected": health.suspected,
            "last_error": clip(health.last_error),
            "latency_us": microseconds(health.last_latency),
            "last_probe_ms": health.probed_wall_ms or None,
            "last_change_ms": health.changed_wall_ms or None,
            "traffic": self._traffic_of(endpoint),
            "leases": self._lease_table(endpoint),
        }

    def _traffic_of(self, endpoint: Endpoint) -> dict[str, int]:
        """Counted once for each report: the bytes of flows in progress are summed up here."""
        counts = self._counted.get(endpoint)
        if counts is None:
            traffic = self._traffic.get(endpoint, _NOTHING)
            counts = self._counted[endpoint] = {
                "total": traffic.total,
                "failed": traffic.failed,
                "active": traffic.active,
                "bytes_tx": traffic.bytes_tx,
                "bytes_rx": traffic.bytes_rx,
                "drain_kills": traffic.drain_kills,
            }
        return counts

    def _lease_table(self, endpoint: Endpoint) -> list[Report]:
        """A row for each listener and kind, whatever the number of addresses and clients behind it."""
        rows: dict[tuple[str, LeaseKind], tuple[int, float]] = {}
        for listener, lease in self._leases.get(endpoint, ()):
            flows, deadline = rows.get((listener, lease.terms.kind), (0, 0.0))
            rows[listener, lease.terms.kind] = flows + lease.flows, max(deadline, lease.terms.deadline)
        return [
            {"listener": listener, "kind": kind.value, "flows": flows, "deadline_ms": self._wall(deadline)}
            for (listener, kind), (flows, deadline) in rows.items()
        ]

    def _wall(self, at: float | None) -> int | None:
        """A moment of the gateway's clock as milliseconds since 1970; None when it never comes."""
        if at is None or at == float("inf"):
            return None
        return self.wall_ms + round((at - self.now) * 1000)


def _error(healths: list[Health]) -> str:
    """The error of the endpoint that is worst off, else any."""
    errors = sorted(
        (health.verdict in (Verdict.HEALTHY, Verdict.UNKNOWN), number) for number, health in enumerate(healths)
    )
    return next((healths[number].last_error for _, number in errors if healths[number].last_error), "")


def _stats(healths: list[Health], traffic: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    tcp, udp = traffic["tcp"], traffic["udp"]
    return {
        "tcp_conns_total": tcp["total"],
        "tcp_conns_failed": tcp["failed"],
        "tcp_conns_active": tcp["active"],
        "udp_sessions_total": udp["total"],
        "udp_sessions_active": udp["active"],
        "bytes_tx": tcp["bytes_tx"] + udp["bytes_tx"],
        "bytes_rx": tcp["bytes_rx"] + udp["bytes_rx"],
        "probe_ok": sum(health.probe_ok for health in healths),
        "probe_fail": sum(health.probe_fail for health in healths),
        "passive_ejects": sum(health.passive_ejects for health in healths),
        "promotions": sum(health.promotions for health in healths),
        "drain_kills": tcp["drain_kills"] + udp["drain_kills"],
    }
