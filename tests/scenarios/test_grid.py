"""Detection over a grid of settings: every measured time lies within the bounds that the formula gives.

Here on virtual time, with the jitter of the probes; `test_real.py` takes a sample on real processes.
"""

import os
import random

import attrs
import pytest
import trio
from trio.testing import MockClock

from sniffgate.address import Address
from sniffgate.config.schema import Config, GlobalConfig, ListenerConfig, NodeConfig, Transport
from sniffgate.state.detection import Answer, detection_bounds
from sniffgate.state.model import Endpoint, Verdict
from sniffgate.testing import VirtualGateway, VirtualNetwork, has, open_gateway, when
from sniffgate.testing.embedding import CLIENT
from tests.scenarios.tuning import TCP, TUNING, UDP, WORDS
from tests.tasks.configs import GATEWAY, node_at

DUST = 1e-6
ROUNDS = 1 if os.environ.get("HYPOTHESIS_PROFILE", "default") == "default" else 10  # random moments, in each cell
EXTRA = pytest.mark.soak  # between the corners and the middle of the grid
WINDOW = 0.5  # seconds in which failures of clients are remembered: no longer, so that each round is a new story


@attrs.frozen
class Victim:
    """A node, alone in its pool, that is to fail in one way over one transport, with a client just then or without."""

    number: int
    transport: Transport
    answered: Answer
    with_traffic: bool

    @property
    def name(self) -> str:
        traffic = "client" if self.with_traffic else "quiet"
        return f"{self.transport.value}-{self.answered.value}-{traffic}"

    @property
    def node(self) -> NodeConfig:
        other = {"udp": None} if self.transport is TCP else {"tcp": None}
        words = WORDS if self.answered is Answer.SILENT or self.transport is UDP else {}
        return node_at(self.name, f"10.0.1.{self.number + 1}", pool=self.name, **{**other, **words})

    @property
    def listener(self) -> ListenerConfig:
        listen = Address(GATEWAY, 100 + self.number)
        return ListenerConfig(name=self.name, protocol=self.transport, listen=listen, pool=self.name)

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(self.name, self.transport)

    def latency(self, one_way: float) -> float:
        """What a good probe takes: a round trip to connect, and one for the answer."""
        return 2 * one_way * (self.transport is TCP) + 2 * one_way * bool(self.node.expectation(self.transport))

    def strike(self, service: VirtualGateway) -> None:
        node = service.nodes[self.name]
        if self.answered is Answer.REFUSED:
            node.kill()
        else:
            node.freeze()

    async def visit(self, service: VirtualGateway) -> None:
        """One client's request, whatever becomes of it."""
        if self.transport is UDP:
            with service.client.connect_udp(self.listener.listen) as port:
                port.send_nowait(b"hi")
                await trio.sleep(0.1)
        else:
            with await service.client.connect_tcp(self.listener.listen):
                await trio.sleep(0.1)


VICTIMS = [
    Victim(number, transport, answered, with_traffic)
    for number, (transport, answered, with_traffic) in enumerate(
        (transport, answered, with_traffic)
        for transport in Transport
        for answered in Answer
        for with_traffic in (False, True)
    )
]


def grid_config(**settings: float) -> Config:
    rules = GlobalConfig(**{**TUNING, "passive_eject_window": WINDOW, **settings})
    listeners = tuple(victim.listener for victim in VICTIMS)
    return Config(globals=rules, listeners=listeners, nodes=tuple(victim.node for victim in VICTIMS))


async def all_healthy(service: VirtualGateway) -> None:
    for victim in VICTIMS:
        await when(service, has(victim.name, Verdict.HEALTHY, victim.transport))


async def one_round(service: VirtualGateway, one_way: float, moment: float) -> None:
    """Everything fails at once, `moment` seconds from now; each time of detection is held against its bounds."""
    rules = service.state.config.globals
    await trio.sleep(moment)
    struck = trio.current_time()
    found: dict[str, float] = {}

    async def watch(victim: Victim) -> None:
        await service.wait_for(has(victim.name, Verdict.UNHEALTHY, victim.transport))
        found[victim.name] = trio.current_time() - struck

    async with trio.open_nursery() as nursery:
        for victim in VICTIMS:
            victim.strike(service)
            nursery.start_soon(watch, victim)
            if victim.with_traffic:
                nursery.start_soon(victim.visit, service)
    for victim in VICTIMS:
        least, most = detection_bounds(
            rules,
            victim.node,
            victim.transport,
            answered=victim.answered,
            with_traffic=victim.with_traffic,
            latency=victim.latency(one_way),
        )
        assert least - DUST <= found[victim.name] <= most + DUST, (victim.name, least, found[victim.name], most)
    for victim in VICTIMS:
        service.nodes[victim.name].recover()
    await trio.sleep(rules.passive_eject_window)  # what clients met is forgotten
    await all_healthy(service)


async def run_cell(config: Config, *, one_way: float = 0.0, seed: int) -> None:
    """Some failures at random moments, with the gateway `one_way` seconds from its nodes."""
    network, dice = VirtualNetwork(), random.Random(seed)
    for victim in VICTIMS:
        network.set_latency(one_way, GATEWAY, f"10.0.1.{victim.number + 1}")
    network.set_latency(0.0, GATEWAY, CLIENT)
    async with open_gateway(config, network=network, dice=dice) as service:
        await all_healthy(service)
        for _ in range(ROUNDS):
            await one_round(service, one_way, dice.uniform(0, 1.1 * config.globals.probe_interval))


@pytest.mark.parametrize("threshold", [1, pytest.param(2, marks=EXTRA), 3, pytest.param(4, marks=EXTRA), 5])
@pytest.mark.parametrize("interval", [0.05, pytest.param(0.1, marks=EXTRA), 0.2, pytest.param(0.5, marks=EXTRA), 1.0])
async def test_every_cell_of_the_grid_is_within_the_formula(
    interval: float, threshold: int, autojump_clock: MockClock
) -> None:
    """Intervals and thresholds; both transports, refusing and silent, with a client and without."""
    seed = round(1000 * interval) + threshold
    await run_cell(grid_config(probe_interval=interval, failure_threshold=threshold), seed=seed)


@pytest.mark.parametrize("one_way", [0.001, 0.01, 0.05])
@pytest.mark.parametrize("threshold", [1, 3, 5])
async def test_the_formula_holds_at_a_distance(one_way: float, threshold: int, autojump_clock: MockClock) -> None:
    """Where a probe takes longer than the fast interval, and four times its latency longer than the timeout."""
    await run_cell(grid_config(failure_threshold=threshold), one_way=one_way, seed=threshold)


@pytest.mark.parametrize("timeout", [0.01, 0.05])
@pytest.mark.parametrize("fast", [0.01, 0.05, 0.2])
async def test_the_formula_holds_for_odd_settings(timeout: float, fast: float, autojump_clock: MockClock) -> None:
    """A timeout below the fast interval, and a fast interval above the regular one."""
    await run_cell(grid_config(probe_timeout=timeout, probe_fast_interval=fast), seed=round(100 * fast))
