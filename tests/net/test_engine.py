"""The relay engine keeps the promises of every relay, on real sockets."""

from collections.abc import AsyncIterator
from typing import cast

import pytest
import trio

from sniffgate.net.engine import EngineRelay
from sniffgate.net.relay import Relay
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
