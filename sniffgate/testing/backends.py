"""A backend on the virtual network: it answers by its script, remembers who asked, and has the faults it is told to."""

import contextlib
from collections.abc import Callable

import trio

from ..address import Address
from ..config.schema import Transport
from .faults import Trouble
from .scripts import Client, Script
from .serving import NodeServer
from .serving import Received as Received
from .virtual import VirtualNetwork

Reply = Callable[[bytes], bytes | None]


class Node(NodeServer):
    """A backend on a machine of its own, for TCP, UDP or both, from `await nursery.start(node.serve)` on.

    It follows its `script`. Without one it answers each TCP chunk and each datagram with `name:` and what it received,
    or with what `reply` makes of it (None: no answer), `banner` is sent to each TCP client at once, and a client's end
    of stream is answered with its own. `shares_host`: faults concern its ports alone, since others live on the machine.
    """

    def __init__(
        self,
        network: VirtualNetwork,
        name: str,
        host: str,
        *,
        tcp: int | None = 7000,
        udp: int | None = 7000,
        banner: bytes = b"",
        reply: Reply | None = None,
        script: Script | None = None,
        shares_host: bool = False,
    ) -> None:
        super().__init__(name, script or Script(self._talk, lambda _, data: self.reply(data)))
        self.banner = banner  # this and `reply` may be changed at any time
        self.reply: Reply = reply or (lambda data: f"{name}:".encode() + data)
        self.host = host
        self.tcp = None if tcp is None else Address(host, tcp)
        self.udp = None if udp is None else Address(host, udp)
        self._shares_host = shares_host
        self._network = network
        self._view = network.host(host)

    async def serve(self, *, task_status: trio.TaskStatus["Node"] = trio.TASK_STATUS_IGNORED) -> None:
        """Serves until cancelled; started once every port is bound. Errors: `CannotBind`."""
        with contextlib.ExitStack() as ports:
            acceptor = ports.enter_context(await self._view.listen_tcp(self.tcp)) if self.tcp else None
            port = ports.enter_context(await self._view.listen_udp(self.udp)) if self.udp else None
            async with trio.open_nursery() as tasks:
                if acceptor is not None:
                    tasks.start_soon(self.accept_forever, acceptor, tasks)
                if port is not None:
                    tasks.start_soon(self.answer_forever, port, tasks)
                task_status.started(self)

    async def wait_ready(self) -> None:
        """Returns at once: faults are in force when they have been asked for."""
        await trio.lowlevel.checkpoint()

    async def _talk(self, client: Client) -> None:
        await client.conn.send_all(self.banner)
        while data := await client.receive():
            answer = self.reply(data)
            if answer is not None:
                await client.send(answer)

    # --- what may happen to it: `VirtualNetwork`'s faults, on this node's machine or ports ---------

    def kill(self, transport: Transport | None = None) -> Trouble:
        """The process dies: connections are reset, ports refuse, until `recover`."""
        return self._inflict(self._network.kill, transport)

    def freeze(self, transport: Transport | None = None) -> Trouble:
        """The process stands still, its kernel does not."""
        return self._inflict(self._network.freeze, transport)

    def refuse(self, transport: Transport | None = None) -> Trouble:
        """Refuses what is new; connections go on."""
        return self._inflict(self._network.refuse, transport)

    def black_hole(self, transport: Transport | None = None) -> Trouble:
        """Falls silent, connections included."""
        return self._inflict(self._network.black_hole, transport)

    def unreachable(self, transport: Transport | None = None) -> Trouble:
        """Cannot be reached, and routers say so."""
        return self._inflict(self._network.unreachable, transport)

    def power_off(self) -> Trouble:
        """The machine dies without a word, and with it every node on it."""
        self._network.power_off(self.host)
        return Trouble(lambda: self._network.recover(self.host))

    def close_udp(self) -> Trouble:
        """Refuses datagrams; TCP goes on."""
        return self.refuse(Transport.UDP)

    def slow(self, seconds: float) -> Trouble:
        """Answers come `seconds` late from now on; the kernel is as fast as ever."""
        self.delay = seconds
        return Trouble(self.recover)

    def reset_mid_stream(self, after: int) -> Trouble:
        """Resets each connection that has had `after` bytes of answers, instead of the next one."""
        self.reset_after = after
        return Trouble(self.recover)

    def recover(self, transport: Transport | None = None) -> None:
        """Serves again, as after a restart if it was killed; old connections of a killed node stay dead."""
        for target, each in self._targets(transport):
            self._network.recover(target, each)
        if transport is None:
            self._mend()

    def _mend(self) -> None:
        self.delay, self.reset_after = 0.0, None

    def _inflict(
        self, fault: Callable[[str | Address, Transport | None], None], transport: Transport | None
    ) -> Trouble:
        for target, each in self._targets(transport):
            fault(target, each)
        return Trouble(lambda: self.recover(transport))

    def _targets(self, transport: Transport | None) -> list[tuple[str | Address, Transport | None]]:
        """Where a fault of this node is to be looked for."""
        if not self._shares_host:
            return [(self.host, transport)]
        ports = ((Transport.TCP, self.tcp), (Transport.UDP, self.udp))
        return [(address, each) for each, address in ports if address is not None and transport in (None, each)]
