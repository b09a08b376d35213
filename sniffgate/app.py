"""The application: the gateway on the real network. One function, three doors.

    gateway = await nursery.start(serve, config)       # in a library or a test
    trio.run(serve_until_signalled, path)              # the command line

`serve` touches no signals, no logging set-up, no process limits and no global state, so several gateways run in one process.
"""

import random
from collections.abc import Sequence

import trio

from .config.schema import Config
from .net.relay import Relay
from .net.relay_tasks import TaskRelay
from .net.resolver import Resolver
from .net.sockets import SocketNetwork
from .tasks.gateway import Companion, Gateway, run_gateway
from .tasks.hub import Observer


async def serve(
    config: Config,
    *,
    companions: Sequence[Companion] = (),
    observers: Sequence[Observer] = (),
    path: str = "",
    max_flows: int | None = None,
    dice: random.Random | None = None,
    task_status: trio.TaskStatus[Gateway] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Runs a gateway on this machine's network; `nursery.start` returns it once every listener is bound.

    Returns after `Gateway.stop`. *Cancellation:* ends it with nothing left behind. Errors: `CannotBind`.
    """
    network = SocketNetwork()
    names = Resolver(network.look_up)
    relay: Relay = TaskRelay()
    try:
        await run_gateway(
            config,
            network=network,
            names=names,
            relay=relay,
            companions=companions,
            observers=observers,
            path=path,
            max_flows=max_flows,
            dice=dice,
            task_status=task_status,
        )
    finally:
        names.close()
