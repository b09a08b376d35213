"""`state` answers the whole routing state and the flows, and making it never holds the loop."""

import json
from pathlib import Path

import attrs
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from sniffgate.address import Address
from sniffgate.config.schema import ListenerConfig, NodeConfig, ProbeKind, Transport
from sniffgate.control.snapshot import flows_in_place, snapshot_line
from sniffgate.state.serial import state_from_json
from sniffgate.tasks.config_file import ConfigFile
from sniffgate.tasks.reload import Reloader
from sniffgate.testing import open_gateway
from tests.control.desk import open_desk
from tests.control.test_status import Steps
from tests.tasks.configs import GATEWAY, A, B, config_for


async def test_the_state_is_the_gateways_own(autojump_clock: MockClock) -> None:
    """Whoever asks the reducer elsewhere must start from the same place."""
    async with open_desk(config_for(A, B)) as desk:
        await trio.sleep(3.5)
        await desk.ask("switch node-b tcp")
        reply = await desk.ask("state")

        assert desk.service.state == state_from_json(json.dumps(reply["state"]))
        assert (3.5, [], {}) == (reply["at"], reply["overruled"], reply["flows"])


async def test_flows_are_counted_by_listener_and_endpoint_unless_they_leave_already(autojump_clock: MockClock) -> None:
    """A flow that drains is no news of the next reload."""
    async with open_desk(config_for(A, B)) as desk:
        await trio.sleep(1)
        conns = [await desk.service.connect() for _ in range(2)]
        for conn in conns:
            await conn.send_all(b"hello")
            await conn.receive_some(100)
        with desk.service.datagrams() as port:
            port.send_nowait(b"hello")
            await port.receive()
            assert {"tcp": {"node-a/tcp": 2}, "udp": {"node-a/udp": 1}} == (await desk.ask("state"))["flows"]
            await desk.ask("switch node-b tcp")
            await wait_all_tasks_blocked()
            assert {"udp": {"node-a/udp": 1}} == flows_in_place(desk.service.gateway)
        for conn in conns:
            conn.close()


async def test_what_the_command_line_overrules_is_named(autojump_clock: MockClock, tmp_path: Path) -> None:
    """Else every plan would find the file's own word a change."""
    async with open_gateway(config_for(A, B)) as service:
        service.gateway.reloader = Reloader(ConfigFile(tmp_path / "none"), overruled=("admin_listen",))

        assert ["admin_listen"] == json.loads(await snapshot_line(service.gateway))["overruled"]


async def test_a_state_of_500_nodes_is_made_in_slices(autojump_clock: MockClock) -> None:
    """Every flow waits while a step runs, so none may have more than a few nodes to do."""
    nodes = [
        NodeConfig(name=f"node-{number:03}", tcp=Address("10.1.0.1", number), probe=ProbeKind.NONE)
        for number in range(1, 501)
    ]
    listener = ListenerConfig(name="tcp", protocol=Transport.TCP, listen=Address(GATEWAY, 80))
    first = nodes[0]
    async with open_gateway(config_for(first, listeners=(listener,))) as service:
        await service.apply(attrs.evolve(service.state.config, nodes=tuple(nodes)))
        steps = Steps(trio.lowlevel.current_task())
        trio.lowlevel.add_instrument(steps)
        line = await snapshot_line(service.gateway)
        trio.lowlevel.remove_instrument(steps)

        assert 500 == len(json.loads(line)["state"]["state"]["config"]["nodes"])
        assert steps.count > 100
