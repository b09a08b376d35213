"""`sniffgate run -c FILE`, as click reads it; without further options `main` calls `run_process` by itself."""

import click

from .logs import LEVELS


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
    from .process import run_process

    return run_process(path, level, admin)
