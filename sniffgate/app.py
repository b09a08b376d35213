"""The application: the gateway on the real network. One function, three doors.

    gateway = await nursery.start(serve, config)       # in a library or a test
    trio.run(serve_until_signalled, path)              # the command line

`serve` touches no signals, no logging set-up, no process limits and no global state, so several gateways run in one
process.
"""

import functools
import gc
import logging
import os
import random
import select
import sys
import time
from collections.abc import Awaitable, Callable, Sequence

import attrs
import trio

from .config.load import load_text, read_file
from .config.schema import Config
from .control.files import event_log_faults, token_faults
from .control.listening import ControlSocket, open_control
from .control.recent import Recent
from .errors import CannotBind, ConfigError, Fault
from .net.engine import EngineRelay
from .net.relay import Relay
from .net.relay_tasks import TaskRelay
from .net.resolver import Resolver
from .net.sockets import SocketNetwork
from .tasks.config_file import ConfigFile, digest_of, is_regular
from .tasks.gateway import Companion, Gateway, run_gateway
from .tasks.hub import Observer
from .tasks.recording import Recording
from .tasks.reload import Reloader, log_warnings
from .tasks.signals import SIGNALS, obey_signals
from .tasks.watch import watch_config

log = logging.getLogger("sniffgate")

RECORDING_PATIENCE = 2.0  # seconds the event log's last lines may take to reach the disk
# Objects more than at the last collection, then collections of each kind: a seventh as many small ones as the default
# (700, 10, 10) makes, and as many full ones. Fewer of those were measured to cost 20 MB under a mixed load.
COLLECT_AFTER = (5_000, 5, 3)
SWITCH_INTERVAL = 0.0005  # seconds that Trio's thread and the relay engine may make each other wait


