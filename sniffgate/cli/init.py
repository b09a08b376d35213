"""`sniffgate init`: a commented example to begin with."""

import click


@click.command("init")
def init() -> None:
    """Print a commented example configuration, every key with its default.

    It loads as it is: `sniffgate init > sniffgate.toml`.
    """
    from ..config.example import example

    click.echo(example(), nl=False)
