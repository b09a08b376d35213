"""A history from a seed: episodes that follow each other, made of what the configuration has and of its own times."""

import random
from collections.abc import Callable, Iterator

import attrs

from ..config.schema import Config, ListenerConfig, NodeConfig
from .history import FAULTS, MOMENTARY, Fault, History, Order, Recover, Reload, Step, Visit

BEGIN = 2.5  # seconds in which the gateway gets to know its nodes
BLIPS = (0.01, 0.03, 0.06)  # seconds: one probe or two
OUTAGES = (0.3, 1.0, 2.0, 4.0, 8.0, 15.0)
PAUSES = (0.0, 0.5, 2.0, 5.0, 10.0)
LATENCIES = (*(0.0,) * 5, 0.0005, 0.005, 0.02)
ASK_EVERY = 4.0  # seconds between clients of a listener, on average, beside those that come with an episode
STAYS = (2.0, 6.0, 20.0)


def history_from(config: Config, seed: int, seconds: float) -> History:
    """The history of `seed`; the same for the same configuration and length, on every machine."""
    dice = random.Random(f"sniffgate {seed}")
    latency = dice.choice(LATENCIES)
    steps = [*_Author(config, dice, seconds).episodes(), *_visitors(config, dice, seconds)]
    steps = [attrs.evolve(step, at=round(step.at, 3)) for step in steps if step.at < seconds]
    return History(seed, seconds, latency, tuple(sorted(steps, key=lambda step: step.at)))


def _visitors(config: Config, dice: random.Random, seconds: float) -> Iterator[Step]:
    """Clients that come at any time."""
    for listener in config.listeners:
        at = dice.uniform(0.0, ASK_EVERY)
        while at < seconds:
            kind = dice.choice(("ask", "ask", "ask", "ask", "chat", "leave"))
            yield Visit(at, kind, listener.name, dice.choice(STAYS) if kind == "chat" else 0.0)
            at += dice.uniform(0.0, 2 * ASK_EVERY)


