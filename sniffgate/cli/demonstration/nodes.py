"""The nodes of the demonstration from outside: child processes that can be killed and started again."""

import subprocess
import sys
from pathlib import Path

import trio

from ...address import Address
from ...config.schema import NodeConfig
from ...errors import SniffgateError

SCRIPT = Path(__file__).with_name("node.py")
START_TIMEOUT = 10.0  # seconds until a node must have told its ports
REAP_TIMEOUT = 2.0  # seconds a killed process gets to be gone


class NodeDidNotStart(SniffgateError):
    """A node's process ended, or told nothing, before it was bound."""


class Node:
    """A named node and, while it is up, its process. Started again it is bound to the same ports."""

    def __init__(self, name: str, host: str, priority: int) -> None:
        self.name = name
        self.priority = priority
        self.tcp = Address(host, 0)
        self.udp = Address(host, 0)
        self._process: trio.Process | None = None

    @property
    def pid(self) -> int:
        """Of the process that runs, or ran last."""
        assert self._process is not None
        return self._process.pid

    @property
    def settings(self) -> NodeConfig:
        """The node as the gateway is told about it. Probes over both transports must be answered by the right tag."""
        return NodeConfig(
            name=self.name,
            priority=self.priority,
            tcp=self.tcp,
            udp=self.udp,
            probe_payload=b"probe\n",
            probe_expect=self.name.encode(),
            udp_probe_payload=b"probe",
            udp_probe_expect=self.name.encode(),
        )

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Runs the process until it dies; started once it is bound. *Cancellation:* kills it and waits for its end.

        Errors: `NodeDidNotStart`.
        """
        command = [sys.executable, "-I", str(SCRIPT), self.name, self.tcp.host, str(self.tcp.port), str(self.udp.port)]
        process = await trio.lowlevel.open_process(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # a terminal's Ctrl-C is for the demonstration, which then ends its nodes
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            self._process = process
            tcp_port, udp_port = await self._ports(process.stdout)
            self.tcp, self.udp = Address(self.tcp.host, tcp_port), Address(self.udp.host, udp_port)
            task_status.started()
            await process.wait()
        finally:
            process.kill()
            with trio.move_on_after(REAP_TIMEOUT, shield=True):
                await process.wait()
                await process.stdin.aclose()
                await process.stdout.aclose()

    async def kill(self) -> None:
        """`kill -9`; returns when the process is gone."""
        assert self._process is not None
        self._process.kill()
        await self._process.wait()

    async def _ports(self, output: trio.abc.ReceiveStream) -> tuple[int, int]:
        told = b""
        with trio.move_on_after(START_TIMEOUT):
            while not told.endswith(b"\n"):
                more = await output.receive_some(1024)
                if not more:
                    break
                told += more
        try:
            tcp_port, udp_port = map(int, told.split())
        except ValueError:
            raise NodeDidNotStart(f"{self.name} did not start") from None
        return tcp_port, udp_port
