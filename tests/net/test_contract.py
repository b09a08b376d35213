"""Runs the contract of the ports against every network there is."""

import importlib
from types import ModuleType

import pytest
import trio
from trio.testing import MockClock

from sniffgate.net.ports import Network

from . import contract_endings, contract_listen, contract_tcp, contract_udp
from .contract import PROMISES, Promise

assert all((contract_endings, contract_listen, contract_tcp, contract_udp))  # imported for the promises they make
REAL_LIMIT = 20.0
"""Seconds that a scenario may take on real sockets before it counts as hanging."""
every_promise = pytest.mark.parametrize("promise", [pytest.param(PROMISES[name], id=name) for name in PROMISES])


def _module(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name == name:
            return None
        raise


async def _in_time(promise: Promise, network: Network) -> None:
    with trio.fail_after(REAL_LIMIT):
        await promise(network)


@pytest.mark.virtual
@every_promise
def test_the_virtual_network_keeps_its_promises(promise: Promise) -> None:
    """Tests on virtual time prove something only as far as the virtual network behaves like a kernel."""
    virtual = _module("sniffgate.testing.virtual")
    if virtual is None:
        pytest.skip("there is no virtual network yet")
    trio.run(promise, virtual.VirtualNetwork(), clock=MockClock(autojump_threshold=0))


@pytest.mark.realnet
@every_promise
def test_the_real_network_keeps_its_promises(promise: Promise) -> None:
    """The adapter hides each oddity of the kernel that the contract denies."""
    sockets = _module("sniffgate.net.sockets")
    if sockets is None:
        pytest.skip("there is no real network yet")
    trio.run(_in_time, promise, sockets.SocketNetwork())
