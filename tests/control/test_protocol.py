"""The conversation by itself: bytes and times in, steps out."""

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sniffgate.control.commands import Help, Stats, Status
from sniffgate.control.protocol import LONGEST_LINE, Conversation, Run, Say, Step, encode, error_line


def steps(talk: Conversation, now: float = 0.0) -> list[Step]:
    found: list[Step] = []
    while (step := talk.next_step(now)) is not None:
        found.append(step)
    return found


def said(data: bytes, *, check: Callable[[str], bool] | None = None) -> list[Step]:
    talk = Conversation(0.0, check)
    talk.receive(data, 0.0)
    return steps(talk)


def closing(sentence: str) -> Say:
    return Say(error_line(sentence), closes=True)


def test_commands_are_taken_in_order_and_whole() -> None:
    """A pipelining client gets its replies in the order it asked; segments may end anywhere."""
    talk = Conversation(0.0)
    talk.receive(b"status\r\nst", 0.0)
    assert [Run(Status())] == steps(talk)
    talk.receive(b"ats\nhelp\n", 0.0)
    assert [Run(Stats()), Run(Help())] == steps(talk)


def test_a_last_line_needs_no_end() -> None:
    """`printf status | nc` is how people ask."""
    talk = Conversation(0.0)
    talk.receive(b"status", 0.0)
    assert [] == steps(talk)
    talk.receive(b"", 0.0)
    assert [Run(Status())] == steps(talk)
    assert talk.is_over


@pytest.mark.parametrize("first", [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"EHLO mail\r\nstatus\r\n", b"\r\nstatus\r\n"])
def test_a_first_line_that_is_no_command_closes(first: bytes) -> None:
    """A web page can make a browser post to loopback; none of the body may be taken for commands."""
    (step,) = said(first + b"disable node-a\n")
    assert isinstance(step, Say)
    assert step.closes


def test_tls_is_sent_away_at_its_first_byte() -> None:
    """A TLS hello has no line end to wait for."""
    assert [closing("this is sniffgate's control port; it takes lines of text")] == said(b"\x16\x03\x01\x02\x00")


def test_a_later_line_that_is_no_command_only_gets_an_error() -> None:
    """A typing error must not cost the operator the connection."""
    found = said(b"help\nstatsu\n\nstats\n")
    assert [
        Run(Help()),
        Say(error_line("unknown command 'statsu'; did you mean 'stats'?")),
        Say(error_line("the line is empty; try help")),
        Run(Stats()),
    ] == found


def test_quit_closes_and_nothing_after_it_is_done() -> None:
    """What is pipelined behind it was not meant."""
    assert [Say(encode({"ok": True, "message": "bye"}), closes=True)] == said(b"quit\ndisable a\n")


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_a_line_over_64_kib_closes(end: bytes) -> None:
    """The original had no bound: memory is not the client's to give out."""
    assert [Run(Help()), closing("a line may have 65536 bytes")] == said(b"help\n" + b"a" * (LONGEST_LINE + 1) + end)


def test_a_line_of_exactly_64_kib_is_read() -> None:
    """The bound is the documented one."""
    found = said(b"help\n" + b" " * (LONGEST_LINE - 4) + b"help\n")
    assert [Run(Help()), Run(Help())] == found


# --- times ----------------------------------------------------------------------------------------


def test_an_idle_connection_ends_after_ten_minutes() -> None:
    """Forgotten terminals must not fill the table."""
    talk = Conversation(5.0)
    assert 605.0 == talk.deadline
    talk.receive(b"help\n", 500.0)
    steps(talk, 500.0)
    assert 1100.0 == talk.deadline
    assert closing("idle for 600 s") == talk.expire()
    assert talk.is_over


def test_a_line_has_sixty_seconds_from_its_first_byte_however_it_trickles() -> None:
    """A byte now and then keeps nothing open."""
    talk = Conversation(0.0)
    for second in range(10, 60, 10):
        talk.receive(b"a", float(second))
        steps(talk, float(second))
    assert 70.0 == talk.deadline
    assert closing("the line was not finished within 60 s") == talk.expire()


