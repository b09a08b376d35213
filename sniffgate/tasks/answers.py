"""Names that change: flows to an address that left its name's answer retire."""

from collections.abc import Callable

import trio

from ..errors import NameUnresolved
from .leases import Lease, LeaseBook
from .services import Services

GONE_AFTER = 2.0  # seconds: an answer may leave out an address for a moment (round-robin DNS, a resolver switched over)
LOOK_EVERY = 0.5


async def watch_answers(services: Services, leases: LeaseBook, follow: Callable[[], object]) -> None:
    """Marks leases whose address has left the name's answer for good and calls `follow`; runs until cancelled.

    While DNS fails the last good answer stands, so an outage retires nothing.
    """
    while True:
        await leases.wait_named()
        changed = False
        for lease in leases.named():
            present = await _is_in_answer(services, lease)
            changed |= _mark(lease, trio.current_time(), present)
        if changed:
            follow()
        await trio.sleep(LOOK_EVERY)


async def _is_in_answer(services: Services, lease: Lease) -> bool:
    try:
        return lease.address in await services.names.addresses(lease.subject.configured)
    except NameUnresolved:
        return True


def _mark(lease: Lease, now: float, present: bool) -> bool:
    """True when `lease.gone` changed."""
    if present:
        lease.missing_since = None
    elif lease.missing_since is None:
        lease.missing_since = now
    gone = lease.missing_since is not None and now - lease.missing_since >= GONE_AFTER
    changed = gone != lease.gone
    lease.gone = gone
    return changed
