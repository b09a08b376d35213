"""The configurations in configs/ are real: they load without a warning and say what their comments promise."""

import pathlib
import shutil
import subprocess

import pytest

from sniffgate.config.load import load_file
from sniffgate.config.schema import Failback, Transport

CONFIGS = pathlib.Path(__file__).parents[1] / "configs"
FILES = sorted(CONFIGS.glob("*.toml"))


def test_the_services_that_people_ask_for_are_there() -> None:
    """A file that is gone would be gone from these tests too."""
    assert ["dns", "failover", "minimal", "postgres", "redis"] == [file.stem for file in FILES]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_each_configuration_loads_without_a_warning(file: pathlib.Path) -> None:
    """They are copied and changed: a fault in one is a fault in many."""
    assert () == load_file(file).warnings


@pytest.mark.parametrize("name", ["redis", "postgres"])
def test_a_database_is_never_hedged_and_never_goes_back_by_itself(name: str) -> None:
    """A second connection would reach the standby, and a returned primary lacks writes."""
    pool = load_file(CONFIGS / f"{name}.toml").pool("default")

    assert (0.0, Failback.MANUAL, 0.0, 0.0, False) == (
        pool.hedge_delay,
        pool.failback,
        pool.drain_timeout,
        pool.failback_drain_timeout,
        pool.fail_open,
    )


def test_the_dns_probe_is_a_query_and_its_expectation_the_answer_s_head() -> None:
    """The bytes were written by hand; here they are taken apart."""
    config = load_file(CONFIGS / "dns.toml")
    query = bytes.fromhex("5347 0100 0001 0000 0000 0000") + b"\0" + bytes.fromhex("0002 0001")

    for node in config.nodes:
        assert query == node.payload(Transport.UDP)
        assert len(query).to_bytes(2, "big") + query == node.payload(Transport.TCP)
        for transport in Transport:
            assert query[:2] + b"\x81\x80" == node.expectation(transport)
    assert {Transport.TCP, Transport.UDP} == {listener.protocol for listener in config.listeners}
    assert 1 == len({listener.listen for listener in config.listeners})


def test_the_unit_reloads_by_sighup_and_may_bind_low_ports() -> None:
    """The lines that the gateway relies on."""
    unit = (CONFIGS / "sniffgate.service").read_text().splitlines()

    for line in (
        "ExecReload=/bin/kill -HUP $MAINPID",
        "KillSignal=SIGTERM",
        "AmbientCapabilities=CAP_NET_BIND_SERVICE",
        "DynamicUser=yes",
        "LimitNOFILE=1048576",
    ):
        assert line in unit


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_understands_the_unit() -> None:
    """A misspelt setting is only a warning to systemd."""
    unit = str(CONFIGS / "sniffgate.service")
    told = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, timeout=30)

    assert "Unknown" not in told.stderr
