"""`sniffgate check FILE`: all that is wrong with a configuration, at once."""

import json
import sys

import attrs
import click

from ..config.load import load_text, read_file
from ..config.schema import Config
from ..errors import ConfigError


@click.command("check")
@click.argument("file", type=click.Path(allow_dash=True))
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout instead.")
def check(file: str, as_json: bool) -> int:
    """Check the configuration FILE ("-": standard input): one line on stderr for each fault and each warning.

    Ends with 0 when it can be used, with 1 when it cannot.
    """
    try:
        config = _with_files(load(file), file)
    except ConfigError as error:
        if as_json:
            _print_json(error, None)
        for fault in () if as_json else error.faults:
            click.echo(str(fault), err=True)
        return 1
    if as_json:
        _print_json(None, config)
        return 0
    for warning in config.warnings:
        click.echo(f"warning: {warning}", err=True)
    click.echo(f"{file}: ok, {_counted(len(config.listeners), 'listener')}, {_counted(len(config.nodes), 'node')}")
    return 0


def load(file: str) -> Config:
    """The configuration in `file`, "-" for standard input. Errors: `ConfigError`."""
    if file == "-":
        return load_text(sys.stdin.buffer.read(), file="<stdin>")
    return load_text(read_file(file), file=file)


def _with_files(config: Config, file: str) -> Config:
    """The configuration, warned of files that another machine or user may have. Errors: `ConfigError` for a bad token.

    A template is often checked elsewhere, so what is merely not here is a warning.
    """
    from ..control.files import event_log_faults, is_for_us, token_faults

    name = "<stdin>" if file == "-" else file
    token, missing = token_faults(config, name), event_log_faults(config, name)
    if token and is_for_us(config.globals.admin_token_file):
        raise ConfigError(*token)
    return attrs.evolve(config, warnings=(*config.warnings, *map(str, token + missing)))


def _print_json(error: ConfigError | None, config: Config | None) -> None:
    faults = error.faults if error is not None else ()
    found = {
        "ok": error is None,
        "faults": [
            {"file": fault.file, "line": fault.line, "key": fault.key, "message": fault.message} for fault in faults
        ],
        "warnings": list(config.warnings) if config is not None else [],
    }
    click.echo(json.dumps(found))


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
