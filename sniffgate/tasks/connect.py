"""Connecting to a node: all addresses of its name are tried, as one node."""

from collections.abc import Callable

import trio

from ..address import Address
from ..errors import ConnectFailed, LocalShortage
from ..net.ports import Conn, Connecting, Network

STAGGER = 0.25  # seconds after which the next address is tried beside one that hangs (RFC 8305, section 5)


async def connect_first(
    network: Network,
    addresses: tuple[Address, ...],
    timeout: float,
    failed: Callable[[Address, ConnectFailed | LocalShortage], None],
    *,
    user_timeout: float = 0.0,
    begun: Connecting | None = None,
) -> Conn | None:
    """The first connection made to any of `addresses`; None when each has failed, as told to `failed` one by one.

    One that fails makes way for the next at once; beside one that hangs the next starts after a while, short enough
    that the last one still gets its share of `timeout` seconds (which the caller enforces). `begun` is the connect to
    the only address, where that was begun already. *Cancellation:* nothing is left open.
    """
    if len(addresses) == 1:
        try:
            return await (begun or network.begin_connect(addresses[0], user_timeout=user_timeout)).wait()
        except (ConnectFailed, LocalShortage) as error:
            failed(addresses[0], error)
            return None
    stagger = min(STAGGER, timeout / (len(addresses) + 1))
    winners: list[Conn] = []

    async def connect(address: Address, over: trio.Event) -> None:
        try:
            conn = await network.connect_tcp(address, user_timeout=user_timeout)
        except (ConnectFailed, LocalShortage) as error:
            failed(address, error)
            over.set()
            return
        winners.append(conn)
        attempts.cancel_scope.cancel()

    try:
        async with trio.open_nursery() as attempts:
            for address in addresses:
                over = trio.Event()
                attempts.start_soon(connect, address, over)
                with trio.move_on_after(stagger):
                    await over.wait()
        return winners.pop(0) if winners else None
    finally:
        for conn in winners:  # the slower ones, or all when cancelled
            conn.close()
