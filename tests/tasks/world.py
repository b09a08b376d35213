"""Names that some tests still look for here; they live in `sniffgate.testing` and `configs`."""

from sniffgate.testing import VirtualGateway as World
from sniffgate.testing import open_gateway as running
from sniffgate.testing.embedding import NoJitter
from tests.tasks.configs import GATEWAY, A, B, C, config_for, node_at

CLIENT = "10.0.0.9"

__all__ = ["CLIENT", "GATEWAY", "A", "B", "C", "NoJitter", "World", "config_for", "node_at", "running"]
