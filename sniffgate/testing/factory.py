"""What the `gateway` fixtures are: functions that start a gateway which ends with the test."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Generic, TypedDict, TypeVar, Union, Unpack

import trio

from ..config.schema import Config
from ..net.ports import Network
from ..tasks.hub import Observer
from .embedding import open_gateway, open_real_gateway
from .scripts import Script
from .subject import GatewayUnderTest, RealGateway, VirtualGateway
from .virtual import VirtualHost, VirtualNetwork

Subject = TypeVar("Subject", bound=GatewayUnderTest)


class _Started(Generic[Subject]):
    """The gateways of one test, each kept by a task of its own: a scope may not outlive the call that opened it."""

    def __init__(self, nursery: trio.Nursery) -> None:
        """`nursery` keeps them."""
        self._keepers = nursery
        self._over = trio.Event()
        self._ended: list[trio.Event] = []

    async def start(self, opened: Callable[[], AbstractAsyncContextManager[Subject]]) -> Subject:
        """Returns a gateway that runs until `close`."""
        subject: Subject = await self._keepers.start(self._keep, opened)
        return subject

    async def close(self) -> None:
        """Ends every gateway. A crash that one had contained fails the nursery with `GatewayCrashed`."""
        self._over.set()
        for each in self._ended:
            await each.wait()

    async def _keep(
        self,
        opened: Callable[[], AbstractAsyncContextManager[Subject]],
        *,
        task_status: trio.TaskStatus[Subject],
    ) -> None:
        ended = trio.Event()
        self._ended.append(ended)
        try:
            async with opened() as subject:
                task_status.started(subject)
                await self._over.wait()
        finally:
            ended.set()


class Options(TypedDict, total=False):
    """What `open_gateway` may be told beside."""

    scripts: Mapping[str, str | Script] | None
    serve_nodes: bool
    host: str | None
    observers: Sequence[Observer]
    max_flows: int | None
    through: Callable[[VirtualHost], Network]


class GatewayFactory(_Started[VirtualGateway]):
    """`await gateway(config)`: a gateway on the test's virtual network."""

    def __init__(self, nursery: trio.Nursery, network: VirtualNetwork) -> None:
        super().__init__(nursery)
        self.network = network

    async def __call__(self, config: Config, **options: Unpack[Options]) -> VirtualGateway:
        """As `open_gateway`, until the end of the test."""
        return await self.start(partial(open_gateway, config, self.network, **options))


EachFactory = Union["GatewayFactory", "RealGatewayFactory"]  # what the fixture `each_gateway` is


class RealGatewayFactory(_Started[RealGateway]):
    """`await real_gateway(config)`: a gateway on loopback, its nodes as real processes."""

    async def __call__(
        self, config: Config, *, scripts: Mapping[str, str] | None = None, serve_nodes: bool = True
    ) -> RealGateway:
        """As `open_real_gateway`, until the end of the test."""
        return await self.start(partial(open_real_gateway, config, scripts=scripts, serve_nodes=serve_nodes))
