"""What a test expects of a gateway, and what it is told when that does not come."""

import pytest
import trio
from trio.testing import MockClock

from sniffgate.config.schema import Transport
from sniffgate.state.model import Mark
from sniffgate.testing import expect_active, expect_drained, expect_healthy, open_gateway
from tests.testing.kit import service


async def test_an_expectation_returns_when_it_is_met(autojump_clock: MockClock) -> None:
    """And not when its time is up."""
    async with open_gateway(service()) as gateway:
        await expect_active(gateway, "node-a")
        assert 0.0 == trio.current_time()
        await expect_healthy(gateway, "node-a", transport=Transport.TCP)
        assert 0.05 == trio.current_time()
        gateway.nodes["node-a"].kill()
        assert b"node-b:hi" == await gateway.ask()
        await expect_active(gateway, "node-b", within=0.2)
        assert 0.15 == pytest.approx(trio.current_time())


async def test_a_plain_gateway_will_do(autojump_clock: MockClock) -> None:
    """The one that `sniffgate.serve` gives has no timeline, but its switches."""
    async with open_gateway(service()) as gateway:
        await gateway.switch("node-b")
        await expect_active(gateway.gateway, "node-b")
        with pytest.raises(AssertionError, match=r"default/tcp: node-a -> node-b \(operator\)"):
            await expect_active(gateway.gateway, "node-a")


async def test_drained_means_the_last_flow_has_ended(autojump_clock: MockClock) -> None:
    """To the instant of the deadline, and with UDP as well."""
    async with open_gateway(service()) as gateway:
        with await gateway.connect() as conn:
            await conn.send_all(b"hi")
            await conn.receive_some(100)
            await gateway.drain("node-a", 1.0 / 3.0)
            with pytest.raises(AssertionError, match=r"tcp: 1 at node-a/tcp, retiring, 0\.03"):
                await expect_drained(gateway, "node-a", within=0.3)
            await expect_drained(gateway, "node-a", within=5.0)
            assert 1.0 / 3.0 == trio.current_time()


async def test_a_node_with_traffic_is_not_drained(autojump_clock: MockClock) -> None:
    """Having no flow this moment is not enough."""
    async with open_gateway(service()) as gateway:
        with pytest.raises(AssertionError, match=r"node-a/tcp, node-a/udp: not drained within 0\.2 s"):
            await expect_drained(gateway, "node-a")


async def test_the_message_has_reason_and_history(autojump_clock: MockClock) -> None:
    """What an operator would ask the gateway is asked before the test is over."""
    async with open_gateway(service(fail_open=False)) as gateway:
        await gateway.mark("node-b", Mark.DOWN)
        gateway.nodes["node-a"].kill()
        with pytest.raises(AssertionError) as caught:
            await expect_active(gateway, "node-b", within=0.3, transport=Transport.TCP)

    assert [
        "node-b/tcp: not active within 0.3 s",
        "why:",
        "  node-b/tcp is not active: marked down by the operator; nothing is usable, and fail_open is off:"
        " new traffic is refused",
        "    `health node-b auto` gives it back to the evidence",
    ] == str(caught.value).splitlines()[:4]
    assert [
        "  default/tcp: closed",
        "  default/udp: closed",
        "what happened (seconds since the gateway's start; waited from 0.000 to 0.300):",
        "     0.000  operator: node-b marked down",
        "     0.000  node-a/tcp: probe failed: connection refused",
    ] == [line for line in str(caught.value).splitlines()[6:] if "standby" not in line][:5]


async def test_fail_open_is_not_active(autojump_clock: MockClock) -> None:
    """That everything is tried since nothing is left is not what a test of a failover means."""
    async with open_gateway(service(), serve_nodes=False) as gateway:
        await trio.sleep(1.0)  # each node is known to be down
        with pytest.raises(AssertionError, match="fail_open"):
            await expect_active(gateway, "node-b", within=5.0)


async def test_a_disabled_node_is_not_healthy(autojump_clock: MockClock) -> None:
    """Evidence of before says nothing of a node that is out."""
    async with open_gateway(service()) as gateway:
        await expect_healthy(gateway, "node-a")
        await gateway.disable("node-a")
        with pytest.raises(AssertionError, match="disabled by the operator"):
            await expect_healthy(gateway, "node-a", within=0.1)


async def test_a_node_that_is_not_there_is_a_mistake_of_the_test(autojump_clock: MockClock) -> None:
    """Waiting for it would only hide the slip."""
    async with open_gateway(service()) as gateway:
        with pytest.raises(LookupError, match="no node node-c"):
            await expect_active(gateway, "node-c", within=1000.0)
        assert 0.0 == trio.current_time()


async def test_what_is_due_at_the_last_instant_is_in_time(autojump_clock: MockClock) -> None:
    """A drain of two seconds is expected within two seconds."""
    async with open_gateway(service()) as gateway:
        with await gateway.connect() as conn:
            await conn.send_all(b"hi")
            await conn.receive_some(100)
            await gateway.disable("node-a")
            await expect_drained(gateway, "node-a", within=2.0)
            assert 2.0 == pytest.approx(trio.current_time(), abs=0.02)
