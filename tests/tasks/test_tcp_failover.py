"""TCP through a running gateway on virtual time."""

import trio
from trio.testing import MockClock

from sniffgate.testing import open_gateway
from tests.tasks.configs import A, B, config_for


async def test_a_client_is_answered_by_the_node_of_highest_priority(autojump_clock: MockClock) -> None:
    """The simplest promise."""
    async with open_gateway(config_for(A, B)) as service:
        assert b"node-a:hi" == await service.ask()


async def test_a_client_of_a_refusing_node_is_served_by_the_standby(autojump_clock: MockClock) -> None:
    """The client must not notice: the refusal moves it on at once."""
    async with open_gateway(config_for(A, B)) as service:
        service.nodes["node-a"].kill()

        assert b"node-b:hi" == await service.ask()
        assert 0.0 == trio.current_time()
