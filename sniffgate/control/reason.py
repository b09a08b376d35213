"""What `why` answers: the explanation as values, and the same as lines for a person."""

from ..state.why import as_json, as_text, explain
from ..tasks.gateway import Gateway


def explanation(gateway: Gateway, node: str) -> dict[str, object]:
    """Why `node` is or is not active, and what would change that. Errors: `CommandRefused` for an unknown name."""
    found = explain(gateway.state, node, now=gateway.services.clock.now())
    return {**as_json(found), "text": as_text(found)}
