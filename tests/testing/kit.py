"""The configuration that the tests of the kit share."""

from sniffgate.address import Address
from sniffgate.config.schema import Config, GlobalConfig, ListenerConfig, NodeConfig, Transport

GATEWAY = "10.0.0.254"


def service(**globals_: object) -> Config:
    """Two nodes, `node-a` preferred, behind one TCP and one UDP listener; `globals_` are attributes of GlobalConfig."""
    settings = GlobalConfig(**{"drain_timeout": 2.0, **globals_})  # type: ignore[arg-type]  # GlobalConfig's own
    return Config(
        globals=settings,
        listeners=(
            ListenerConfig(name="tcp", protocol=Transport.TCP, listen=Address(GATEWAY, 80)),
            ListenerConfig(name="udp", protocol=Transport.UDP, listen=Address(GATEWAY, 53)),
        ),
        nodes=(node("node-a", "10.0.0.1", 2), node("node-b", "10.0.0.2", 1)),
    )


def node(name: str, host: str, priority: int) -> NodeConfig:
    """A node with both addresses."""
    return NodeConfig(name=name, priority=priority, tcp=Address(host, 7000), udp=Address(host, 7000))
