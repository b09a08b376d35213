"""What the `gateway` fixtures are: functions that start a gateway which ends with the test."""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial

import trio

from ..config.schema import Config
from .embedding import open_gateway, open_real_gateway
from .scripts import Script
from .subject import GatewayUnderTest
from .virtual import VirtualNetwork


class _Started:
    """The gateways of one test, each kept by a task of its own: a scope may not outlive the call that opened it."""

    def __init__(self, nursery: trio.Nursery) -> None:
        """`nursery` keeps them."""
        self._keepers = nursery
        self._over = trio.Event()
        self._ended: list[trio.Event] = []

    async def start(self, opened: Callable[[], AbstractAsyncContextManager[GatewayUnderTest]]) -> GatewayUnderTest:
        """Returns a gateway that runs until `close`."""
        subject: GatewayUnderTest = await self._keepers.start(self._keep, opened)
        return subject

    async def close(self) -> None:
        """Ends every gateway. A crash that one had contained fails the nursery with `GatewayCrashed`."""
        self._over.set()
        for each in self._ended:
            await each.wait()

    async def _keep(
        self,
        opened: Callable[[], AbstractAsyncContextManager[GatewayUnderTest]],
        *,
        task_status: trio.TaskStatus[GatewayUnderTest],
    ) -> None:
        ended = trio.Event()
        self._ended.append(ended)
        try:
            async with opened() as subject:
                task_status.started(subject)
                await self._over.wait()
        finally:
            ended.set()


class GatewayFactory(_Started):
    """`await gateway(config)`: a gateway on the test's virtual network."""

    def __init__(self, nursery: trio.Nursery, network: VirtualNetwork) -> None:
        super().__init__(nursery)
        self.network = network

    async def __call__(
        self, config: Config, *, scripts: Mapping[str, str | Script] | None = None, serve_nodes: bool = True
    ) -> GatewayUnderTest:
        """As `open_gateway`, until the end of the test."""
        return await self.start(partial(open_gateway, config, self.network, scripts=scripts, serve_nodes=serve_nodes))


class RealGatewayFactory(_Started):
    """`await real_gateway(config)`: a gateway on loopback, its nodes as real processes."""

    async def __call__(
        self, config: Config, *, scripts: Mapping[str, str] | None = None, serve_nodes: bool = True
    ) -> GatewayUnderTest:
        """As `open_real_gateway`, until the end of the test."""
        return await self.start(partial(open_real_gateway, config, scripts=scripts, serve_nodes=serve_nodes))
