"""Names that the histories still look for here."""

from sniffgate.testing.embedding import NoJitter as NoJitter
from tests.tasks.configs import GATEWAY as GATEWAY

CLIENT = "10.0.0.9"