async def serve(
    config: Config,
    *,
    companions: Sequence[Companion] = (),
    observers: Sequence[Observer] = (),
    path: str = "",
    max_flows: int | None = None,
    dice: random.Random | None = None,
    task_status: trio.TaskStatus[Gateway] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Runs a gateway on this machine's network; `nursery.start` returns it once every listener is bound.

    Returns after `Gateway.stop`. *Cancellation:* ends it with nothing left behind. Errors: `CannotBind`.
    """
    network = SocketNetwork()
    names = Resolver(network.look_up)
    relay = open_relay()
    try:
        await run_gateway(
            config,
            network=network,
            names=names,
            relay=relay,
            companions=companions,
            observers=observers,
            path=path,
            max_flows=max_flows,
            dice=dice,
            task_status=task_status,
        )
    finally:
        names.close()


def open_relay() -> Relay:
    """The relay of this platform: the engine where there is epoll and splice, two tasks a flow elsewhere."""
    return EngineRelay() if hasattr(select, "epoll") and hasattr(os, "splice") else TaskRelay()


def tune_interpreter() -> None:
    """Makes this process as prompt as a gateway should be; for its owner to call once, when all is set up.

    Three things that `serve` leaves alone, since they are the whole process's. The interpreter's lock changes hands
    every 0.5 ms instead of every 5, which is what one thread with a long step can make the other wait. And what exists
    by now is left out of garbage collections for good: a full one walks it for 5 to 10 ms, in which no byte moves. And
    there are fewer collections: what a flow leaves is freed without one, and when thousands are cut together they
    would take half of the time.
    """
    sys.setswitchinterval(SWITCH_INTERVAL)
    gc.set_threshold(*COLLECT_AFTER)
    gc.freeze()


async def serve_until_signalled(
    path: str | os.PathLike[str],
    *,
    admin: str | None = None,
    max_flows: int | None = None,
    in_force: Callable[[Config], object] | None = None,
    companions: Sequence[Companion] = (),
    began: float | None = None,
) -> None:
    """Runs the gateway that the file at `path` describes, with its control port, until SIGTERM or SIGINT.

    The first of them stops it within `shutdown_grace_ms`, the second at once. SIGHUP and changes of the file reload it.
    `admin` overrules the file's `admin_listen`; `in_force` hears of every configuration that is put in force, the first
    before anything is bound. `began` is when the process did, in seconds of `time.perf_counter`. Main thread only.
    Errors: `ConfigError`, `CannotBind`, both before a client was taken.
    """
    refusal: ConfigError | CannotBind | None = None
    with trio.open_signal_receiver(*SIGNALS) as signals:
        run = _FileRun(os.fspath(path), admin, in_force or (lambda _: None), began or time.perf_counter())
        async with trio.open_nursery() as beside:
            run.starting = beside.cancel_scope
            beside.start_soon(functools.partial(obey_signals, signals, stop=run.stop, reload=run.reload))
            try:
                await run.serve(max_flows, companions)
            except (ConfigError, CannotBind) as error:  # kept for outside: the nursery would wrap it in a group
                refusal = error
            beside.cancel_scope.cancel()
    if refusal is not None:
        raise refusal


@attrs.define(eq=False)
class _FileRun:
    """A gateway that was started from a file, and what stands beside it."""

    path: str
    admin: str | None
    in_force: Callable[[Config], object]
    began: float
    starting: trio.CancelScope | None = None
    gateway: Gateway | None = None
    recording: Recording | None = None

    def stop(self, grace: float | None) -> None:
        """Ends the gateway, or its start."""
        if self.gateway is not None:
            self.gateway.stop(grace)
        elif self.starting is not None:
            self.starting.cancel()

    async def reload(self) -> None:
        """Reads the file again, and opens the event log again; nothing to do while starting."""
        await trio.lowlevel.checkpoint()
        if self.gateway is None:
            return
        if self.recording is not None:
            self.recording.reopen(self.gateway.state)
        await self.gateway.reload()

    def amended(self, config: Config) -> Config:
        """The configuration with the command line's last word."""
        if self.admin is None:
            return config
        return attrs.evolve(config, globals=attrs.evolve(config.globals, admin_listen=self.admin))

    async def serve(self, max_flows: int | None, companions: Sequence[Companion]) -> None:
        """Runs from reading the file to the event log's last line."""
        content = read_file(self.path)
        config = self.amended(load_text(content, file=self.path))
        self.in_force(config)
        log_warnings(config)
        _refuse(token_faults(config, self.path) + event_log_faults(config, self.path))
        control = await _open_control(config)
        recording, recent = Recording(config), Recent()
        self.recording = recording
        recent.count_lost_lines = lambda: recording.lost
        reloader = Reloader(
            ConfigFile(self.path),
            digest_of(content),
            amend=self.amended,
            check=lambda new: _refuse(token_faults(new, self.path)),
            in_force=self.in_force,
            overruled=() if self.admin is None else ("admin_listen",),
        )

        async def keep_company(gateway: Gateway) -> None:
            self.gateway = gateway
            gateway.reloader = reloader
            recent.follow(gateway.services.incidents)
            recording.begin(gateway.state)
            self._say_ready(gateway, control)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._watch, gateway, reloader)
                if control is not None:
                    nursery.start_soon(_serve_control, control, gateway, recent)

        try:
            await serve(
                config,
                companions=[keep_company, *companions],
                observers=[recording.observe, recent.observe],
                path=self.path,
                max_flows=max_flows,
            )
        finally:
            if control is not None:
                control.close()
            with trio.move_on_after(RECORDING_PATIENCE, shield=True):
                await recording.close()

    async def _watch(self, gateway: Gateway, reloader: Reloader) -> None:
        if is_regular(self.path):
            watch = functools.partial(watch_config, gateway, reloader)
            await gateway.services.run_again_after_crashes("the config watcher", watch)
        else:
            log.info("not a regular file: its changes are not noticed", extra={"path": self.path})

    def _say_ready(self, gateway: Gateway, control: ControlSocket | None) -> None:
        listeners = " ".join(f"{name}={address}" for name, address in gateway.addresses.items())
        took = (time.perf_counter() - self.began) * 1000
        admin = control.address if control is not None else "off"
        log.info("ready", extra={"listeners": listeners, "admin": admin, "config": self.path, "ms": f"{took:.0f}"})


async def _serve_control(control: ControlSocket, gateway: Gateway, recent: Recent) -> None:
    serve_control = await trio.to_thread.run_sync(_import_control_server)
    await serve_control(control, gateway, recent)


def _import_control_server() -> Callable[[ControlSocket, Gateway, Recent], Awaitable[None]]:
    """Called in a thread once clients are served: they wait neither for its imports nor for a step as long as those."""
    from .control.server import serve_control

    return serve_control


async def _open_control(config: Config) -> ControlSocket | None:
    if not config.globals.admin_listen:
        return None
    return await open_control(config.globals.admin_listen, config.globals.admin_token_file, SocketNetwork())


def _refuse(faults: list[Fault]) -> None:
    if faults:
        raise ConfigError(*faults)
