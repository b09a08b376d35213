"""The control connection to a gateway under test: text commands, and replies of which nothing is taken for granted."""

import json
import socket
from typing import Any

from .nodes import HOST
from .scenario import Absent, TrialFailed

Reply = dict[str, Any]
LIMIT = 20.0  # seconds for anything to happen


class Refused(TrialFailed):
    """The gateway answered that it did not do it. The message is its own."""


class Control:
    """One connection that stays open. *Closes:* `close`."""

    def __init__(self, port: int) -> None:
        """Errors: `OSError` when nobody listens."""
        self._conn = socket.create_connection((HOST, port), timeout=LIMIT)
        self._conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._lines = self._conn.makefile(encoding="utf-8", errors="replace")
        self.reply_bytes = 0  # of the last reply

    def close(self) -> None:
        """Ends the connection."""
        self._lines.close()
        self._conn.close()

    def ask(self, line: str) -> Reply:
        """The reply to one command. Errors: `Absent` for a command it does not know, `Refused`, `TrialFailed`."""
        reply = self.ask_anything(line.encode())
        if reply.get("ok") is False:
            said = str(reply.get("error", "no reason given"))
            if "unknown" in said.lower():
                raise Absent(f"its control port does not know {line.split()[0]!r}: {said}")
            raise Refused(f"{line!r} was refused: {said}")
        return reply

    def ask_anything(self, line: bytes) -> Reply:
        """The reply to any line, refusals included. Errors: `TrialFailed` when there is none, or none that is JSON."""
        try:
            self._conn.sendall(line + b"\n")
            answer = self._lines.readline()
        except OSError as error:
            raise TrialFailed(f"{_shown(line)} was not answered: {error}") from None
        self.reply_bytes = len(answer.encode())
        try:
            reply = json.loads(answer)
        except ValueError:
            reply = None
        if not isinstance(reply, dict):
            raise TrialFailed(f"{_shown(line)} was answered with no JSON object: {answer[:60]!r}")
        return reply


def dig(reply: Any, *path: str | int) -> Any:
    """A value within a reply. Errors: `Absent` when this gateway does not say it."""
    value = reply
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            raise Absent(f"its status has no {'.'.join(map(str, path))}") from None
    return value


def node_of(status: Reply, name: str) -> Reply:
    """What the status says of a node. Errors: `Absent`, `TrialFailed` when there is no such node."""
    for node in dig(status, "nodes"):
        if dig(node, "name") == name:
            found: Reply = node
            return found
    raise TrialFailed(f"its status has no node {name!r}")


def _shown(line: bytes) -> str:
    return repr(line.decode(errors="replace")[:40])
