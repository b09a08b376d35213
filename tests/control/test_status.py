"""What `status` and `stats` say, and that saying it never holds the loop."""

import json
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from sniffgate.address import Address
from sniffgate.config.schema import ListenerConfig, NodeConfig, ProbeKind, Transport
from sniffgate.control.protocol import encode
from sniffgate.control.status import stats, status, status_line
from sniffgate.testing import open_gateway
from tests.control.desk import open_desk
from tests.tasks.configs import GATEWAY, A, B, config_for

ORIGINAL = {
    "": "engine version pid uptime_s now_ms epoch loaded_at_ms strategy config_path active pins listeners nodes reload "
    "recent_switches",
    "active": "tcp udp",
    "pins": "tcp udp",
    "listeners": "name protocol listen",
    "nodes": "name enabled priority weight tcp udp probe remark healthy state last_error last_probe_ms last_change_ms "
    "probe_latency_us passive_fails inflight_tcp draining draining_until_ms stats",
    "stats": "tcp_conns_total tcp_conns_failed tcp_conns_active udp_sessions_total udp_sessions_active bytes_tx "
    "bytes_rx probe_ok probe_fail passive_ejects promotions drain_kills",
    "reload": "at_ms ok message path epoch",
    "recent_switches": "epoch protocol from to reason ts_ms",
}


async def test_every_key_of_the_original_is_there(autojump_clock: MockClock) -> None:
    """Its users' scripts and dashboards read these."""
    async with open_gateway(config_for(A, B)) as service:
        await service.switch("node-b")
        await service.gateway.reload()
        reply: dict[str, Any] = json.loads(await status_line(service.gateway))
        parts = {
            "": reply,
            "active": reply["active"],
            "pins": reply["pins"],
            "listeners": reply["listeners"][0],
            "nodes": reply["nodes"][0],
            "stats": reply["nodes"][0]["stats"],
            "reload": reply["reload"],
            "recent_switches": reply["recent_switches"][0],
        }
        assert {} == {
            name: missing for name, keys in ORIGINAL.items() if (missing := set(keys.split()) - set(parts[name]))
        }


async def test_the_line_and_the_value_say_the_same(autojump_clock: MockClock) -> None:
    """One is made in slices, the other at once, from the same parts."""
    async with open_gateway(config_for(A, B)) as service:
        line = json.loads(await status_line(service.gateway))
        whole = json.loads(encode(status(service.gateway)))
        assert line.pop("now_ms") <= whole.pop("now_ms")
        assert whole == line


async def test_a_nodes_traffic_is_counted_per_transport_and_in_all(autojump_clock: MockClock) -> None:
    """Bytes of flows in progress are in it."""
    async with open_gateway(config_for(A, B)) as service:
        with await service.connect() as conn, service.datagrams() as datagrams:
            await conn.send_all(b"hello")
            await conn.receive_some(100)
            datagrams.send_nowait(b"hi")
            await datagrams.receive()

            (node, _) = json.loads(encode(status(service.gateway)))["nodes"]
            assert (1, 1, 1) == (
                node["inflight_tcp"],
                node["stats"]["tcp_conns_total"],
                node["stats"]["udp_sessions_active"],
            )
            assert (7, 12 + 9) == (node["stats"]["bytes_tx"], node["stats"]["bytes_rx"])
            assert (5, 12) == (
                node["endpoints"]["tcp"]["traffic"]["bytes_tx"],
                node["endpoints"]["tcp"]["traffic"]["bytes_rx"],
            )
            assert [{"listener": "udp", "kind": "active", "flows": 1, "deadline_ms": None}] == node["endpoints"]["udp"][
                "leases"
            ]


@pytest.mark.parametrize(
    ("command", "word", "healthy"),
    [
        ("auto", "healthy", True),
        ("health node-a down", "unhealthy", False),
        ("disable node-a", "disabled", True),
        ("drain node-a 0", "disabled", True),
    ],
)
async def test_the_state_of_a_node_is_one_word(
    autojump_clock: MockClock, command: str, word: str, healthy: bool
) -> None:
    """As the original's users know it."""
    async with open_desk(config_for(A, B)) as desk:
        await trio.sleep(1)
        (node, _) = (await desk.ask(command))["nodes"]
        assert (word, healthy) == (node["state"], node["healthy"])


