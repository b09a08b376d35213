"""The control protocol without any I/O: bytes and times in, steps out.

One line in, one JSON line out, in order. Whoever drives a `Conversation` feeds what arrives, carries out the steps,
and calls `expire` when the deadline has come:

    opened ── auth TOKEN (where one is needed) ──> first command ──> more commands ──> over
                 │                                    │                   │
                 any other line                       no command          quit, a line too long, a deadline

A first line that is no valid command closes, so a browser's HTTP, TLS and SMTP end there: a page that posts to a
loopback port gets no second line in.
"""

import json
from collections.abc import Callable

import attrs

from ..errors import CommandRefused
from .commands import Auth, Command, Quit
from .parsing import could_be_text, parse_line

LONGEST_LINE = 65536  # bytes, its end not counted
UNFINISHED_FOR = 60.0  # seconds from a line's first byte to its end
IDLE_FOR = 600.0  # seconds between two lines
AUTH_WITHIN = 5.0  # seconds from the beginning

Check = Callable[[str], bool]


@attrs.frozen
class Run:
    """Carry out `command` and send its reply."""

    command: Command


@attrs.frozen
class Say:
    """Send `line`; `closes` says that the conversation is over after it."""

    line: bytes
    closes: bool = False


Step = Run | Say


def encode(reply: object) -> bytes:
    """A reply as one line of strict JSON in ASCII, with its end. ValueError for a number that JSON has no word for."""
    return json.dumps(reply, allow_nan=False, separators=(",", ":")).encode("ascii") + b"\n"


def error_line(sentence: str) -> bytes:
    """The reply that says that something was not done."""
    return encode({"ok": False, "error": sentence})


@attrs.frozen
class _Expiry:
    at: float
    sentence: str


class Conversation:
    """One client's connection. Times are seconds on any one clock."""

    def __init__(self, now: float, check: Check | None = None) -> None:
        """`check` tells whether a token is right; None when none is needed."""
        self._check = check
        self._opened = now
        self.last_line_at = now  # when a line was last finished: what counts as being idle
        self._line_began: float | None = None
        self._inbox = bytearray()
        self._searched = 0  # bytes of the inbox known to hold no end of line
        self._is_first = True
        self._is_text = True  # so far; asked of the first line only
        self._has_ended = False
        self.is_authenticated = check is None
        self.is_over = False

    @property
    def deadline(self) -> float:
        """When to call `expire`, unless something is received before."""
        return self._expiry().at

    def receive(self, data: bytes, now: float) -> None:
        """Takes in what the client sent; b"" is its end of stream, which ends an unfinished line too."""
        if not data:
            self._has_ended = True
        elif not self._inbox:
            self._line_began = now
        self._is_text = self._is_text and could_be_text(data)
        self._inbox += data

    def next_step(self, now: float) -> Step | None:
        """What to do next; None when more must be received first (or nothing follows, when `is_over`)."""
        if self.is_over:
            return None
        line = self._take_line(now)
        if line is not None:
            return self._too_long() if len(line) > LONGEST_LINE else self._answer(line)
        if len(self._inbox) > LONGEST_LINE:
            return self._too_long()
        if self._is_first and not self._is_text:
            return self._close("this is sniffgate's control port; it takes lines of text")
        self.is_over = self._has_ended
        return None

    def expire(self) -> Say:
        """The deadline has come."""
        return self._close(self._expiry().sentence)

    # --------------------------------------------------------------------------------------------------

    def _take_line(self, now: float) -> bytes | None:
        end = self._inbox.find(b"\n", self._searched)
        if end < 0:
            self._searched = len(self._inbox)
            if not self._has_ended or not self._inbox:
                return None
            end = len(self._inbox)
        line = bytes(self._inbox[:end])
        del self._inbox[: end + 1]
        self._searched = 0
        self._line_began = now if self._inbox else None
        self.last_line_at = now
        return line.removesuffix(b"\r")

    def _answer(self, line: bytes) -> Step:
        try:
            command = parse_line(line)
        except CommandRefused as error:
            # what has not shown the token learns nothing, not even what a command looks like
            refused = str(error) if self.is_authenticated else "authentication is required"
            return self._close(refused) if self._is_first else Say(error_line(refused))
        was_first, self._is_first = self._is_first, False
        if isinstance(command, Auth):
            return self._authenticate(command, was_first=was_first)
        if not self.is_authenticated:
            return self._close("authentication is required")
        if isinstance(command, Quit):
            self.is_over = True
            return Say(encode({"ok": True, "message": "bye"}), closes=True)
        return Run(command)

    def _authenticate(self, command: Auth, *, was_first: bool) -> Step:
        if self._check is None:
            return Say(encode({"ok": True, "message": "no token is needed"}))
        if not was_first:
            return Say(error_line("authenticated already"))
        if not self._check(command.token):
            return self._close("authentication failed")
        self.is_authenticated = True
        return Say(encode({"ok": True, "message": "authenticated"}))

    def _expiry(self) -> _Expiry:
        expiries = [_Expiry(self.last_line_at + IDLE_FOR, f"idle for {IDLE_FOR:.0f} s")]
        if not self.is_authenticated:
            expiries.append(_Expiry(self._opened + AUTH_WITHIN, "authentication is required"))
        if self._line_began is not None:
            sentence = f"the line was not finished within {UNFINISHED_FOR:.0f} s"
            expiries.append(_Expiry(self._line_began + UNFINISHED_FOR, sentence))
        return min(expiries, key=lambda expiry: expiry.at)

    def _too_long(self) -> Say:
        return self._close(f"a line may have {LONGEST_LINE} bytes")

    def _close(self, sentence: str) -> Say:
        self.is_over = True
        return Say(error_line(sentence), closes=True)
