"""What tables must be to each other, and what is allowed but probably not meant."""

import ipaddress
from collections.abc import Iterator

from ..address import Address, canonical_host, parse_address
from .keys import GLOBAL, LISTENERS, NODES, POOLS
from .locate import Path
from .schema import DEFAULT_POOL, Config, ListenerConfig, NodeConfig, ProbeKind, Transport
from .structure import Complaint, rows
from .values import NEW_NAME, guess, show

Row = dict[str, object]


def check_together(document: dict[str, object]) -> Iterator[Complaint]:
    """What is wrong between tables. Works on the raw values, so that a fault in one table hides none elsewhere."""
    for table in (LISTENERS, NODES):
        if document.get(table.header, []) == []:
            yield Complaint(
                (table.header,) if table.header in document else (), f"at least one {table.title} is needed"
            )
    for table in (LISTENERS, POOLS, NODES):
        taken: dict[object, Path] = {}
        for path, row in rows(document, table):
            name = row.get("name")
            if isinstance(name, str):
                first = taken.setdefault(name, path)
                if first != path:
                    yield Complaint((*path, "name"), f"the name {show(name)} is already taken", (*first, "name"))
    yield from _pools(document)
    yield from _addresses(document)
    yield from _circles(document)
    for path, row in rows(document, NODES):
        if row.get("tcp", "") == "" and row.get("udp", "") == "":
            yield Complaint(path, "has no address: a node needs tcp or udp")


def _pools(document: dict[str, object]) -> Iterator[Complaint]:
    known = [name for _, row in rows(document, POOLS) if isinstance(name := row.get("name"), str)]
    known.append(DEFAULT_POOL)
    for table in (LISTENERS, NODES):
        for path, row in rows(document, table):
            pool = row.get("pool", DEFAULT_POOL)
            if isinstance(pool, str) and pool not in known:
                yield Complaint((*path, "pool"), f"there is no pool {show(pool)} in [[pools]]{guess(pool, known)}")


def _addresses(document: dict[str, object]) -> Iterator[Complaint]:
    taken: dict[tuple[object, str, int], Path] = {}
    for path, row in rows(document, LISTENERS):
        address, protocol = _parsed(row.get("listen")), row.get("protocol")
        if address is None or address.port == 0 or not isinstance(protocol, str):
            continue
        first = taken.setdefault((protocol, _one_spelling(address.host), address.port), path)
        if first != path:
            message = f"{protocol} {address} is already listened on"
            yield Complaint((*path, "listen"), message, (*first, "listen"))
    for path, row in rows(document, GLOBAL):
        admin = _parsed(row.get("admin_listen"))
        first_use = taken.get((Transport.TCP.value, _one_spelling(admin.host), admin.port)) if admin else None
        if first_use is not None:
            yield Complaint((*path, "admin_listen"), f"tcp {admin} is already listened on", (*first_use, "listen"))
        if admin and admin.is_literal | admin.is_wildcard and not admin.is_loopback and not row.get("admin_token_file"):
            message = f"other machines can reach {admin}: set admin_token_file, or listen on 127.0.0.1 or a unix socket"
            yield Complaint((*path, "admin_listen"), message)


def _circles(document: dict[str, object]) -> Iterator[Complaint]:
    """Nodes that are listeners of their own pool: each connection to one would make the next, without end."""
    doors: dict[tuple[object, int], list[tuple[Row, Address]]] = {}
    for _, row in rows(document, LISTENERS):
        listening, protocol = _parsed(row.get("listen")), row.get("protocol")
        if listening is not None and listening.port != 0 and isinstance(protocol, str):
            doors.setdefault((protocol, listening.port), []).append((row, listening))
    for path, node in rows(document, NODES):
        for transport in Transport:
            address = _parsed(node.get(transport.value))
            if address is None or address.host == "":
                continue
            for listener, listening in doors.get((transport.value, address.port), ()):
                same_pool = node.get("pool", DEFAULT_POOL) == listener.get("pool", DEFAULT_POOL)
                if not (same_pool and _reaches(address, listening)):
                    continue
                name = show(listener.get("name"))
                message = f"is this gateway's own listener {name}: traffic would go round in circles"
                yield Complaint((*path, transport.value), message)
                break


