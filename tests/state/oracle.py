"""A second opinion: what the rules say, told naively on dicts and lists.

Nothing is shared with the reducer but the events and the configuration. Every route is made anew after every event, and
whatever the clock decides is looked at on every event too.
"""

from typing import Any

from sniffgate.config.schema import Config, Failback, NodeConfig, ProbeKind, Strategy, Transport
from sniffgate.state.events import (
    ConfigApplied,
    Event,
    FailureKind,
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
)
from sniffgate.state.model import Mark

TCP, UDP = Transport.TCP, Transport.UDP
Where = tuple[str, Transport]  # a node's name, or a pool's, and a transport
OK = ("unknown", "healthy")


class World:
    """What a history leaves: plain containers, all public."""

    def __init__(self, config: Config) -> None:
        self.now = 0.0
        self.config = config
        self.health: dict[Where, dict[str, Any]] = {}
        self.marks: dict[str, Mark] = {}
        self.enabled: dict[str, bool] = {}  # the operator's word
        self.pins: dict[Where, str] = {}
        self.routes: dict[Where, dict[str, Any]] = {}
        for node in config.nodes:
            for transport in ways(node):
                self.health[node.name, transport] = fresh(0.0, newcomer=False)
        self.settle(released=())

    # --- who is who

    def node(self, name: str) -> NodeConfig | None:
        return next((node for node in self.config.nodes if node.name == name), None)

    def together(self, node: NodeConfig) -> bool:
        return next(pool for pool in self.config.pools if pool.name == node.pool).move_together

    def is_enabled(self, node: NodeConfig) -> bool:
        return self.enabled.get(node.name, node.enabled)

    def verdict(self, where: Where) -> str:
        name, transport = where
        node = self.node(name)
        assert node is not None
        if name in self.marks:
            return "healthy" if self.marks[name] is Mark.UP else "unhealthy"
        own = str(self.health[where]["verdict"])
        if transport is UDP and implicit(node) and node.tcp is not None and own in OK:
            return str(self.health[name, TCP]["verdict"])
        return own

    def is_usable(self, node: NodeConfig, transport: Transport) -> bool:
        deciding = ways(node) if self.together(node) else [transport]
        return all(self.verdict((node.name, each)) in OK for each in deciding)

    def members(self, key: Where) -> list[NodeConfig]:
        pool, transport = key
        found = [node for node in self.config.nodes if node.pool == pool and transport in ways(node)]
        return sorted((node for node in found if self.is_enabled(node)), key=lambda node: (-node.priority, node.name))

    def usable(self, key: Where) -> list[NodeConfig]:
        return [node for node in self.members(key) if self.is_usable(node, key[1])]

    def is_newcomer(self, node: NodeConfig, transport: Transport) -> bool:
        deciding = ways(node) if self.together(node) else [transport]
        return any(self.health[node.name, each]["newcomer"] for each in deciding)

    def must_be_proven(self, node: NodeConfig, transport: Transport) -> bool:
        """A newcomer that no probe has found healthy yet."""
        deciding = ways(node) if self.together(node) else [transport]
        unproven = [each for each in deciding if self.verdict((node.name, each)) == "unknown"]
        return node.probe is not ProbeKind.NONE and any(self.health[node.name, each]["newcomer"] for each in unproven)

    def good_since(self, node: NodeConfig, transport: Transport) -> float:
        needed = {transport} | (set(ways(node)) if self.together(node) else set())
        if UDP in needed and implicit(node) and node.tcp is not None:
            needed.add(TCP)
        return max(float(self.health[node.name, each]["since"]) for each in needed)

    # --- what happens

    def tell(self, event: Event) -> None:
        self.now = max(self.now, event.at)
        self.end_ejections()
        released: tuple[Where, ...] = ()
        match event:
            case ProbeSucceeded() | ProbeFailed() | ProbeSilent():
                self.probe(event)
            case ForwardFailed():
                self.failed(event)
            case ForwardSucceeded():
                self.served((event.endpoint.node, event.endpoint.transport))
            case OperatorReleased():
                pools = {pool.name: pool.move_together for pool in self.config.pools}
                keys = [(pool, transport) for pool in pools for transport in Transport]
                released = tuple(key for key in keys if event.transport in (None, key[1]) or pools[key[0]])
                self.pins = {key: name for key, name in self.pins.items() if key not in released}
            case OperatorSwitched():
                self.switch(event)
            case OperatorEnabled() | OperatorDisabled() | OperatorDrained():
                if self.node(event.node):
                    self.enabled[event.node] = isinstance(event, OperatorEnabled)
            case OperatorMarked():
                self.marks.pop(event.node, None)
                if event.mark is not None and self.node(event.node):
                    self.marks[event.node] = event.mark
            case ConfigApplied():
                self.reload(event.config)
            case _:
                pass
        self.end_ejections()
        self.settle(released)

    def probe(self, event: ProbeSucceeded | ProbeFailed | ProbeSilent) -> None:
        name, transport = event.endpoint
        node = self.node(name)
        if node is None or transport not in ways(node) or node.probe is ProbeKind.NONE:
            return
        speaker = {ProbeKind.TCP: TCP, ProbeKind.UDP: UDP}.get(node.probe)
        if speaker is None or speaker not in ways(node):
            about = [transport]
        else:
            about = ways(node) if speaker is transport else []
        for each in about:
            health, rules = self.health[name, each], self.config.globals
            if isinstance(event, ProbeFailed):
                health["good"], health["bad"] = 0, health["bad"] + 1
                if health["bad"] >= rules.failure_threshold and health["verdict"] != "unhealthy":
                    self.turn(health, "unhealthy")
            elif isinstance(event, ProbeSucceeded):
                self.good(health)
            else:
                health["bad"] = max(0, min(health["bad"], rules.failure_threshold) - 1)
                sibling_down = implicit(node) and self.health.get((name, TCP), {}).get("verdict") == "unhealthy"
                if health["verdict"] == "unhealthy" and not (each is UDP and sibling_down):
                    self.good(health)

    def good(self, health: dict[str, Any]) -> None:
        health["good"], health["bad"], health["stepped"] = health["good"] + 1, 0, None
        self.come_back(health)

    def come_back(self, health: dict[str, Any]) -> None:
        until = health["until"]
        if health["good"] < self.config.globals.success_threshold or (until is not None and until > self.now):
            return
        if until is not None:
            health.update(until=None, returned=self.now, window=[])
        if health["verdict"] != "healthy":
            self.turn(health, "healthy")

    def end_ejections(self) -> None:
        for (name, _), health in self.health.items():
            if health["until"] is not None and health["until"] <= self.now:
                node = self.node(name)
                assert node is not None
                if node.probe is ProbeKind.NONE:
                    health["until"] = None
                    self.turn(health, "probation")
                else:
                    self.come_back(health)

    def failed(self, event: ForwardFailed) -> None:
        where = (event.endpoint.node, event.endpoint.transport)
        node, rules = self.node(where[0]), self.config.globals
        if node is None or where not in self.health:
            return
        health = self.health[where]
        unprobed = node.probe is ProbeKind.NONE
        fresh_ones = [each for each in health["window"] if self.now - each[0] < rules.passive_eject_window]
        new: list[tuple[float, str | None]] = [(self.now, None)] * (1 + event.more)
        if event.kind is FailureKind.RESET and event.client_spoke:
            if not unprobed or event.client in [client for _, client in fresh_ones]:
                return
            new = [(self.now, event.client)]
        if health["verdict"] == "unhealthy":
            return
        if health["verdict"] == "probation":
            self.eject(health)
            return
        health["window"] = (fresh_ones + new)[-rules.passive_eject_threshold :]
        stepped = health["stepped"]
        if event.kind is not FailureKind.RESET and (stepped is None or self.now - stepped >= rules.probe_timeout):
            health.update(good=0, bad=min(health["bad"] + 1, rules.failure_threshold), stepped=self.now)
        others = [each for each in self.usable((node.pool, where[1])) if each.name != node.name]
        if event.kind in (FailureKind.TIMEOUT, FailureKind.RESET) and not others:
            return
        if len(health["window"]) >= rules.passive_eject_threshold:
            self.eject(health)
        elif health["bad"] >= rules.failure_threshold:
            if unprobed:
                self.eject(health)
            else:
                self.turn(health, "unhealthy")

    def eject(self, health: dict[str, Any]) -> None:
        rules = self.config.globals
        soon = health["returned"] is not None and self.now - health["returned"] <= 60
        again = soon or health["verdict"] == "probation"
        health["count"] = health["count"] + 1 if again else 1
        lasting = rules.eject_time
        for _ in range(health["count"] - 1):
            lasting = min(lasting * 2, max(rules.eject_time_max, rules.eject_time))
        health.update(until=self.now + lasting, good=0, bad=0, stepped=None, window=[])
        self.turn(health, "unhealthy")

    def served(self, where: Where) -> None:
        node = self.node(where[0])
        if node is None or where not in self.health:
            return
        health, unprobed = self.health[where], node.probe is ProbeKind.NONE
        on_trial = health["verdict"] == "probation"
        if on_trial:
            health.update(returned=self.now, window=[])
        if on_trial or unprobed:
            health.update(bad=0, stepped=None)
            if health["verdict"] in ("unknown", "probation"):
                self.turn(health, "healthy")

    def turn(self, health: dict[str, Any], verdict: str) -> None:
        health.update(verdict=verdict, since=self.now)

    def switch(self, event: OperatorSwitched) -> None:
        node = self.node(event.node)
        if node is None or not self.is_enabled(node):
            return
        wanted = ways(node) if event.transport is None or self.together(node) else [event.transport]
        if event.transport not in (None, *ways(node)) or not all(self.is_usable(node, each) for each in wanted):
            return
        self.pins.update({(node.pool, each): node.name for each in wanted})

    def reload(self, config: Config) -> None:
        if config == self.config:
            return
        before = {node.name: node for node in self.config.nodes}
        after = {node.name: node for node in config.nodes}
        health = {}
        for node in config.nodes:
            for transport in ways(node):
                was = before.get(node.name)
                if was is None or was.address(transport) != node.address(transport):
                    health[node.name, transport] = fresh(self.now, newcomer=True)
                    continue
                kept = dict(self.health[node.name, transport])
                route = self.routes.get((node.pool, transport))
                if route and route["mode"] == "normal" and node.name not in route["active"]:
                    then = max(before[name].priority for name in route["active"])
                    now = max((after[name].priority for name in route["active"] if name in after), default=None)
                    if now is not None and now < node.priority and was.priority - then < node.priority - now:
                        kept["newcomer"] = True
                if was.pool != node.pool:
                    kept["newcomer"] = True
                if node.probe is ProbeKind.NONE and kept["verdict"] == "unhealthy" and kept["until"] is None:
                    kept["until"] = self.now + config.globals.eject_time
                if node.probe is not ProbeKind.NONE and kept["verdict"] == "probation":
                    self.turn(kept, "unhealthy")
                health[node.name, transport] = kept
        for name in before.keys() | after.keys():
            if name not in before or name not in after:
                self.enabled.pop(name, None)
                self.marks.pop(name, None)
            else:
                if before[name].enabled != after[name].enabled:
                    self.enabled.pop(name, None)
                if before[name] != after[name]:
                    self.marks.pop(name, None)
        self.config, self.health = config, health

    # --- where traffic goes

    def settle(self, released: tuple[Where, ...]) -> None:
        keys = {(node.pool, transport) for node in self.config.nodes for transport in ways(node)}
        keys |= {(listener.pool, listener.protocol) for listener in self.config.listeners}
        self.drop_pins()
        while True:
            before = self.routes
            self.routes = {key: self.route(key, None if key in released else before.get(key)) for key in keys}
            arrived = [where for where, health in self.health.items() if health["newcomer"] and self.has_arrived(where)]
            if not arrived:
                return
            for where in arrived:
                self.health[where]["newcomer"] = False

    def has_arrived(self, where: Where) -> bool:
        """In use (under `move_together` over either transport), or fit to be."""
        name, transport = where
        node = self.node(name)
        assert node is not None
        for each in ways(node) if self.together(node) else [transport]:
            route = self.routes[node.pool, each]
            if route["mode"] == "normal" and name in route["active"]:
                return True
        fit = self.is_enabled(node) and self.is_usable(node, transport)
        return fit and not self.must_be_proven(node, transport)

    def drop_pins(self) -> None:
        gone = set()
        for key, name in self.pins.items():
            node = self.node(name)
            if (
                node is None
                or node.pool != key[0]
                or key[1] not in ways(node)
                or not self.is_enabled(node)
                or (self.usable(key) and node not in self.usable(key))
            ):
                gone.add(key)
        for pool, transport in list(gone):
            other = (pool, transport.sibling)
            togethers = [each.name for each in self.config.pools if each.move_together]
            if pool in togethers and self.pins.get(other) == self.pins[pool, transport]:
                gone.add(other)
        self.pins = {key: name for key, name in self.pins.items() if key not in gone}

    def route(self, key: Where, before: dict[str, Any] | None) -> dict[str, Any]:
        pool = next(pool for pool in self.config.pools if pool.name == key[0])
        members, usable, pin = self.members(key), self.usable(key), self.pins.get(key)
        trial = next((node.name for node in members if self.verdict((node.name, key[1])) == "probation"), None)
        if not usable:
            names = [node.name for node in members] if pool.fail_open else []
            if pin in names:
                names = [pin] + [name for name in names if name != pin]
            mode = "fail_open" if names else "closed"
            return {"mode": mode, "active": names, "standbys": [], "trial": trial, "pin": pin if names else None}
        newcomers = [node for node in usable if self.must_be_proven(node, key[1])]
        proven = [node for node in usable if node not in newcomers] or usable
        if pin is not None:
            active = [pin]
        elif pool.strategy is not Strategy.PRIORITY:
            active = [node.name for node in proven]
        else:
            tier = self.tier(key, proven, before, pool.failback, pool.failback_delay)
            active = [node.name for node in proven if node.priority == tier]
        ordered = proven + [node for node in newcomers if node not in proven]
        standbys = [node.name for node in ordered if node.name not in active]
        return {"mode": "normal", "active": active, "standbys": standbys, "trial": trial, "pin": pin}

    def tier(
        self, key: Where, proven: list[NodeConfig], before: dict[str, Any] | None, failback: Failback, delay: float
    ) -> int:
        staying = [node.priority for node in proven if before and node.name in before["active"]]
        if before is None or before["mode"] != "normal" or not staying:
            return max(node.priority for node in proven)
        allowed = [max(staying)]
        for node in proven:
            lasted = node.name in self.marks or self.good_since(node, key[1]) + delay <= self.now
            if self.is_newcomer(node, key[1]) or (failback is Failback.AUTO and lasted):
                allowed.append(node.priority)
        return max(allowed)


def ways(node: NodeConfig) -> list[Transport]:
    """The transports that a node has an address for."""
    return [transport for transport in (TCP, UDP) if node.address(transport) is not None]


def implicit(node: NodeConfig) -> bool:
    """Whether silence of the UDP endpoint says nothing, and its own transport is the only one to speak for it."""
    if node.probe is ProbeKind.NONE or (node.probe is ProbeKind.TCP and node.tcp) or node.probe is ProbeKind.UDP:
        return False
    own_words = node.udp_probe_payload + node.udp_probe_expect
    return not own_words and (node.tcp is not None or not node.probe_payload + node.probe_expect)


def fresh(now: float, *, newcomer: bool) -> dict[str, Any]:
    """What is known of an endpoint that nobody has looked at."""
    return {
        "verdict": "unknown",
        "since": now,
        "good": 0,
        "bad": 0,
        "stepped": None,
        "window": [],
        "until": None,
        "returned": None,
        "count": 0,
        "newcomer": newcomer,
    }
