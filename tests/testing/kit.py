"""The configuration that the tests of the kit share."""

from sniffgate.config.schema import Config
from tests.tasks.configs import GATEWAY as GATEWAY
from tests.tasks.configs import TCP_DOOR, UDP_DOOR, A, B, config_for


def service(**globals_: object) -> Config:
    """Two nodes, `node-a` preferred, behind one TCP and one UDP listener; `globals_` are attributes of GlobalConfig."""
    return config_for(A, B, pools=(), listeners=(TCP_DOOR, UDP_DOOR), **{"drain_timeout": 2.0, **globals_})
