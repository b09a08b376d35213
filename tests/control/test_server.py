"""The control server on the virtual network: what it does, and what no client can make it do."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sniffgate.config.schema import NodeConfig, Transport
from sniffgate.net.ports import Conn
from sniffgate.state.model import RouteKey
from tests.control.desk import open_desk, receive_all, wait_closed
from tests.tasks.configs import A, B, config_for

CONFIG = config_for(A, B)
TOKEN = "0123456789abcdef"
TCP = RouteKey("default", Transport.TCP)


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.touch(mode=0o600)
    path.write_text(f"{TOKEN}\n")
    return path


def change(token_file: Path, token: str) -> None:
    token_file.write_text(token)


# --- commands -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "seen"),
    [
        ("switch node-b", lambda status: status["active"]["tcp"] == "node-b" == status["pins"]["udp"]),
        ('{"cmd":"switch","node":"node-b","protocol":"udp"}', lambda status: status["active"]["tcp"] == "node-a"),
        ("disable node-a", lambda status: status["active"]["tcp"] == "node-b"),
        ("drain node-a inf", lambda status: status["nodes"][0]["state"] == "disabled"),
        ("health node-a down", lambda status: status["nodes"][0]["state"] == "unhealthy"),
        ("health node-a up", lambda status: status["nodes"][0]["state"] == "healthy"),
        ("enable node-a", lambda status: status["nodes"][0]["enabled"]),
        ("auto", lambda status: status["pins"] == {"tcp": None, "udp": None}),
    ],
)
async def test_what_an_operator_asks_is_answered_with_the_new_status(
    autojump_clock: MockClock, line: str, seen: Callable[[dict[str, Any]], bool]
) -> None:
    """The reply comes after the fold, so a script may go on from it."""
    async with open_desk(CONFIG) as desk:
        reply = await desk.ask(line)

        assert reply["ok"] is True
        assert reply["engine"] == "sniffgate"
        assert seen(reply)


async def test_a_drain_has_its_own_deadline(autojump_clock: MockClock) -> None:
    """Seconds are seconds of the drain, and the status says until when."""
    async with open_desk(CONFIG) as desk:
        with await desk.service.connect() as conn:
            await conn.send_all(b"hi")
            await conn.receive_some(100)

            status = await desk.ask("drain node-a 3.5")
            (node, _) = status["nodes"]

            assert ("draining", True, 1) == (node["state"], node["draining"], node["inflight_tcp"])
            assert 3500 == node["draining_until_ms"] - status["now_ms"]
            assert 3.5 == await wait_closed(conn)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("switch node-x", "no node is named 'node-x'; did you mean 'node-b'?"),
        ("why node-x", "no node is named 'node-x'; did you mean 'node-b'?"),
        ("reload", "there is no configuration file to read"),
    ],
)
async def test_what_cannot_be_done_is_an_error_with_its_reason(
    autojump_clock: MockClock, line: str, sentence: str
) -> None:
    """One form for every failure: a script looks at `ok`."""
    async with open_desk(CONFIG) as desk:
        assert {"ok": False, "error": sentence} == await desk.ask(line)


async def test_events_tell_what_happened_in_order(autojump_clock: MockClock) -> None:
    """The morning after, without the event log."""
    async with open_desk(CONFIG) as desk:
        await desk.ask("switch node-b tcp")
        await desk.ask("disable node-b")

        events = (await desk.ask("events"))["events"]
        assert ["pin", "switch", "operator", "pin", "switch"] == [
            each["type"] for each in events if each["type"] != "verdict"
        ]
        assert events[-1:] == (await desk.ask("events 1"))["events"]


async def test_stats_tell_what_the_event_log_lost(autojump_clock: MockClock) -> None:
    """A log with holes proves nothing past them, so its holes must be seen."""
    async with open_desk(CONFIG) as desk:
        assert (await desk.ask("stats"))["event_log_lines_lost"] is None
        desk.memory.count_lost_lines = lambda: 7
        assert 7 == (await desk.ask("stats"))["event_log_lines_lost"]


async def test_help_lists_the_commands(autojump_clock: MockClock) -> None:
    """`nc` is enough to find one's way."""
    async with open_desk(CONFIG) as desk:
        usages = [each["usage"] for each in (await desk.ask("help"))["commands"]]
        assert "switch NODE [tcp|udp]" in usages