def test_a_finished_line_gives_the_next_its_own_sixty_seconds() -> None:
    """The bound is on a line, not on a connection."""
    talk = Conversation(0.0)
    talk.receive(b"help\nhel", 10.0)
    steps(talk, 10.0)
    assert 70.0 == talk.deadline
    talk.receive(b"p\n", 20.0)
    steps(talk, 20.0)
    assert 620.0 == talk.deadline


# --- the token ------------------------------------------------------------------------------------


def is_right(token: str) -> bool:
    return token == "open sesame 1234"


AUTHENTICATED = Say(encode({"ok": True, "message": "authenticated"}))
NEEDED = closing("authentication is required")


def test_the_right_token_opens() -> None:
    """Then everything is as without one."""
    found = said(b"auth 'open sesame 1234'\nstatus\n", check=is_right)
    assert [AUTHENTICATED, Run(Status())] == found


def test_there_is_one_attempt() -> None:
    """Guessing costs a connection each time, and eight may guess at once."""
    assert [closing("authentication failed")] == said(b"auth wrong\nauth 'open sesame 1234'\n", check=is_right)


@pytest.mark.parametrize("line", [b"status\n", b"quit\n", b"statsu\n", b"GET / HTTP/1.1\r\n", b"{}\n"])
def test_without_the_token_nothing_is_done_and_nothing_is_told(line: bytes) -> None:
    """A stranger learns no more than that a token is needed."""
    assert [NEEDED] == said(line, check=is_right)


def test_the_token_must_come_within_five_seconds() -> None:
    """Strangers have eight places in all, so none may keep one."""
    talk = Conversation(1.0, is_right)
    talk.receive(b"au", 2.0)
    steps(talk, 2.0)
    assert 6.0 == talk.deadline
    assert NEEDED == talk.expire()


def test_a_token_that_nobody_needs_does_no_harm() -> None:
    """`ctl --token-file` works against a gateway without one, so both sides can be changed one after the other."""
    assert [Say(encode({"ok": True, "message": "no token is needed"})), Run(Help())] == said(b"auth x\nhelp\n")


# --- anything -------------------------------------------------------------------------------------


@given(st.lists(st.binary(max_size=50) | st.sampled_from([b"help\n", b"\n", b'{"cmd":', b"auth x\n", b"quit\n", b""])))
def test_any_bytes_give_at_most_one_step_a_line(chunks: list[bytes]) -> None:
    """No input makes the gateway say more than it was asked, or fail."""
    talk = Conversation(0.0)
    count = 0
    for chunk in chunks:
        if talk.is_over:
            break
        talk.receive(chunk, 0.0)
        for step in steps(talk):
            count += 1
            if isinstance(step, Say):
                assert 1 == step.line.count(b"\n")
                assert isinstance(json.loads(step.line), dict)
                assert step.closes == talk.is_over or talk._has_ended
    lines = b"".join(chunks).count(b"\n") + chunks.count(b"") + 1
    assert count <= lines


@given(st.binary(max_size=300), st.data())
def test_how_the_bytes_are_cut_up_changes_nothing(data: bytes, draw: st.DataObject) -> None:
    """TCP keeps no boundaries."""
    text = b"help\n" + data
    cut = draw.draw(st.integers(5, len(text)))
    talk = Conversation(0.0)
    talk.receive(text[:cut], 0.0)
    found = steps(talk)
    if text[cut:]:
        talk.receive(text[cut:], 0.0)
        found += steps(talk)
    assert said(text) == found


def test_a_reply_never_holds_what_json_has_no_word_for() -> None:
    """`NaN` and `Infinity` break every strict reader."""
    with pytest.raises(ValueError, match="not JSON compliant"):
        encode({"x": float("inf")})
