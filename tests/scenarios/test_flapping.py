"""A node that goes up and down, fast and slowly: how often its route switches, and who notices.

A switch needs a verdict, a verdict needs a streak, and after each verdict comes a regular interval first: a node cannot
switch its route more than twice in `shortest_flap`, whatever it does.
"""

import itertools

import pytest
import trio
from trio.testing import MockClock

from sniffgate.config.schema import GlobalConfig
from sniffgate.errors import PeerReset
from sniffgate.state.detection import JITTER, fast_interval, interval_of, shortest_flap
from sniffgate.state.model import State
from sniffgate.testing import VirtualGateway, open_gateway
from tests.scenarios.tuning import TCP, TUNING
from tests.tasks.configs import A, B, config_for

EVERY_DAY = (0.1, 0.5, 2.0)
PERIODS = [  # seconds, half of it down
    period if period in EVERY_DAY else pytest.param(period, marks=pytest.mark.soak)
    for period in (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
]
DUST = 1e-6  # what happens at the same moment has no order
REQUESTS = 0.083  # seconds between two, out of step with every period


def lasting(period: float) -> float:
    """Seconds of a run: many periods of the short ones, some of the long ones."""
    return min(20.0, max(3.0, 10 * period))


def back_within(rules: GlobalConfig) -> float:
    """Seconds after which a node that answers again is healthy, unless it is ejected."""
    steps = (rules.success_threshold - 1) * fast_interval(rules, A)
    return (1 + JITTER) * interval_of(rules, A) + steps


async def flap(service: VirtualGateway, name: str, period: float, *, first_up: bool = True) -> None:
    """Up for half a period, down for the other half, and so on; runs until cancelled."""
    node = service.nodes[name]
    for up in itertools.cycle((first_up, not first_up)):
        if up:
            node.recover()
        else:
            node.kill()
        await trio.sleep(period / 2)


async def answer(service: VirtualGateway) -> bytes:
    """The node that answers one request; b"" when none does."""
    try:
        return (await service.ask()).partition(b":")[0]
    except PeerReset:
        return b""


def tcp_switches(state: State) -> list[float]:
    return [switch.at for switch in state.switches if switch.route.transport is TCP and switch.before]


def assert_bounded(moments: list[float], rules: GlobalConfig) -> None:
    """No third switch within the shortest flap."""
    for first, third in zip(moments, moments[2:], strict=False):
        assert third - first >= shortest_flap(rules, A) - DUST


@pytest.mark.parametrize("with_traffic", [False, True])
@pytest.mark.parametrize("period", PERIODS)
async def test_a_flapping_node_switches_its_route_no_more_than_the_bound(
    period: float, with_traffic: bool, autojump_clock: MockClock
) -> None:
    """And beside a node that stayed up no client notices anything."""
    config = config_for(A, B, **TUNING)
    switches: list[float] = []

    def watch(_: State, __: object, after: State) -> None:
        moments = tcp_switches(after)
        if moments and moments[-1] not in switches:
            switches.append(moments[-1])

    answers = set()
    async with open_gateway(config, observers=(watch,)) as service:
        await trio.sleep(1)
        with trio.move_on_after(lasting(period)):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(flap, service, "node-a", period)
                while True:
                    if with_traffic:
                        answers.add(await answer(service))
                    await trio.sleep(REQUESTS)

    assert_bounded(switches, config.globals)
    assert len(switches) <= 2 * (lasting(period) / shortest_flap(config.globals, A) + 1)
    assert answers <= {b"node-a", b"node-b"}
    if period >= 1.0:
        assert switches


async def test_a_delay_of_failback_bounds_the_flapping(autojump_clock: MockClock) -> None:
    """The node must have been healthy that long without a break."""
    async with open_gateway(config_for(A, B, **TUNING, failback_delay=2.0)) as service:
        await trio.sleep(1)
        with trio.move_on_after(30.0):
            await flap(service, "node-a", 2.0)

        assert 1 == len(tcp_switches(service.state))


@pytest.mark.parametrize("period", PERIODS)
async def test_no_request_fails_while_the_only_node_is_up(period: float, autojump_clock: MockClock) -> None:
    """With fail_open a verdict that is out of date keeps nobody from the node."""
    async with open_gateway(config_for(A, **TUNING)) as service, trio.open_nursery() as nursery:
        nursery.start_soon(flap, service, "node-a", period)
        began = trio.current_time()
        while trio.current_time() < began + lasting(period):
            is_up = DUST < (trio.current_time() - began) % period < period / 2 - DUST
            got = await answer(service)
            if is_up:
                assert b"node-a" == got
            await trio.sleep(REQUESTS)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("period", [0.5, 2.0, pytest.param(10.0, marks=pytest.mark.soak)])
async def test_no_request_fails_once_a_node_was_up_for_the_time_to_come_back(
    period: float, autojump_clock: MockClock
) -> None:
    """Two nodes in turn, one always up: who is just back is found within an interval and the fast steps."""
    rules = {**TUNING, "passive_eject_threshold": 1000}  # an ejected node is kept out on purpose
    config = config_for(A, B, **rules)
    async with open_gateway(config) as service:
        await trio.sleep(1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(flap, service, "node-a", period)
            nursery.start_soon(lambda: flap(service, "node-b", period, first_up=False))
            began = trio.current_time()
            while trio.current_time() < began + lasting(period):
                up_for = (trio.current_time() - began) % (period / 2)
                got = await answer(service)
                if up_for >= back_within(config.globals):
                    assert got, f"up for {up_for:.3f} s"
                await trio.sleep(REQUESTS)
            nursery.cancel_scope.cancel()
