"""`sniffgate measure`: the study, and the commands that go with it."""

import click

from .group import LazyGroup

# name → (module in `measuring`, one line of help)
PARTS = {
    "report": ("report", "Tables, figures and one page of a study that was measured."),
    "overhead": ("overhead", "What the gateway adds to talking to a node directly, against peers."),
    "compare": ("compare", "Put the figures of two studies beside each other."),
}


class MeasureGroup(LazyGroup):
    """As the program's own group."""

    table = PARTS
    package = f"{__package__}.measuring"


def _plans(_ctx: click.Context, _option: click.Parameter, words: str | None) -> tuple[str, ...] | None:
    return None if words is None else tuple(word.strip() for word in words.split(",") if word.strip())


@click.group("measure", cls=MeasureGroup, invoke_without_command=True)
@click.option("--list", "is_list", is_flag=True, help="List the scenarios and end.")
@click.option("--only", callback=_plans, metavar="NAME,...", help="These scenarios instead of all.")
@click.option(
    "--trials", type=click.IntRange(min=1), metavar="N", help="Trials of each arm, instead of each scenario's own."
)
@click.option("--gateway", metavar="'CMD {config}'", help="The program to measure, instead of this one; see above.")
@click.option("--out", metavar="DIR", help="Where the artifact goes, or is gone on with [default: a dated directory].")
@click.pass_context
def measure(
    ctx: click.Context,
    *,
    is_list: bool,
    only: tuple[str, ...] | None,
    trials: int | None,
    gateway: str | None,
    out: str | None,
) -> int:
    """Measure the gateway: scenarios on real processes that really fail, with every raw value in one artifact.

    Without a command the study is run. Each trial starts a gateway and nodes of its own on 127.0.0.1, lets something
    fail and records what clients, nodes and the control port saw; claims of the gateway are held against its traffic.
    DIR/study.json is written after each trial: Ctrl-C keeps what was measured, and the same command with the same
    --out goes on. The machine should have nothing else to do. Ends with 0 when everything was measured or is
    absent, with 1 when a scenario failed, with 130 on Ctrl-C.

    --gateway runs the same scenarios on another program: one that takes the configuration file at {config}, stays in
    the foreground and answers the text commands `status`, `switch`, `auto` and `reload` on its control port. What it
    lacks is reported as absent.
    """
    named = [
        flag
        for flag, value in (
            ("--list", is_list),
            ("--only", only),
            ("--trials", trials),
            ("--gateway", gateway),
            ("--out", out),
        )
        if value
    ]
    if ctx.invoked_subcommand is not None:
        if named:
            raise click.UsageError(
                f"{named[0]} goes without a command; what {ctx.invoked_subcommand} takes comes after it."
            )
        return 0
    from .measuring import study

    if is_list:
        study.list_scenarios()
        return 0
    return study.run(only, trials, gateway, out)
