"""When something is published, and what to wait for.

died = now()
service.nodes["node-a"].kill()
assert exact(await when(service, is_active("node-b")) - died) == 1.02
"""

from collections.abc import Callable

import trio

from ..config.schema import Endpoint, Transport
from ..state.model import State, Verdict
from ..tasks.gateway import Gateway
from .moments import now
from .subject import GatewayUnderTest

PATIENCE = 300.0  # seconds of Trio's clock: a test that waits for what never comes fails there

Predicate = Callable[[State], bool]


async def when(gateway: GatewayUnderTest | Gateway, predicate: Predicate) -> float:
    """The moment at which the published state first fulfils `predicate`. Errors: `trio.TooSlowError` after 300 s."""
    with trio.fail_after(PATIENCE):
        await gateway.wait_for(predicate)
    return now()


def is_active(node: str, transport: Transport = Transport.TCP) -> Predicate:
    """A predicate: `node` alone has the new traffic of every route over `transport`."""
    return lambda state: all((node,) == each.active for key, each in state.routes.items() if key.transport is transport)


def has(node: str, verdict: Verdict, transport: Transport = Transport.TCP) -> Predicate:
    """A predicate: this is the endpoint's own verdict."""
    return lambda state: state.health[Endpoint(node, transport)].verdict is verdict
