"""The client's promises, kept through a gateway whose nodes fail: on virtual time, and once on real processes."""

from functools import partial

import pytest
import trio
from retrying_client import GaveUp, RetryingClient

import sniffgate
from sniffgate.testing import Shape, expect_active

CONFIG = sniffgate.load_text(
    """
[global]
probe_interval_ms = 200

[[listeners]]
name = "service"
protocol = "tcp"
listen = "10.0.0.254:7000"

[[nodes]]
name = "primary"
priority = 2
tcp = "10.0.0.1:7000"

[[nodes]]
name = "standby"
priority = 1
tcp = "10.0.0.2:7000"
""",
    file="test.toml",
)
LINES = {"primary": "lines", "standby": "lines"}


async def test_a_refused_connection_costs_nothing(gateway):
    """The gateway tries the next node within the same connect."""
    service = await gateway(CONFIG, scripts=LINES)
    client = RetryingClient(service.open_stream)
    with service.nodes["primary"].kill():
        assert await client.ask("hello") == "standby:hello"
        assert trio.current_time() == 0.0


async def test_a_hung_node_costs_one_try(gateway):
    """Nobody can tell a slow node from a hung one but by waiting."""
    service = await gateway(CONFIG, scripts=LINES)
    client = RetryingClient(service.open_stream, patience=1.0, pause=0.1)
    with service.nodes["primary"].freeze():
        asking = trio.current_time()
        with pytest.raises(GaveUp):  # a connect is all that its probe looks at, and the kernel still answers that
            await RetryingClient(service.open_stream, tries=2).ask("hello")
        assert trio.current_time() - asking == pytest.approx(2.1)
        await service.switch("standby")
        assert await client.ask("hello") == "standby:hello"


async def test_half_an_answer_is_asked_for_again(gateway):
    """A reset in mid-stream must not pass for an answer."""
    service = await gateway(CONFIG, scripts=LINES)
    client = RetryingClient(service.open_stream, pause=0.1)

    async def mend_soon():
        with service.nodes["primary"].reset_mid_stream(after=5):
            await trio.sleep(0.05)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(mend_soon)
        await trio.testing.wait_all_tasks_blocked()
        assert await client.ask("hello") == "primary:hello"
    assert trio.current_time() == pytest.approx(0.1)


async def test_it_gives_up_when_it_said_it_would(gateway):
    """Four tries of at most a second, and pauses of 0.1, 0.2 and 0.4 s."""
    service = await gateway(CONFIG, scripts=LINES)
    with service.nodes["primary"].black_hole(), service.nodes["standby"].black_hole():
        with pytest.raises(GaveUp):
            await RetryingClient(service.open_stream, tries=4, patience=1.0, pause=0.1).ask("hello")
        assert trio.current_time() <= 4.7


async def test_it_works_over_a_bad_line(gateway, virtual_network):
    """One packet in ten lost, for a hundred questions."""
    virtual_network.set_latency(0.02, "10.0.0.254")
    virtual_network.shape(Shape(loss=0.1, jitter=0.01), "10.0.0.254")
    service = await gateway(CONFIG, scripts=LINES)
    client = RetryingClient(service.open_stream, tries=10, patience=5.0)
    for number in range(100):
        assert (await client.ask(str(number))).endswith(f":{number}")


async def test_with_real_processes(real_gateway):
    """The same client, given the kernel's own streams, and a node that is really killed."""
    with trio.fail_after(20):
        service = await real_gateway(CONFIG, scripts=LINES)
        address = service.addresses["service"]
        client = RetryingClient(partial(trio.open_tcp_stream, address.host, address.port))
        assert await client.ask("hello") == "primary:hello"
        with service.nodes["primary"].kill():
            assert await client.ask("hello") == "standby:hello"
            await expect_active(service, "standby", within=5)
