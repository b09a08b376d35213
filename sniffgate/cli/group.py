"""The group of commands: which there are, and what each is for."""

import contextlib
import functools
import importlib
from collections.abc import Mapping, Sequence

import click

from .outcome import INTERRUPTED, status_of

# name → (module beside this one, one line of help). The command is the module's function of that name.
COMMANDS = {
    "run": ("run", "Run the gateway that a configuration file describes."),
    "check": ("check", "Check a configuration file: one line per fault."),
    "plan": ("plan", "Tell what a running gateway would do with another file."),
    "init": ("init", "Print a commented example configuration."),
    "ctl": ("ctl", "Ask a running gateway, or tell it what to do."),
    "demo": ("demo", "Show a failover on this machine, no file needed."),
    "replay": ("replay", "Prove from an event log why traffic moved."),
    "simulate": ("simulate", "Play seeded faults against a configuration file."),
    "measure": ("measure", "Measure the gateway, alone or against others."),
}


class LazyGroup(click.Group):
    """Commands that are imported when they are used: the list of them costs no import."""

    table: Mapping[str, tuple[str, str]] = COMMANDS
    package = __package__  # that has their modules

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every command, in the order of a first acquaintance."""
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports a command; None when there is no such one."""
        if cmd_name not in self.table:
            return None
        module = importlib.import_module(f".{self.table[cmd_name][0]}", self.package)
        command = getattr(module, cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the list of commands."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in self.table.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, with the nearest known word for a misspelt one."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            import difflib

            near = difflib.get_close_matches(args[0], self.table, n=1)
            if not near:
                raise
            raise click.UsageError(f"No such command {args[0]!r}. Did you mean {near[0]!r}?", ctx) from error


def _show_version(ctx: click.Context, _option: click.Parameter, is_wanted: bool) -> None:
    if is_wanted and not ctx.resilient_parsing:
        import sniffgate

        click.echo(f"sniffgate {sniffgate.__version__}")
        ctx.exit()


@click.group(
    "sniffgate",
    cls=LazyGroup,
    invoke_without_command=True,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_show_version, help="The version.")
@click.option("-c", "--config", metavar="FILE", help="As `run -c FILE`.")
@click.option("--check", is_flag=True, help="With --config: as `check FILE`.")
@click.option("--gen-config", is_flag=True, help="As `init`.")
@click.option("--log", metavar="LEVEL", help="With --config: as `run --log LEVEL`.")
@click.option("--admin", metavar="ADDR", help="With --config: as `run --admin ADDR`. With --cmd: whom to ask.")
@click.option("--cmd", metavar="COMMAND", help='As `ctl COMMAND`, for instance --cmd "switch node-b".')
@click.pass_context
def program(
    ctx: click.Context,
    config: str | None,
    check: bool,
    gen_config: bool,
    log: str | None,
    admin: str | None,
    cmd: str | None,
) -> None:
    """A TCP/UDP failover gateway: one address that survives the death of the machine behind it."""
    flags = ("--config", config), ("--check", check), ("--gen-config", gen_config), ("--log", log), ("--cmd", cmd)
    named = [flag for flag, value in (*flags, ("--admin", admin)) if value]
    if ctx.invoked_subcommand is not None:
        if named:
            raise click.UsageError(
                f"{named[0]} goes without a command; what {ctx.invoked_subcommand} takes comes after it."
            )
        return
    ctx.exit(_obey_flags(ctx, config, check, gen_config, log, admin, cmd))


def _obey_flags(
    ctx: click.Context,
    config: str | None,
    check: bool,
    gen_config: bool,
    log: str | None,
    admin: str | None,
    cmd: str | None,
) -> int:
    """The flags that the gateway's predecessor took instead of commands."""
    if gen_config:
        name, words = "init", []
    elif cmd is not None:
        name, words = "ctl", [*_option("--address", admin), "--", *cmd.split()]
    elif config is None:
        raise click.UsageError("--config is missing.")
    elif check:
        name, words = "check", ["--", config]
    else:
        name, words = "run", ["--config", config, *_option("--log", log), *_option("--admin", admin)]
    command = program.get_command(ctx, name)
    assert command is not None
    outcome = command.main(words, prog_name=f"sniffgate {name}", standalone_mode=False)
    return outcome if isinstance(outcome, int) else 0


def _option(name: str, value: str | None) -> list[str]:
    return [] if value is None else [f"{name}={value}"]


def run_program(arguments: Sequence[str]) -> int:
    """Runs a command and returns the exit status. No traceback is ever shown."""
    return status_of(functools.partial(_obey, arguments))


def _obey(arguments: Sequence[str]) -> object:
    try:
        return program.main(list(arguments), prog_name="sniffgate", standalone_mode=False)
    except click.ClickException as error:
        with contextlib.suppress(OSError):
            error.show()
        return error.exit_code
    except click.Abort:
        return INTERRUPTED