def _reaches(node: Address, listening: Address) -> bool:
    """Whether a node's host is certainly the listening one; what names resolve to is not asked."""
    if _one_spelling(canonical_host(node.host)) == _one_spelling(canonical_host(listening.host)):
        return True
    if not (listening.is_wildcard and node.is_loopback):
        return False
    is_ipv6 = ":" in canonical_host(node.host)
    return listening.host == "" or is_ipv6 == (listening.host == "::")


def _parsed(value: object) -> Address | None:
    try:
        return parse_address(value, listening=True) if isinstance(value, str) else None
    except ValueError:
        return None


def _one_spelling(host: str) -> str:
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return host.lower()


def cautions(document: dict[str, object], config: Config) -> Iterator[Complaint]:
    """What loads, but probably does not do what was meant."""
    for table in (LISTENERS, POOLS, NODES):
        for path, row in rows(document, table):
            if not NEW_NAME.match(str(row["name"])):
                message = f"{show(row['name'])} is awkward on a command line: use letters, digits, '.', '_' and '-'"
                yield Complaint((*path, "name"), message)
    globals_ = config.globals
    if globals_.eject_time > globals_.eject_time_max:
        message = "is longer than eject_time_max_ms: every ejection lasts eject_time_max_ms"
        yield Complaint((GLOBAL.header, "eject_time_ms"), message)
    reached = {(node.pool, transport) for node in config.nodes for transport in node.transports}
    used = {node.pool for node in config.nodes} | {listener.pool for listener in config.listeners}
    for (path, row), listener in zip(rows(document, LISTENERS), config.listeners, strict=True):
        yield from _listener(path, row, listener, reached)
    for path, row in rows(document, POOLS):
        if row["name"] not in used | {DEFAULT_POOL}:
            yield Complaint((*path, "name"), f"no listener and no node is in pool {show(row['name'])}")
    for (path, row), node in zip(rows(document, NODES), config.nodes, strict=True):
        for key, message in _node(row, node):
            yield Complaint((*path, key), message)


def _listener(
    path: Path, row: Row, listener: ListenerConfig, reached: set[tuple[str, Transport]]
) -> Iterator[Complaint]:
    transport = listener.protocol.value
    if (listener.pool, listener.protocol) not in reached:
        message = f"no node of pool {show(listener.pool)} has a {transport} address: nothing will be forwarded"
        yield Complaint((*path, "protocol"), message)
    if listener.protocol is Transport.UDP:
        for key, instead in _ONLY_TCP.items():
            if key in row:
                yield Complaint((*path, key), f"has no effect on a UDP listener{instead}")


_ONLY_TCP = {
    "max_connections": " (see udp_max_sessions)",
    "idle_timeout_ms": " (see udp_session_timeout_ms)",
    "half_close_timeout_ms": "",
    "tcp_user_timeout_ms": "",
}


def _node(row: Row, node: NodeConfig) -> Iterator[tuple[str, str]]:
    if node.probe in (ProbeKind.TCP, ProbeKind.UDP) and node.spokesman is None:
        yield "probe", f'the node has no {node.probe.value} address: works as "auto"'
    if node.tripwire and node.tcp is None:
        yield "tripwire", "has no effect without a tcp address"
    if not node.is_probed:
        for key in ("probe_payload", "probe_expect", "udp_probe_payload", "udp_probe_expect", "probe_interval_ms"):
            if row.get(key, "") != "":
                yield key, 'has no effect under probe = "none"'
        return
    for key in ("udp_probe_payload", "udp_probe_expect"):
        if row.get(key, "") == "":
            continue
        if node.udp is None:
            yield key, "has no effect without a udp address"
        elif node.spokesman is Transport.TCP:
            yield key, 'has no effect under probe = "tcp"'
    stands_udp = node.spokesman is Transport.UDP or node.tcp is None
    for general, own in (("probe_payload", "udp_probe_payload"), ("probe_expect", "udp_probe_expect")):
        if stands_udp and row.get(general, "") != "" and row.get(own, "") != "":
            yield general, f"has no effect beside {own}: only UDP is probed"
