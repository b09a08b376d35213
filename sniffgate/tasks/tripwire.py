"""The tripwire: an idle TCP connection to a node, whose breaking is the first sign that the node died.

It is suspicion only: a server that closes idle connections costs a probe or two, never an ejection. Servers that count
connections broken off before they said anything (MySQL's max_connect_errors) are better left without one.
"""

import trio

from ..config.schema import NodeConfig
from ..errors import LocalShortage, NameUnresolved, PeerReset
from ..net.ports import Conn
from ..state.model import Endpoint, Verdict
from ..state.verdict import verdict_of
from .connect import connect_first
from .services import Services

REOPEN_FIRST = 1.0  # seconds until a broken tripwire is set again, doubled while it keeps breaking early
REOPEN_MOST = 60.0
READ_MOST = 64 * 1024  # bytes of a server that speaks first; what comes after stays in the kernel
_CHUNK = 4096


async def keep_tripwire(services: Services, endpoint: Endpoint) -> None:
    """Keeps a tripwire at the endpoint whenever it is asked for and the endpoint is healthy; runs until cancelled."""
    pause = REOPEN_FIRST
    while True:
        node = await _wait_wanted(services, endpoint)
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_cancel_when_unwanted, services, endpoint, node, nursery.cancel_scope)
            await _hold(services, endpoint, node)
            nursery.cancel_scope.cancel()
        if trio.current_time() - began >= REOPEN_MOST:
            pause = REOPEN_FIRST
        await trio.sleep(pause)
        pause = min(2 * pause, REOPEN_MOST)


async def _wait_wanted(services: Services, endpoint: Endpoint) -> NodeConfig:
    while True:
        state = services.board.state
        node = _wanted(services, endpoint)
        if node is not None:
            return node
        configured = state.config.node(endpoint.node)
        if configured is None or not configured.tripwire:  # 500 nodes without one are not to wake for each other's news
            await services.board.wait_config(state.config)
        else:
            await services.board.wait_revision(state)


async def _cancel_when_unwanted(
    services: Services, endpoint: Endpoint, node: NodeConfig, scope: trio.CancelScope
) -> None:
    """Takes the tripwire down once the endpoint is healthy no more, or is configured otherwise."""
    state = services.board.state
    while (wanted := _wanted(services, endpoint)) is not None and wanted.tcp == node.tcp:
        state = await services.board.wait_revision(state)
    scope.cancel()


def _wanted(services: Services, endpoint: Endpoint) -> NodeConfig | None:
    state = services.board.state
    node = state.config.node(endpoint.node)
    if node is None or not node.tripwire or node.tcp is None or endpoint not in state.health:
        return None
    return node if verdict_of(state, node, endpoint) is Verdict.HEALTHY else None


async def _hold(services: Services, endpoint: Endpoint, node: NodeConfig) -> None:
    """Connects and waits for the connection to break; reports it. Returns also when there is nothing to hold."""
    assert node.tcp is not None
    timeout = services.board.state.config.globals.connect_timeout
    conn: Conn | None = None
    with trio.move_on_after(timeout):
        try:
            addresses = await services.names.addresses(node.tcp)
            conn = await connect_first(services.network, addresses, timeout, lambda *_: None)
        except (NameUnresolved, LocalShortage):
            return
    if conn is None:
        services.reporter.suspected(endpoint)  # a healthy node that takes no connection is worth a look
        return
    with conn:
        await _wait_broken(conn)
    services.reporter.suspected(endpoint)


async def _wait_broken(conn: Conn) -> None:
    left = READ_MOST
    try:
        while left > 0 and (chunk := await conn.receive_some(min(left, _CHUNK))):
            left -= len(chunk)
    except PeerReset:
        return
    if left <= 0:
        await trio.sleep_forever()  # a talkative server: it is not read any more, so its end cannot be seen either
