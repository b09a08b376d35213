"""Reloading: the file is read whole, parsed in a thread, checked and bound, and only then applied.

One reload at a time. Whatever is wrong leaves everything as it was, and is said once in the log and in `status`.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs
import trio

from ..config.schema import Config, GlobalConfig
from ..errors import CannotBind, CommandRefused, ConfigError
from .config_file import WRITER_PATIENCE_ASKED, ConfigFile, Settled

if TYPE_CHECKING:
    from .gateway import Gateway, ReloadReport

log = logging.getLogger(__name__)

# what a gateway opens once, when it starts
AT_START_ONLY = ("admin_listen", "event_log", "event_log_max_mb")

Amend = Callable[[Config], Config]
Hook = Callable[[Config], object]


def _as_it_is(config: Config) -> Config:
    return config


def _nothing(config: Config) -> None:
    pass


class Reloader:
    """Brings a gateway to what its file says. `key` is the file's when the gateway was started from it."""

    def __init__(
        self,
        file: ConfigFile,
        key: str = "",
        *,
        amend: Amend = _as_it_is,
        check: Hook = _nothing,
        in_force: Hook = _nothing,
        overruled: tuple[str, ...] = (),
    ) -> None:
        """`amend` has the last word over what was read (the command line's).

        `check` runs in a thread before anything is applied and may refuse with a `ConfigError`; `in_force` hears of
        what was applied. `overruled` names the keys of `[global]` that `amend` decides whatever the file says.
        """
        self.file = file
        self.overruled = overruled
        self._amend = amend
        self._check = check
        self._on_applied = in_force
        self._in_force = key
        self._judged = key
        self._at_start: GlobalConfig | None = None
        self._turn = trio.Lock()

    @property
    def judged(self) -> str:
        """The key of the file as it was read last, whether it was applied or refused."""
        return self._judged

    async def reload(self, gateway: "Gateway", writer_patience: float = WRITER_PATIENCE_ASKED) -> "ReloadReport":
        """Reads the file and applies it; returns how that ended. Never raises for what is the operator's to mend.

        `writer_patience`: seconds that a file which somebody has open for writing may stand still unread.
        """
        async with self._turn:
            if self._at_start is None:
                self._at_start = gateway.state.config.globals
            settled = await self.file.settle(self._in_force, writer_patience)
            self._judged = settled.look.key
            if settled.error is not None:
                return self._refused(gateway, settled.error)
            if settled.config is None:
                log.info("configuration unchanged", extra={"path": self.file.path})
                return gateway.report_reload(ok=True, message="unchanged")
            return await self._apply(gateway, settled, settled.config)

    async def _apply(self, gateway: "Gateway", settled: Settled, config: Config) -> "ReloadReport":
        config = self._amend(config)
        try:
            await trio.to_thread.run_sync(self._check, config)
            state = await gateway.apply(config)
        except (ConfigError, CannotBind, CommandRefused) as error:
            return self._refused(gateway, error)
        self._in_force = settled.look.key
        self._on_applied(config)
        message = f"reloaded, epoch {state.epoch}"
        late = self._late(config.globals)
        if late:
            verb = "takes" if len(late) == 1 else "take"
            message += f"; {', '.join(late)} {verb} effect at the next start"
        log.info(message, extra={"path": self.file.path, "sha256": settled.look.digest[:12]})
        log_warnings(config)
        return gateway.report_reload(ok=True, message=message)

    def _refused(self, gateway: "Gateway", error: Exception) -> "ReloadReport":
        message = str(error)
        log.warning("configuration not reloaded, the old one stays: %s", message.replace("\n", "; "))
        return gateway.report_reload(ok=False, message=message)

    def _late(self, new: GlobalConfig) -> list[str]:
        assert self._at_start is not None
        old = attrs.asdict(self._at_start)
        return [name for name in AT_START_ONLY if old[name] != getattr(new, name)]


def log_warnings(config: Config) -> None:
    """Says what a configuration allows but probably does not mean, a line each."""
    for warning in config.warnings:
        log.warning("%s", warning)