async def test_a_node_that_nothing_is_known_of_is_unknown_and_usable(autojump_clock: MockClock) -> None:
    """`healthy` says whether it may have traffic."""
    async with open_gateway(config_for(attrs.evolve(A, probe=ProbeKind.NONE))) as service:
        (node,) = json.loads(encode(status(service.gateway)))["nodes"]
        assert ("unknown", True) == (node["state"], node["healthy"])
        assert (None, None) == (node["last_probe_ms"], node["probe_latency_us"])


async def test_what_drains_is_told_until_when(autojump_clock: MockClock) -> None:
    """A node that another is preferred to is healthy and drains all the same."""
    async with open_gateway(config_for(A, B)) as service:
        await trio.sleep(1)
        with await service.connect() as conn:
            await conn.send_all(b"hello")
            await conn.receive_some(100)
            await service.switch("node-b", Transport.TCP)
            await wait_all_tasks_blocked()

            reply = json.loads(encode(status(service.gateway)))
            node = reply["nodes"][0]
            assert ("healthy", True) == (node["state"], node["draining"])
            assert 10_000 == node["draining_until_ms"] - reply["now_ms"]
            assert ["retiring"] == [lease["kind"] for lease in node["endpoints"]["tcp"]["leases"]]


async def test_the_flows_of_a_removed_listener_are_still_told_of(autojump_clock: MockClock) -> None:
    """They drain, and an operator who waits for that must see them."""
    async with open_gateway(config_for(A, B)) as service:
        with await service.connect() as conn:
            await conn.send_all(b"hello")
            await conn.receive_some(100)
            await service.apply(attrs.evolve(service.state.config, listeners=()))
            await wait_all_tasks_blocked()

            (node, _) = json.loads(encode(status(service.gateway)))["nodes"]
            assert ["(removed)"] == [lease["listener"] for lease in node["endpoints"]["tcp"]["leases"]]
            assert node["draining"]


async def test_a_status_does_not_grow_with_clients(autojump_clock: MockClock) -> None:
    """A reply's size is a matter of the configuration alone (numbers may get longer)."""
    async with open_gateway(config_for(A, B)) as service:
        await service.ask()
        before = len(encode(status(service.gateway)))
        conns = [await service.connect() for _ in range(50)]
        for conn in conns:
            await conn.send_all(b"x")
            await conn.receive_some(100)
        assert len(encode(status(service.gateway))) - before < 40
        for conn in conns:
            conn.close()


async def test_stats_count_every_way_a_flow_can_end(autojump_clock: MockClock) -> None:
    """A counter that is not there cannot be watched: all reasons stand there from the start."""
    async with open_gateway(config_for(A, B)) as service:
        await service.ask()
        await trio.sleep(1)
        reply = json.loads(encode(stats(service.gateway)))
        assert 1 == reply["endings"]["complete"]
        assert 0 == reply["endings"]["no_node"]
        assert (0, 0) == (reply["flows"], reply["crashes"])


class Steps(trio.abc.Instrument):
    """Counts the steps of one task."""

    def __init__(self, task: trio.lowlevel.Task) -> None:
        self._task = task
        self.count = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.count += task is self._task


async def test_a_status_of_500_nodes_is_made_in_slices(autojump_clock: MockClock) -> None:
    """Every flow waits while a step runs, so none may have more than a few nodes to do."""
    nodes = [
        NodeConfig(name=f"node-{number:03}", probe=ProbeKind.NONE, tcp=address, udp=address)
        for number in range(500)
        for address in [Address(f"10.1.{number // 200}.{number % 200 + 1}", 80)]
    ]
    listener = ListenerConfig(name="tcp", protocol=Transport.TCP, listen=Address(GATEWAY, 80))
    async with open_gateway(config_for(*nodes, listeners=(listener,))) as service:
        steps = Steps(trio.lowlevel.current_task())
        trio.lowlevel.add_instrument(steps)
        line = await status_line(service.gateway)
        trio.lowlevel.remove_instrument(steps)

        assert 500 == len(json.loads(line)["nodes"])
        assert steps.count >= 500 / 4
