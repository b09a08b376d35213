"""Replies as tables: readable, and harmless to the terminal."""

import attrs
import pytest
import trio
from trio.testing import MockClock

from sniffgate.control.table import render
from tests.control.desk import open_desk
from tests.tasks.configs import A, B, config_for


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


@pytest.mark.parametrize("width", [60, 80, 120])
async def test_an_address_is_never_broken_in_two(autojump_clock: MockClock, width: int) -> None:
    """Half an address cannot be read or copied, and eighty columns are what most terminals have."""
    async with open_desk(config_for(A, B)) as desk:
        await trio.sleep(3)
        reply = await desk.ask("drain node-a 30")
        reply["nodes"][0]["draining"], reply["nodes"][0]["draining_until_ms"] = True, reply["now_ms"] + 30_000
        reply["nodes"][0]["last_error"] = "connection refused"
        page = render("status", reply, width=width)

        assert [2, 2] == [page.count(f"{reply['nodes'][index]['tcp']}") for index in (0, 1)]
        assert "draining, 30.0s left" in page
        assert max(len(line) for line in page.splitlines()) <= width


async def test_columns_in_which_nothing_stands_are_left_out(autojump_clock: MockClock) -> None:
    """They cost the room that addresses need."""
    async with open_desk(config_for(A, B)) as desk:
        await trio.sleep(3)
        page = render("status", await desk.ask("status"), width=200)

        assert [] == [title for title in ("pool", "trial", "pin", "last error") if title in page.split()]
        assert "evidence" not in render("status", await desk.ask("status"), width=60)


async def test_each_fault_of_a_failed_reload_has_its_line(autojump_clock: MockClock) -> None:
    """Two faults in one line are read as one."""
    async with open_desk(config_for(A, B)) as desk:
        reply = await desk.ask("status")
        reply["reload"] = {"at_ms": 0, "ok": False, "message": "a.toml:2: is wrong\na.toml:7: is wrong too"}
        page = render("status", reply, width=80)

        assert "RELOAD FAILED at 1970-01-01 00:00:00.000Z:\n  a.toml:2: is wrong\n  a.toml:7: is wrong too\n" in page


def test_an_incident_among_the_events_is_told_in_words() -> None:
    """Bare numbers would have to be looked up."""
    incident = {"ts_ms": 0, "epoch": 2, "type": "incident", "route": "default/tcp", "node": "node-a", "outage_ms": 48.9,
                "slow": 3, "lost": 0, "over": True, "detail": "traffic: refused"}  # fmt: skip
    page = render("events", {"ok": True, "events": [incident]}, width=120)

    assert "outage 49 ms, 3 slow, 0 lost, over" in page


async def test_colour_only_where_it_is_asked_for(autojump_clock: MockClock) -> None:
    """Pipes get plain text."""
    async with open_desk(config_for(A, B)) as desk:
        await trio.sleep(3)
        reply = await desk.ask("status")
        assert "\x1b[" not in render("status", reply, width=200)
        assert "\x1b[" in render("status", reply, width=200, color=True)


async def test_an_error_of_the_past_says_how_long_the_node_has_been_healthy(autojump_clock: MockClock) -> None:
    """It must not look like a present one."""
    async with open_desk(config_for(A, B)) as desk:
        await trio.sleep(3)
        reply = await desk.ask("status")
        first, second = reply["nodes"]
        first |= {"last_error": "connection refused", "state": "healthy", "last_change_ms": reply["now_ms"] - 192_000}
        second |= {"last_error": "timeout", "state": "unhealthy", "last_change_ms": reply["now_ms"] - 192_000}
        page = render("status", reply, width=200)

        assert "connection refused (healthy for 3m12s)" in page
        assert "timeout\n" in page
