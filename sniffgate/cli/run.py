"""`sniffgate run -c FILE`: the gateway as a process."""

import gc
import logging
import os

import click

from ..tasks.gateway import Gateway
from . import BEGAN
from .limits import most_flows, raise_descriptor_limit, shortfalls
from .logs import LEVELS, set_level, set_up_logging

LAST_WORDS_WITHIN = 1.0  # seconds that whoever reads stderr has to take the last lines
CANNOT_BIND = 3
INTERNAL_ERROR = 70

log = logging.getLogger("sniffgate")


@click.command("run")
@click.option("-c", "--config", "path", required=True, metavar="FILE", help="The configuration, in TOML.")
@click.option("--log", "level", type=click.Choice([*LEVELS]), help="Overrules the file's log_level.")
@click.option("--admin", metavar="ADDR", help='Overrules the file\'s admin_listen; "" is no control port.')
def run(path: str, level: str | None, admin: str | None) -> int:
    """Run the gateway that a configuration file describes.

    It takes changes of the file by itself and on SIGHUP. SIGTERM or Ctrl-C stops it: flows may finish for
    shutdown_grace_ms, a second signal cuts them. Logs go to stderr.

    Ends with 0 after a signal, with 1 when the file cannot be used, with 3 when an address cannot be bound.
    """
    import trio

    from ..app import serve_until_signalled, tune_interpreter
    from ..config.schema import Config
    from ..errors import CannotBind, ConfigError
    from ..tasks.writer import LineWriter

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
