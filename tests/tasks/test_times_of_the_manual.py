"""The times that the failover page promises: its table, in virtual time and without jitter."""

import re
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from sniffgate.config.schema import GlobalConfig, Transport
from sniffgate.state.model import Endpoint, Verdict
from sniffgate.testing import VirtualGateway, open_gateway
from tests.tasks.configs import A, B, config_for

PAGE = Path(__file__).parents[2] / "docs" / "failover.md"
RULES = GlobalConfig()
JITTERED = 1.1 * RULES.probe_interval
EXACT = pytest.approx  # exact but for the last bit of the sums


def steps(count: int) -> float:
    return count * RULES.probe_fast_interval


def silence() -> float:
    """From the first probe that meets it to the verdict; the last latency is nothing here."""
    return RULES.probe_fast_interval + steps(RULES.failure_threshold - 2) + RULES.probe_timeout


async def wait_for_verdict(service: VirtualGateway, verdict: Verdict) -> None:
    endpoint = Endpoint("node-a", Transport.TCP)
    await service.wait_for(lambda state: state.health[endpoint].verdict is verdict)


async def wait_for_next_probe(service: VirtualGateway) -> float:
    """Returns the time of a probe's result: the worst moment for something to happen is just after it."""
    endpoint = Endpoint("node-a", Transport.TCP)
    seen = service.state.health[endpoint].last_probe_at
    await service.wait_for(lambda state: state.health[endpoint].last_probe_at != seen)
    return trio.current_time()


def test_the_worst_cases_on_the_failover_page_are_those_of_the_defaults() -> None:
    """The page does the sums for its readers."""
    page = PAGE.read_text()
    rows = dict(re.findall(r"^\| (the node [\w ]+?)(?: \(.*?\))? \| [^|]* \| ([\d.]+) s \|$", page, re.MULTILINE))

    assert {
        "the node refuses": EXACT(JITTERED + steps(RULES.failure_threshold - 1)),
        "the node is silent": EXACT(JITTERED + silence()),
        "the node is back": EXACT(JITTERED + steps(RULES.success_threshold - 1)),
    } == {row: float(seconds) for row, seconds in rows.items()}


async def test_a_refusing_node_is_out_and_back_when_the_failover_page_says(autojump_clock: MockClock) -> None:
    """Both in the worst case: just after a probe."""
    async with open_gateway(config_for(A, B)) as service:
        await wait_for_verdict(service, Verdict.HEALTHY)
        died = await wait_for_next_probe(service)
        service.nodes["node-a"].kill()
        await wait_for_verdict(service, Verdict.UNHEALTHY)
        assert EXACT(RULES.probe_interval + steps(RULES.failure_threshold - 1)) == trio.current_time() - died

        await trio.sleep(10)
        returned = await wait_for_next_probe(service)
        service.nodes["node-a"].recover()
        await wait_for_verdict(service, Verdict.HEALTHY)
        assert EXACT(RULES.probe_interval + steps(RULES.success_threshold - 1)) == trio.current_time() - returned


async def test_a_silent_node_is_out_when_the_failover_page_says(autojump_clock: MockClock) -> None:
    """In about one timeout, not in as many as the threshold."""
    async with open_gateway(config_for(A, B)) as service:
        await wait_for_verdict(service, Verdict.HEALTHY)
        died = await wait_for_next_probe(service)
        service.nodes["node-a"].black_hole()
        await wait_for_verdict(service, Verdict.UNHEALTHY)

        assert EXACT(RULES.probe_interval + silence()) == trio.current_time() - died


async def test_a_client_makes_a_refusing_node_be_out_at_once(autojump_clock: MockClock) -> None:
    """The client itself is served by the standby without a delay, and the probes are told."""
    async with open_gateway(config_for(A, B)) as service:
        await wait_for_verdict(service, Verdict.HEALTHY)
        died = await wait_for_next_probe(service)
        service.nodes["node-a"].kill()

        assert b"node-b:hi" == await service.ask()
        assert died == trio.current_time()
        await wait_for_verdict(service, Verdict.UNHEALTHY)
        assert EXACT(steps(RULES.failure_threshold - 1)) == trio.current_time() - died
