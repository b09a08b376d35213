"""What `why` answers."""

from ..errors import CommandRefused
from ..tasks.gateway import Gateway


def explanation(gateway: Gateway, node: str) -> dict[str, object]:
    """placeholder"""
    raise CommandRefused(f"{node}: not yet")
