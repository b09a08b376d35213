"""The gateway takes as many flows as it has descriptors for, and says what will not fit."""

import resource
import subprocess
import sys

from sniffgate.cli.limits import most_flows, shortfalls
from sniffgate.config.load import load_text
from tests.cli.process import SOON, config

RAISE = """
import resource
from sniffgate.cli.limits import raise_descriptor_limit
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 256))
print(raise_descriptor_limit(), *resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def test_the_soft_limit_is_raised_to_the_hard_one() -> None:
    """The usual soft limit of 1024 is for programs that use select."""
    told = subprocess.run([sys.executable, "-c", RAISE], capture_output=True, text=True, timeout=SOON, check=True)

    assert "256 256 256\n" == told.stdout


def test_a_flow_takes_two_descriptors_and_some_are_kept_back() -> None:
    """Probes and the control port must work when clients have taken all there is."""
    assert 450 == most_flows(1000)
    assert 1 == most_flows(50)
    assert most_flows(resource.getrlimit(resource.RLIMIT_NOFILE)[1]) > 0


def test_what_cannot_fit_is_said() -> None:
    """A bound that can never be reached is a promise that will be broken at the worst time."""
    text = (
        config(settings="udp_max_sessions = 9000") + '[[listeners]]\nname = "dns"\nprotocol = "udp"\nlisten = ":53"\n'
    )
    text += '[[listeners]]\nname = "big"\nprotocol = "tcp"\nlisten = ":80"\nmax_connections = 1000\n'
    loaded = load_text(text, file="test")

    assert [] == shortfalls(loaded, 1_000_000)
    assert [
        "listener dns: udp_max_sessions is 9000, but the limit of 1000 open files allows 450 flows in all",
        "listener big: max_connections is 1000, but the limit of 1000 open files allows 450 flows in all",
    ] == shortfalls(loaded, 1000)


def test_the_default_bound_of_sessions_is_no_promise() -> None:
    """A warning about what nobody wrote, at each start and reload, teaches operators to read none."""
    text = config() + '[[listeners]]\nname = "dns"\nprotocol = "udp"\nlisten = ":53"\n'

    assert [] == shortfalls(load_text(text, file="test"), 1000)