class _Author:
    """Writes episodes one after the other. What an episode begins it usually ends."""

    def __init__(self, config: Config, dice: random.Random, seconds: float) -> None:
        self._dice = dice
        self._seconds = seconds
        self._config = config
        self._nodes = config.nodes
        self._named = {each.name for each in config.nodes if _is_named(each)}

    def episodes(self) -> Iterator[Step]:
        """All of them. Their beginnings are in order, their ends may overlap."""
        if not self._nodes:
            return
        kinds: tuple[Callable[[float], Iterator[Step]], ...] = (
            *(self._some_fail,) * 5,
            *(self._flapping,) * 3,
            *(self._blips,) * 2,
            *(self._order,) * 3,
            self._reload,
        )
        at = BEGIN + self._dice.uniform(0.0, 2.0)
        while at < self._seconds:
            steps = list(self._dice.choice(kinds)(at))
            yield from steps
            overlap = self._dice.random() < 0.2
            at = at + 1.0 if overlap else max(at, *(step.at for step in steps))
            at += self._dice.choice((*PAUSES, *self._times())) * self._dice.uniform(0.9, 1.3)

    def _times(self) -> tuple[float, ...]:
        """Times of the configuration that are worth waiting for."""
        pools = self._config.pools
        times = {each.failback_delay for each in pools} | {each.drain_timeout for each in pools}
        return tuple(sorted(each for each in times if 0 < each < self._seconds))

    def _victims(self) -> tuple[NodeConfig, ...]:
        """One node, as a rule; or all that have its priority, or its whole pool."""
        one = self._dice.choice(self._nodes)
        reach = self._dice.random()
        if reach < 0.6:
            return (one,)
        pool = [each for each in self._nodes if each.pool == one.pool]
        return tuple(pool if reach > 0.93 else [each for each in pool if each.priority == one.priority])

    def _possible(self, node: NodeConfig) -> tuple[str, ...]:
        """The faults that make sense for a node."""
        missing = {"dns"} if node.name not in self._named else set()
        missing |= {"close_udp"} if node.udp is None else set()
        return tuple(each for each in FAULTS if each not in missing)

    def _some_fail(self, at: float) -> Iterator[Step]:
        lasting = self._dice.choice((*OUTAGES, *self._times())) * self._dice.uniform(0.8, 1.2)
        yield from self._outage(self._victims(), at, lasting=lasting)

    def _outage(
        self, victims: tuple[NodeConfig, ...], at: float, *, lasting: float, kind: str = "", crowd: int | None = None
    ) -> Iterator[Step]:
        """Nodes fail together, clients come in that very moment, and the nodes recover."""
        kind = kind or self._dice.choice(self._possible(victims[0]))
        for node in victims:
            yield Fault(at, node.name, kind if kind in self._possible(node) else "kill")
        yield from self._crowd(victims[0], at, self._dice.choice((0, 1, 3, 8)) if crowd is None else crowd)
        if kind not in MOMENTARY:
            for node in victims:
                yield Recover(at + lasting * self._dice.choice((1.0, 1.0, 1.1)), node.name)

    def _crowd(self, node: NodeConfig, at: float, count: int) -> Iterator[Step]:
        for listener in self._doors_to(node):
            for _ in range(count):
                yield Visit(at + self._dice.choice((0.0, 0.001, 0.01)), "ask", listener.name)

    def _doors_to(self, node: NodeConfig) -> list[ListenerConfig]:
        return [
            each
            for each in self._config.listeners
            if each.pool == node.pool and node.address(each.protocol) is not None
        ]

    def _flapping(self, at: float) -> Iterator[Step]:
        """A node in a restart loop, with clients on it each time."""
        victims = self._victims()
        kind = self._dice.choice(("kill", "kill", "refuse", "black_hole"))
        for _ in range(self._dice.randint(2, 4)):
            down = self._dice.choice((*BLIPS, 0.3, 1.0))
            yield from self._outage(victims, at, lasting=down, kind=kind, crowd=self._dice.choice((0, 4, 8)))
            at += 1.1 * down + self._dice.choice((0.3, 2.0, 4.0))

    def _blips(self, at: float) -> Iterator[Step]:
        """Outages too short for a verdict."""
        victims = self._victims()[:1]
        kind = self._dice.choice(("kill", "refuse", "unreachable"))
        for _ in range(self._dice.randint(3, 6)):
            down = self._dice.choice(BLIPS)
            yield from self._outage(victims, at, lasting=down, kind=kind, crowd=self._dice.choice((0, 1, 1)))
            at += 1.1 * down + self._dice.choice((0.2, 1.0, 2.0))

    def _order(self, at: float) -> Iterator[Step]:
        """An operator does something, with clients in the middle of a talk, and usually takes it back."""
        node = self._dice.choice(self._nodes).name
        for listener in self._config.listeners:
            yield Visit(at - 0.5, "chat", listener.name, self._dice.choice(STAYS))
        command = self._dice.choice(("switch", "switch", "switch", "disable", "drain", "mark_up", "mark_down"))
        seconds = self._dice.choice((None, 0.0, 2.0)) if command == "drain" else None
        yield Order(at, command, node, seconds)
        if command == "switch" and self._dice.random() < 0.4:  # the pinned node may fail
            victims = tuple(each for each in self._nodes if each.name == node)
            yield from self._outage(victims, at + 1.0, lasting=self._dice.choice(OUTAGES), kind="kill")
        undoing = {"switch": "release", "disable": "enable", "drain": "enable"}.get(command, "mark_auto")
        later = at + self._dice.choice((0.5, 2.0, 5.0, 12.0))
        yield Order(later, undoing, "" if undoing == "release" else node)

    def _reload(self, at: float) -> Iterator[Step]:
        """A node is taken out of the file and put back; or the file is only read again."""
        node = self._dice.choice(self._nodes).name
        without = (node,) if len(self._nodes) > 1 and self._dice.random() < 0.8 else ()
        yield Reload(at, without)
        yield Reload(at + self._dice.choice((1.0, 4.0, 12.0)))


def _is_named(node: NodeConfig) -> bool:
    return any(not address.is_literal for address in (node.tcp, node.udp) if address is not None)
