"""The relay engine keeps the promises of every relay, on real sockets."""

import logging
from collections.abc import AsyncIterator
from typing import cast

import pytest
import trio

from sniffgate.address import Address
from sniffgate.app import serve
from sniffgate.config.schema import Config, ListenerConfig, NodeConfig, Transport
from sniffgate.net.engine import EngineRelay
from sniffgate.net.relay import Relay
from tests.net.direct_flow import DirectRelay
from tests.net.relay_contract import RelayContract


class TestEngineRelay(RelayContract):
    """One thread with an epoll set."""

    @pytest.fixture(params=[pytest.param("sockets", marks=pytest.mark.realnet)])
    def kind(self, request: pytest.FixtureRequest) -> str:
        return cast("str", request.param)

    @pytest.fixture
    async def relay(self, nursery: trio.Nursery) -> AsyncIterator[Relay]:
        relay = EngineRelay()
        await nursery.start(relay.run)
        yield relay
        relay.stop()


class TestDirectFlows(RelayContract):
    """Flows that have no task of their own."""

    @pytest.fixture(params=[pytest.param("sockets", marks=pytest.mark.realnet)])
    def kind(self, request: pytest.FixtureRequest) -> str:
        return cast("str", request.param)

    @pytest.fixture
    async def relay(self, nursery: trio.Nursery) -> AsyncIterator[Relay]:
        relay = DirectRelay()
        await nursery.start(relay.run)
        yield relay
        relay.stop()


@pytest.mark.realnet
@pytest.mark.parametrize("protocol", Transport)
async def test_a_start_that_is_cancelled_ends(protocol: Transport, caplog: pytest.LogCaptureFixture) -> None:
    """A signal may come at any moment of the start: no thread may be waited for then, and no crash reported."""
    config = Config(
        listeners=(ListenerConfig(name="front", protocol=protocol, listen=Address("127.0.0.1", 0)),),
        nodes=(NodeConfig(name="a", tcp=Address("127.0.0.1", 9), udp=Address("127.0.0.1", 9)),),
    )
    for checkpoints in range(40):
        with trio.fail_after(10):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(serve, config)
                for _ in range(checkpoints):
                    await trio.lowlevel.checkpoint()
                nursery.cancel_scope.cancel()
    assert [] == [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
