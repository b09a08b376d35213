"""`sniffgate ctl`: one command to a running gateway, and its reply as a table or as JSON."""

import json
import os
import shlex
import sys
from collections.abc import Iterator

import click

from ..errors import CommandRefused, ConfigError

DEFAULT_ADDRESS = "127.0.0.1:9100"
PROMPT = "sniffgate> "


def _words(ctx: click.Context, _argument: click.Parameter, words: tuple[str, ...]) -> tuple[str, ...]:
    """Lets a negative number through, which is the gateway's to refuse; whatever else looks like an option is none."""
    for word in words:
        if word != "-" and word.startswith("-") and not word[1:2].isdigit():
            raise click.NoSuchOption(word, ctx=ctx)
    return words


@click.command("ctl", context_settings={"ignore_unknown_options": True})
@click.option(
    "-a", "--address", default=DEFAULT_ADDRESS, show_default=True, metavar="ADDR", help="host:port or unix:/path"
)
@click.option("--token-file", type=click.Path(), help="Where the token is, when the gateway has an admin_token_file.")
@click.option("--json", "as_json", is_flag=True, help="The reply as it came, one line; so it is too when piped.")
@click.option("--timeout", default=10.0, show_default=True, type=click.FloatRange(0, min_open=True), help="In seconds.")
@click.argument("words", metavar="COMMAND...", nargs=-1, required=True, callback=_words)
def ctl(address: str, token_file: str | None, as_json: bool, timeout: float, words: tuple[str, ...]) -> int:
    """Send COMMAND to a running gateway: status, stats, reload, switch NODE, why NODE, ...; `ctl help` lists them.

    With "-" as COMMAND the commands come from standard input, a line each. Ends with 1 when one was refused.
    """
    try:
        ask = Asker(address, token_in(token_file), timeout)
        has_failed = False
        for line in _typed_lines() if words == ("-",) else [_line(words)]:
            reply = ask(line)
            _show(line, reply, as_json=as_json or not sys.stdout.isatty())
            has_failed = has_failed or reply["ok"] is not True
    except (CommandRefused, ConfigError) as error:
        raise click.ClickException(str(error)) from error
    return 1 if has_failed else 0


class Asker:
    """Asks one gateway, a connection for each command. Errors: `CommandRefused`."""

    def __init__(self, address: str, token: str | None, timeout: float) -> None:
        self._address = address
        self._token = token
        self._timeout = timeout

    def __call__(self, line: str) -> dict[str, object]:
        import functools

        import trio

        from ..control.client import ask

        reply = trio.run(functools.partial(ask, self._address, line, token=self._token, timeout=self._timeout))
        if self._token is None and reply.get("error") == "authentication is required":
            raise CommandRefused(f"{self._address}: {reply['error']}: show its token with --token-file")
        return reply


def _line(words: tuple[str, ...]) -> str:
    """One word is a whole line, so that JSON and quoted commands go through as they are."""
    return words[0] if len(words) == 1 else shlex.join(words)


def _typed_lines() -> Iterator[str]:
    is_typed = sys.stdin.isatty()
    if is_typed:
        import readline  # noqa: F401  # imported, it gives `input` a history and keys to edit with
    while True:
        try:
            line = input(PROMPT if is_typed else "").strip()
        except EOFError:
            if is_typed:
                click.echo()  # the shell's prompt must not stand behind ours
            break
        if line == "quit":
            break
        if line:
            yield line


def token_in(token_file: str | None) -> str | None:
    """The token in that file; None without one. Errors: `ConfigError`."""
    if token_file is None:
        return None
    from ..control.token import read_token

    return read_token(token_file).decode("utf-8")


def _show(line: str, reply: dict[str, object], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(reply))
    elif reply["ok"] is not True:
        from .logs import printable

        for fault in str(reply.get("error", "no reason given")).split("\n"):
            click.echo(f"Error: {printable(fault)}", err=True)
    else:
        from ..control.table import render

        click.echo(render(_command_in(line), reply, color="NO_COLOR" not in os.environ), nl=False)


def _command_in(line: str) -> str:
    if line.startswith("{"):
        return str(json.loads(line).get("cmd"))  # the gateway has understood it, so it can be read
    return line.split()[0]
