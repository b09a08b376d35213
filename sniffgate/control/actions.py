"""Carrying out commands: a command in, the line of its reply out."""

from typing import Protocol

import trio

from ..errors import CommandRefused
from ..tasks.gateway import Gateway
from .commands import (
    USAGE,
    Auth,
    Auto,
    Command,
    Disable,
    Drain,
    Enable,
    Events,
    Health,
    Help,
    Quit,
    Reload,
    Snapshot,
    Stats,
    Status,
    Switch,
    Why,
)
from .protocol import encode, error_line
from .reason import explanation
from .recent import Transition
from .snapshot import snapshot_line
from .status import in_slices, stats, status_line


class Memory(Protocol):
    """What the gateway itself does not keep; `Recent` is one."""

    @property
    def lost_lines(self) -> int | None:
        """Lines that the event log could not record; None when there is no event log."""
        ...

    def last(self, count: int) -> list[Transition]:
        """The last `count` transitions, oldest first."""
        ...


async def carry_out(command: Command, gateway: Gateway, memory: Memory | None) -> bytes:
    """Does what `command` asks and returns the reply, one line with its end. A refusal is a reply too."""
    await trio.lowlevel.checkpoint()
    try:
        return await _reply(command, gateway, memory)
    except CommandRefused as error:
        return error_line(str(error))


async def _reply(command: Command, gateway: Gateway, memory: Memory | None) -> bytes:
    match command:
        case Status():
            return await status_line(gateway)
        case Stats():
            return encode(stats(gateway, memory.lost_lines if memory is not None else None))
        case Reload():
            return await _reload(gateway)
        case Why(node):
            return encode({"ok": True, **explanation(gateway, node)})
        case Events(count):
            kept = memory.last(count) if memory is not None else []
            return b'{"ok":true,"events":[' + await in_slices(kept, lambda each: encode(each)[:-1]) + b"]}\n"
        case Snapshot():
            return await snapshot_line(gateway)
        case Help():
            commands = [{"usage": usage, "meaning": meaning} for usage, meaning in USAGE.values()]
            return encode({"ok": True, "commands": commands})
        case Auth() | Quit():
            raise AssertionError("the conversation answers these itself")
        case _:
            await _ask(command, gateway)
            await trio.lowlevel.checkpoint()  # the listeners were woken with us: now their leases follow the new state
            return await status_line(gateway)


async def _ask(command: Switch | Auto | Enable | Disable | Drain | Health, gateway: Gateway) -> None:
    match command:
        case Switch(node, transport):
            await gateway.switch(node, transport)
        case Auto(transport):
            await gateway.release(transport)
        case Enable(node):
            await gateway.enable(node)
        case Disable(node):
            await gateway.disable(node)
        case Drain(node, seconds):
            await gateway.drain(node, seconds)
        case Health(node, mark):
            await gateway.mark(node, mark)


async def _reload(gateway: Gateway) -> bytes:
    report = await gateway.reload()
    if not report.ok:
        return error_line(report.message)
    return encode({"ok": True, "message": report.message, "path": report.path, "epoch": report.epoch})
