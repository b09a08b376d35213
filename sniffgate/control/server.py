"""The control server: takes clients in, one task each, and keeps every one of them within bounds.

Nothing a client does reaches further than its own connection: it can be slow, silent, huge or hostile, and there may
be any number of it. The newest client always gets in, at the cost of the one that has been idle longest, so that
stalled clients never lock the operator out.
"""

import logging
from contextlib import suppress

import attrs
import trio

from ..errors import ConfigError, LocalShortage, PeerReset
from ..tasks.gateway import Gateway, ReloadReport
from .actions import Memory, carry_out
from .commands import Reload
from .listening import Client, ControlSocket
from .protocol import Conversation, Run, Say, error_line

log = logging.getLogger(__name__)

MOST_CLIENTS = 64
MOST_UNAUTHENTICATED = 8
CHUNK = 16384
UNREAD_FOR = 5.0  # seconds that a client may take for each piece of a reply
PIECE = 65536
LINGER = 1.0  # seconds that the rest of a refused client's bytes is read, so that our last line is not lost in a reset
LINGER_BYTES = 4 * 1024 * 1024
SHORTAGE_PAUSE = 0.1


@attrs.define(eq=False)
class _Guest:
    """A client that is connected."""

    client: Client
    talk: Conversation
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    is_receiving: bool = False
    is_acting: bool = False  # a command is being carried out

    @property
    def rank(self) -> tuple[bool, bool, float]:
        """The least goes when room is needed: strangers first, then the longest idle, last who is being served."""
        return self.is_acting, self.talk.is_authenticated, self.talk.last_line_at


async def serve_control(socket: ControlSocket, gateway: Gateway, memory: Memory | None = None) -> None:
    """Serves clients until cancelled; `memory` holds what `events` shows.

    *Closes:* `socket`. *Cancellation:* connections are closed at once. Errors: none; bugs are logged and counted.
    """
    server = _Server(socket, gateway, memory)
    try:
        async with trio.open_nursery() as guests:
            await gateway.services.run_again_after_crashes("the control server", lambda: server.accept_forever(guests))
    finally:
        socket.close()


class _Server:
    def __init__(self, socket: ControlSocket, gateway: Gateway, memory: Memory | None) -> None:
        self._socket = socket
        self._gateway = gateway
        self._memory = memory
        self._guests: set[_Guest] = set()
        self._token_file = gateway.state.config.globals.admin_token_file
        self._reload_seen: ReloadReport | None = gateway.reload_report

    async def accept_forever(self, guests: trio.Nursery) -> None:
        """Takes clients in, each into a task in `guests`."""
        is_short = False
        while True:
            try:
                client = await self._socket.door.accept()
            except LocalShortage as error:
                if not is_short:
                    log.warning("the control port cannot take a client: %s", error)
                is_short = True
                await trio.sleep(SHORTAGE_PAUSE)
                continue
            is_short = False
            guests.start_soon(self._serve, client)

    def _welcome(self, client: Client) -> _Guest:
        self._follow_reloads()
        token = self._socket.token
        guest = _Guest(client, Conversation(trio.current_time(), token.matches if token is not None else None))
        strangers = [each for each in self._guests if not each.talk.is_authenticated]
        if not guest.talk.is_authenticated and len(strangers) >= MOST_UNAUTHENTICATED:
            self._dismiss(min(strangers, key=lambda each: each.rank))
        elif len(self._guests) >= MOST_CLIENTS:
            self._dismiss(min(self._guests, key=lambda each: each.rank))
        self._guests.add(guest)
        return guest

    def _dismiss(self, guest: _Guest) -> None:
        self._guests.discard(guest)
        guest.scope.cancel()

    def _follow_reloads(self) -> None:
        """Reads the token again if a reload was tried since the last look, whoever asked for it."""
        report = self._gateway.reload_report
        if report is self._reload_seen:
            return
        self._reload_seen = report
        token_file = self._gateway.state.config.globals.admin_token_file
        try:
            # what the command line set stays, as long as the file does not say something new
            self._socket.reread_token(token_file if token_file != self._token_file else None)
            self._token_file = token_file
        except ConfigError as error:
            log.warning("the control port's token stays what it was: %s", error)

    # --- one client -----------------------------------------------------------------------------------

    async def _serve(self, client: Client) -> None:
        """Serves one client until either side ends it. *Closes:* `client`."""
        guest: _Guest | None = None
        try:
            with self._gateway.services.containing("a control connection"), suppress(PeerReset):
                guest = self._welcome(client)
                with guest.scope:
                    await self._converse(guest)
                if guest.scope.cancelled_caught and guest.is_receiving:
                    # it reads, so this is taken at once; who does not read has half a reply in its way anyway
                    await _say_goodbye(client)
        finally:
            if guest is not None:
                self._guests.discard(guest)
            client.close()

    async def _converse(self, guest: _Guest) -> None:
        talk = guest.talk
        while True:
            step = talk.next_step(trio.current_time())
            if step is None and talk.is_over:
                return
            if step is None:
                step = await self._receive(guest)
            if isinstance(step, Say):
                heard = await _send(guest.client, step.line)
                if step.closes and heard:
                    await _linger(guest.client)
                if step.closes or not heard:
                    return
            elif isinstance(step, Run) and not await _send(guest.client, await self._act(guest, step)):
                return

    async def _receive(self, guest: _Guest) -> Say | None:
        """Waits for more; the last words if it does not come in time."""
        guest.is_receiving = True  # and it stays so when the wait is cancelled: that is what it is for
        with trio.CancelScope(deadline=guest.talk.deadline) as patience:
            guest.talk.receive(await guest.client.receive_some(CHUNK), trio.current_time())
        guest.is_receiving = False
        return guest.talk.expire() if patience.cancelled_caught else None

    async def _act(self, guest: _Guest, step: Run) -> bytes:
        """Carries a command out; a bug in that is the command's trouble, not the connection's."""
        reply = error_line("internal error; the log has the details")
        guest.is_acting = True
        try:
            with self._gateway.services.containing("a control command"):
                reply = await carry_out(step.command, self._gateway, self._memory)
            if isinstance(step.command, Reload):
                self._follow_reloads()
        finally:
            guest.is_acting = False
        return reply


async def _say_goodbye(client: Client) -> None:
    with trio.move_on_after(LINGER, shield=True):
        await client.send_all(error_line("another client takes this one's place: it was idle longest"))


async def _send(client: Client, reply: bytes) -> bool:
    """Sends a reply; False when the client does not read it."""
    with memoryview(reply) as whole:
        for start in range(0, len(whole), PIECE):
            with trio.move_on_after(UNREAD_FOR) as patience:
                await client.send_all(bytes(whole[start : start + PIECE]))
            if patience.cancelled_caught:
                return False
    return True


async def _linger(client: Client) -> None:
    """Reads on for a moment: closing over unread bytes would reset the connection, and our last line with it."""
    with trio.move_on_after(LINGER):
        await client.send_eof()
        left = LINGER_BYTES
        while left > 0 and (data := await client.receive_some(CHUNK)):
            left -= len(data)
