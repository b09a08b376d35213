"""What `state` answers: all that the plan of a reload is made from, in one line."""

from collections import defaultdict
from collections.abc import Mapping

import trio

from ..state.serial import state_pieces
from ..state.terms import LeaseKind
from ..tasks.gateway import Gateway
from .protocol import encode

SLICE = 8  # pieces of the state between two checkpoints: about a third of a millisecond


async def snapshot_line(gateway: Gateway) -> bytes:
    """The state as the event log writes it, with the flows of that moment, as one line of JSON made in slices."""
    state = gateway.state
    overruled = gateway.reloader.overruled if gateway.reloader is not None else ()
    head = {"ok": True, "at": gateway.services.clock.now(), "overruled": overruled, "flows": flows_in_place(gateway)}
    parts = [encode(head)[:-2], b',"state":']
    await trio.lowlevel.checkpoint()
    for number, piece in enumerate(state_pieces(state), 1):
        parts.append(piece.encode("ascii"))
        if number % SLICE == 0:
            await trio.lowlevel.checkpoint()
    return b"".join((*parts, b"}\n"))


def flows_in_place(gateway: Gateway) -> Mapping[str, Mapping[str, int]]:
    """The flows that nothing has asked to leave yet: listener → endpoint → how many."""
    found: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for listener in gateway.listeners.values():
        counts = found[listener.settings.name]
        for lease in listener.leases:
            if lease.flows and lease.terms.kind is not LeaseKind.RETIRING:
                counts[str(lease.endpoint)] = counts.get(str(lease.endpoint), 0) + lease.flows
    return {name: counts for name, counts in found.items() if counts}
