"""How a relayed flow says goodbye, whoever moved its bytes: which side gets an end of stream, which a reset."""

import trio

from .ports import Conn
from .relay import EndReason

PATIENCE = 5.0  # seconds that a reader may stand still before a pending reset stops waiting for it


def say_farewell(client: Conn, node: Conn, reason: EndReason | None, *, client_was_ended: bool, holding: bool) -> None:
    """Closes both sides, synchronously, each in the way that tells its peer what became of the stream.

    `reason` is None for a cut. `client_was_ended`: the client has had the node's end of stream. `holding`: bytes of
    the flow are still in our hands, or a write had failed.
    """
    if reason is EndReason.COMPLETE:
        reset_client = reset_node = False
    elif reason is EndReason.CLIENT_RESET:
        reset_client, reset_node = False, True
    elif reason is EndReason.NODE_RESET:
        # After its end of stream a reset could only destroy, on some systems, what the client has not read.
        reset_client, reset_node = not client_was_ended or client.unsent() > 0, False
    else:
        reset_client = reset_node = holding or bool(client.unsent() or node.unsent())
    (client.abort if reset_client else client.close)()
    (node.abort if reset_node else node.close)()


async def wait_delivered(conn: Conn) -> None:
    """Returns when the peer's machine has all that was sent to it, or has taken nothing for `PATIENCE` seconds.

    The kernel has no event for an emptied send queue, so this polls: at once, then ever less often.
    """
    left, pause = conn.unsent(), 0.001
    give_up = trio.current_time() + PATIENCE
    while left and trio.current_time() < give_up:
        await trio.sleep_until(min(trio.current_time() + pause, give_up))
        pause = min(2 * pause, 0.05)
        before, left = left, conn.unsent()
        if left < before:
            give_up = trio.current_time() + PATIENCE
