"""docs/control.md lists every key, command, reason and limit that there is, and no others."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from trio.testing import MockClock

from sniffgate.control.commands import USAGE
from sniffgate.control.protocol import encode
from sniffgate.control.snapshot import snapshot_line
from sniffgate.control.status import DROP_REASONS, SHORTAGES, stats, status
from sniffgate.net.relay import EndReason
from sniffgate.state.model import SwitchReason
from sniffgate.testing import open_gateway
from tests.tasks.configs import A, B, config_for

PAGE = (Path(__file__).parents[2] / "docs" / "control.md").read_text()


def section(title: str) -> str:
    return re.split(r"^##+ ", PAGE.partition(f"# {title}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]


def listed(title: str) -> set[str]:
    """What stands in backquotes in the first column of a section's table."""
    rows = [re.split(r"(?<!\\)\|", line)[1] for line in section(title).splitlines() if line.startswith("| `")]
    return {key.replace("\\|", "|") for row in rows for key in re.findall(r"`([^`]+)`", row)}


def keys(value: Any, path: str = "") -> Iterator[str]:
    """The documented name of every leaf, and of what may be empty."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        for each in value:
            yield from keys(each, f"{path}[]")
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from keys(each, f"{path}.{key}" if path else key)
    else:
        yield path


def general(key: str) -> str:
    key = re.sub(r"^pools\.default\.(tcp|udp)", "pools.<name>.<tcp|udp>", key)
    return re.sub(r"endpoints\.(tcp|udp)", "endpoints.<tcp|udp>", key)


async def test_every_key_of_status_is_documented_and_no_other(autojump_clock: MockClock) -> None:
    """The page is the contract of whoever parses it."""
    async with open_gateway(config_for(A, B)) as service:
        with await service.connect() as conn:
            await conn.send_all(b"hello")
            await conn.receive_some(100)
            await service.gateway.reload()
            service.nodes["node-a"].kill()
            await service.wait_for(lambda state: state.switches[-1].reason is SwitchReason.FAILOVER)
            reply = json.loads(encode(status(service.gateway)))
    found = {general(key) for key in keys(reply)}
    leaves = {key for key in found if not key.endswith(".leases")}

    assert listed("status") - {"reload", "recent_switches[]", "incidents[]"} == leaves


async def test_every_key_of_stats_is_documented_and_no_other(autojump_clock: MockClock) -> None:
    """And the lists behind them are closed."""
    async with open_gateway(config_for(A, B)) as service:
        reply = json.loads(encode(stats(service.gateway)))
    tables = {"endings": "endings.<reason>", "dropped_datagrams": "dropped_datagrams.<reason>"}
    assert listed("stats") == {{**tables, "shortages": "shortages.<where>"}.get(key, key) for key in reply}
    assert {reason.value for reason in EndReason} == set(reply["endings"]) == listed("Why flows end")
    assert set(DROP_REASONS) == set(reply["dropped_datagrams"]) == listed("Why datagrams are dropped")
    assert all(f"`{where}`" in section("stats") for where in SHORTAGES)


def test_the_reasons_for_drops_and_shortages_are_those_of_the_code() -> None:
    """A new one must be documented."""
    tasks = Path(__file__).parents[2] / "sniffgate" / "tasks"
    source = "".join(path.read_text() for path in tasks.glob("*.py"))
    assert set(re.findall(r'\.drop\("(\w+)"\)', source)) <= set(DROP_REASONS)
    assert set(re.findall(r'shortages\["(\w+)"\]', source)) == set(SHORTAGES)


async def test_every_key_of_state_is_documented_and_no_other(autojump_clock: MockClock) -> None:
    """What is in the state itself is the event log's schema."""
    async with open_gateway(config_for(A, B)) as service:
        reply = json.loads(await snapshot_line(service.gateway))

    assert listed("state") == set(reply)


@pytest.mark.parametrize("name", list(USAGE))
def test_every_command_is_documented_in_both_forms(name: str) -> None:
    """As help shows it."""
    usage = USAGE[name][0].replace("|", "\\|")
    assert f'| `{usage}` | `{{"cmd":"{name}"' in section("Commands")