async def test_one_connection_takes_many_commands(autojump_clock: MockClock) -> None:
    """The original's clients keep theirs open."""
    async with open_desk(CONFIG) as desk:
        with await desk.connect() as conn:
            await conn.send_all(b"stats\nnonsense\nhelp\nquit\n")
            assert [True, False, True, True] == [reply["ok"] for reply in await receive_all(conn)]


async def test_a_bug_in_a_command_is_one_error_line(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gateway goes on, the connection too, and the bug is counted."""
    async with open_desk(CONFIG) as desk:
        monkeypatch.setattr(desk.memory, "last", lambda count: 1 // 0)
        with await desk.connect() as conn:
            await conn.send_all(b"events\nhelp\nquit\n")
            replies = await receive_all(conn)

        assert "internal error; the log has the details" == replies[0]["error"]
        assert replies[1]["ok"]
        assert 1 == desk.service.gateway.ledger.crashes
        desk.service.expected_crashes = 1


# --- limits ---------------------------------------------------------------------------------------


async def last_words(conn: Conn) -> str:
    return str((await receive_all(conn))[-1]["error"])


@pytest.mark.parametrize(
    ("sent", "at", "words"),
    [
        (b"", 600.0, "idle for 600 s"),
        (b"sta", 60.0, "the line was not finished within 60 s"),
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", 1.0, "unknown command 'GET'; try help"),
        (b"\x16\x03\x01", 1.0, "this is sniffgate's control port; it takes lines of text"),
    ],
)
async def test_a_client_that_keeps_no_bound_is_told_and_closed(
    autojump_clock: MockClock, sent: bytes, at: float, words: str
) -> None:
    """The exact moments are documented. (A refused client is read for one second more.)"""
    async with open_desk(CONFIG) as desk:
        with await desk.connect() as conn:
            if sent:
                await conn.send_all(sent)
            assert words == await last_words(conn)
            assert at - 1 <= trio.current_time() <= at


async def test_a_megabyte_line_gets_one_error_line(autojump_clock: MockClock) -> None:
    """The sender reads its answer: the rest of its line is read away first, not reset."""
    async with open_desk(CONFIG) as desk:
        with await desk.connect() as conn:
            await conn.send_all(b"x" * 1_000_000)
            await conn.send_eof()
            assert [{"ok": False, "error": "a line may have 65536 bytes"}] == await receive_all(conn)


async def test_a_reply_unread_for_five_seconds_closes(autojump_clock: MockClock) -> None:
    """Who asks and does not read would otherwise keep the reply in memory for ever."""
    nodes = [NodeConfig(name=f"n{number}", tcp=A.tcp, probe=A.probe) for number in range(1)]
    async with open_desk(config_for(*nodes)) as desk:
        with await desk.connect() as conn:
            await conn.send_all(b"status\n" * 400)  # more than both buffers have room for
            await trio.sleep(4.9)
            assert desk.is_served
            await trio.sleep(0.2)
            assert not desk.is_served


async def test_the_65th_client_takes_the_place_of_the_longest_idle(autojump_clock: MockClock) -> None:
    """Stalled clients never lock the operator out."""
    async with open_desk(CONFIG) as desk:
        conns = []
        for _ in range(64):
            conns.append(await desk.connect())
            await trio.sleep(0.1)
        await conns[0].send_all(b"help\n")  # so that the second is the longest idle
        await conns[0].receive_some(10_000)

        assert (await desk.ask("stats"))["ok"]
        assert "another client takes this one's place: it was idle longest" == await last_words(conns[1])
        for conn in conns:
            if conn is not conns[1]:
                await conn.send_all(b"quit\n")
                assert [{"ok": True, "message": "bye"}] == await receive_all(conn)
            conn.close()


async def test_seventy_trickling_clients_leave_the_operator_a_place(autojump_clock: MockClock) -> None:
    """A byte now and then is not being busy."""
    async with open_desk(CONFIG) as desk:
        conns = [await desk.connect() for _ in range(70)]
        for _ in range(3):
            for conn in conns:
                if not conn.is_broken():
                    await conn.send_all(b"x")
            await trio.sleep(10)

        assert (await desk.ask("stats"))["ok"]
        for conn in conns:
            conn.close()


async def test_clients_that_vanish_at_any_time_are_forgotten(autojump_clock: MockClock) -> None:
    """Nothing is left of them, and nothing of it counts as a crash."""
    async with open_desk(CONFIG) as desk:
        for text in (b"", b"sta", b"status\n", b"status\n" * 1000):
            conn = await desk.connect()
            if text:
                await conn.send_all(text)
            conn.abort()
        await trio.sleep(10)
        assert not desk.is_served
        assert 0 == desk.service.gateway.ledger.crashes


async def test_stopping_the_gateway_closes_every_connection(autojump_clock: MockClock) -> None:
    """The server may be cancelled whatever its clients do."""
    async with open_desk(CONFIG) as desk:
        conn = await desk.connect()
        await conn.send_all(b"sta")
        await trio.sleep(1)
        desk.scope.cancel()
        assert 1.0 == await wait_closed(conn)
        conn.close()


# --- the token ------------------------------------------------------------------------------------


async def test_with_a_token_only_who_shows_it_is_served(autojump_clock: MockClock, token_file: Path) -> None:
    """Other machines reach this port."""
    async with open_desk(CONFIG, token_file=str(token_file)) as desk:
        assert {"ok": False, "error": "authentication is required"} == await desk.ask("status")
        with await desk.client() as client:
            await client.authenticate(TOKEN)
            assert (await client.ask("status"))["ok"]


async def test_a_silent_stranger_has_five_seconds(autojump_clock: MockClock, token_file: Path) -> None:
    """To the moment."""
    async with open_desk(CONFIG, token_file=str(token_file)) as desk:
        with await desk.connect() as conn:
            await conn.send_all(b"auth 0123")
            assert "authentication is required" == await last_words(conn)
            assert 5.0 == trio.current_time()


async def test_eight_strangers_at_most_and_the_newest_gets_in(autojump_clock: MockClock, token_file: Path) -> None:
    """Whoever holds connections without a token keeps out neither the operator nor anybody who is in."""
    async with open_desk(CONFIG, token_file=str(token_file)) as desk:
        known = await desk.client()
        await known.authenticate(TOKEN)
        strangers = []
        for _ in range(8):
            strangers.append(await desk.connect())
            await trio.sleep(0.1)
        with await desk.client() as operator:
            await operator.authenticate(TOKEN)
            assert (await operator.ask("help"))["ok"]
        assert "another client takes this one's place: it was idle longest" == await last_words(strangers[0])
        assert not strangers[1].is_broken()
        assert (await known.ask("help"))["ok"]
        known.close()
        for conn in strangers:
            conn.close()


async def test_a_reload_reads_the_token_again(autojump_clock: MockClock, token_file: Path) -> None:
    """A token that leaked is changed without a restart; who is in stays in."""
    async with open_desk(CONFIG, token_file=str(token_file)) as desk:
        with await desk.client() as client:
            await client.authenticate(TOKEN)
            change(token_file, "fedcba9876543210\n")
            await client.ask("reload")
            with await desk.client() as other:
                await other.authenticate("fedcba9876543210")
            assert (await client.ask("help"))["ok"]


async def test_a_token_that_cannot_be_read_again_stays_what_it_was(autojump_clock: MockClock, token_file: Path) -> None:
    """A mistake in the file must not lock the operator out, nor let everybody in."""
    async with open_desk(CONFIG, token_file=str(token_file)) as desk:
        with await desk.client() as client:
            await client.authenticate(TOKEN)
            change(token_file, "short")
            await client.ask("reload")
            with await desk.client() as other:
                await other.authenticate(TOKEN)
