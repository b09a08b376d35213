"""Replies as tables: readable, and harmless to the terminal."""

import attrs
import pytest
import trio
from trio.testing import MockClock

from sniffgate.control.table import render
from tests.control.desk import open_desk
from tests.tasks.world import A, B, config_for


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("status", ["node-a", "healthy", "default/tcp", "10.0.0.254:80", "epoch 1"]),
        ("switch node-b", ["node-a -> node-b", "operator"]),
        ("stats", ["crashes", "uptime_s"]),
        ("why node-a", ["node-a/tcp is active"]),
        ("events", ["verdict", "unknown -> healthy", "node-a/tcp"]),
        ("help", ["switch NODE [tcp|udp]"]),
        ("quit", ["bye"]),
        ("switch nobody", ["error: no node is named 'nobody'"]),
    ],
)
async def test_every_reply_has_a_readable_form(autojump_clock: MockClock, line: str, words: list[str]) -> None:
    """This is what an operator looks at in the middle of the night."""
    async with open_desk(config_for(A, B)) as desk:
        await trio.sleep(3)
        page = render(line.split()[0], await desk.ask(line), width=200)

        assert [] == [word for word in words if word not in page]
        assert all(text.isprintable() for text in page.splitlines())
        assert page.endswith("\n")


async def test_nothing_in_a_reply_is_obeyed_by_the_terminal(autojump_clock: MockClock) -> None:
    """A remark or an error may hold anything."""
    node = attrs.evolve(A, name="[red]a[/red]")
    async with open_desk(config_for(node)) as desk:
        reply = await desk.ask("status")
        reply["nodes"][0]["last_error"] = "\x1b[2J\u202eevil"
        page = render("status", reply, width=200)

        assert "[red]a[/red]" in page
        assert "?[2J?evil" in page


async def test_colour_only_where_it_is_asked_for(autojump_clock: MockClock) -> None:
    """Pipes get plain text."""
    async with open_desk(config_for(A, B)) as desk:
        await trio.sleep(3)
        reply = await desk.ask("status")
        assert "\x1b[" not in render("status", reply, width=200)
        assert "\x1b[" in render("status", reply, width=200, color=True)
