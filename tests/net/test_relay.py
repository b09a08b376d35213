"""The portable relay keeps the promises of every relay, on real sockets and on the virtual network."""

from typing import cast

import pytest

from sniffgate.net.relay import Relay
from sniffgate.net.relay_tasks import TaskRelay
from tests.net.relay_contract import RelayContract


class TestTaskRelay(RelayContract):
    """Two Trio tasks per flow."""

    @pytest.fixture(params=[pytest.param("sockets", marks=pytest.mark.realnet), "virtual"])
    def kind(self, request: pytest.FixtureRequest) -> str:
        return cast("str", request.param)

    @pytest.fixture
    def relay(self) -> Relay:
        return TaskRelay()
