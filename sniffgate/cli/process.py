"""The gateway as a process: limits, logging, the interpreter's settings, and the exit status."""

import gc
import logging
import os

import trio

from ..app import serve_until_signalled, tune_interpreter
from ..config.schema import Config
from ..errors import CannotBind, ConfigError
from ..tasks.gateway import Gateway
from ..tasks.writer import LineWriter
from . import BEGAN
from .limits import most_flows, raise_descriptor_limit, shortfalls
from .logs import set_level, set_up_logging
from .outcome import INTERNAL_ERROR

LAST_WORDS_WITHIN = 1.0  # seconds that whoever reads stderr has to take the last lines
CANNOT_BIND = 3

log = logging.getLogger("sniffgate")


def run_process(path: str, level: str | None = None, admin: str | None = None) -> int:
    """Runs the gateway of a file until a signal; returns 0 after one, 1 for a bad file, 3 when it cannot bind."""
    gc.disable()  # what the start makes stays: walking it again and again costs it a fifth of its time
    _fill_standard_descriptors()
    writer = LineWriter(2)
    set_up_logging(level or "info", writer)
    descriptors = raise_descriptor_limit()

    def in_force(config: Config) -> None:
        set_level(level or config.globals.log_level)
        for sentence in shortfalls(config, descriptors):
            log.warning("%s", sentence)

    async def settle_down(_gateway: Gateway) -> None:
        await trio.lowlevel.checkpoint()
        tune_interpreter()
        gc.enable()

    async def serve() -> None:
        await serve_until_signalled(
            path,
            admin=admin,
            max_flows=most_flows(descriptors),
            in_force=in_force,
            companions=[settle_down],
            began=BEGAN,
        )

    try:
        trio.run(serve)
        status = 0
    except ConfigError as error:
        for fault in error.faults:
            writer.put(f"Error: {fault}")
        status = 1
    except CannotBind as error:
        writer.put(f"Error: {error}")
        status = CANNOT_BIND
    except Exception:
        log.critical("internal error", exc_info=True)
        writer.put("Error: internal error; its traceback stands above.")
        status = INTERNAL_ERROR
    finally:
        logging.shutdown()
        writer.close(LAST_WORDS_WITHIN)
    return status


def _fill_standard_descriptors() -> None:
    """Opens /dev/null where standard input, output or error is closed: else a client's socket would become one."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
