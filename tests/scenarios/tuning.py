"""The tuning that all scenarios share, and what its tests look at in a virtual service."""

from typing import Any

from sniffgate.config.schema import Transport
from sniffgate.state.model import Endpoint, Verdict
from sniffgate.testing import VirtualGateway, has, now, when

TCP, UDP = Transport.TCP, Transport.UDP
INTERVAL, FAST, TIMEOUT, HEDGE = 0.1, 0.02, 0.3, 0.2
TUNING: dict[str, Any] = {
    "probe_interval": INTERVAL,
    "probe_fast_interval": FAST,
    "probe_timeout": TIMEOUT,
    "connect_timeout": 0.5,
    "hedge_delay": HEDGE,
    "drain_timeout": 1.0,
    "config_poll_interval": 0.1,
    "failure_threshold": 3,
    "success_threshold": 2,
    "passive_eject_threshold": 3,
    "passive_eject_window": 5.0,
}
WORDS: dict[str, Any] = {  # what makes silence a failure on both transports
    "probe_payload": b"ping",
    "probe_expect": b"ping",
    "udp_probe_payload": b"ping",
    "udp_probe_expect": b"ping",
}


async def just_after_a_probe(service: VirtualGateway, transport: Transport = TCP) -> float:
    """Waits until node-a is known to be healthy, then for its next probe: the worst moment for a failure."""
    await when(service, has("node-a", Verdict.HEALTHY, transport))
    return await after_next_probe(service, transport)


async def after_next_probe(service: VirtualGateway, transport: Transport = TCP) -> float:
    """Waits for the result of node-a's next probe; this moment."""
    endpoint = Endpoint("node-a", transport)
    seen = service.gateway.state.health[endpoint].last_probe_at
    await when(service, lambda state: state.health[endpoint].last_probe_at != seen)
    return now()
