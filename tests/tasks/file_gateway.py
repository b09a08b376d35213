"""A gateway started from a real file, on the virtual network: for tests of what changes of the file do."""

# ruff: noqa: ASYNC110, ASYNC240 - a test may wait for its own disk, and what it waits for elsewhere has no event

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from sniffgate.config.load import load_text
from sniffgate.tasks.config_file import ConfigFile, digest_of
from sniffgate.tasks.gateway import Gateway
from sniffgate.tasks.reload import Reloader
from sniffgate.testing import open_gateway

SOON = 20.0  # seconds of real time, far more than anything here takes
CONFIG = """
[global]
config_poll_interval_ms = 10
{settings}
[[listeners]]
name = "web"
protocol = "tcp"
listen = "{listen}"
[[nodes]]
name = "{node}"
tcp = "10.0.0.1:80"
probe = "none"
"""


def config(node: str = "node-a", *, listen: str = "10.0.0.9:80", settings: str = "") -> str:
    """A small configuration."""
    return CONFIG.format(node=node, listen=listen, settings=settings)


def nodes_of(gateway: Gateway) -> list[str]:
    """The names of the nodes in force."""
    return [node.name for node in gateway.state.config.nodes]


async def wait_for_node(gateway: Gateway, name: str) -> None:
    """Returns once the configuration in force has that node, and the reload that brought it has ended."""
    await gateway.wait_for(lambda state: state.config.node(name) is not None)
    while (report := gateway.reload_report) is None or not report.ok or report.epoch < gateway.state.epoch:
        await trio.sleep(0.002)


async def wait_until_said(caplog: pytest.LogCaptureFixture, part: str) -> None:
    """Returns once the log has a line with `part`."""
    while not said(caplog, part):
        await trio.sleep(0.005)


def said(caplog: pytest.LogCaptureFixture, part: str) -> list[str]:
    """The log's lines with `part`."""
    return [record.getMessage() for record in caplog.records if part in record.getMessage()]


@asynccontextmanager
async def gateway_from(path: Path) -> AsyncIterator[Gateway]:
    """Runs a gateway that `path` describes, under a time limit; it has its reloader and no watcher yet."""
    logging.getLogger("sniffgate").setLevel(logging.INFO)
    content = path.read_bytes()
    config = load_text(content, file=str(path))
    with trio.fail_after(SOON):
        async with open_gateway(config, serve_nodes=False, path=str(path)) as service:
            service.gateway.reloader = Reloader(ConfigFile(path), digest_of(content))
            yield service.gateway
