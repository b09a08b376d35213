"""A client of a line protocol that asks again until it has an answer. It knows Trio, and nothing of gateways."""

from collections.abc import Awaitable, Callable

import trio

Open = Callable[[], Awaitable[trio.abc.Stream]]


class GaveUp(Exception):
    """No answer came in as many tries as were allowed."""


class RetryingClient:
    """Asks over a new connection each time. A question may be asked twice, so it must be harmless to repeat."""

    def __init__(self, open_stream: Open, *, tries: int = 4, patience: float = 1.0, pause: float = 0.1) -> None:
        """Each try has `patience` seconds; before the next one it waits `pause`, then twice that, and so on."""
        self._open_stream = open_stream
        self._tries = tries
        self._patience = patience
        self._pause = pause

    async def ask(self, question: str) -> str:
        """The answer, one line. Raises `GaveUp`."""
        pause = self._pause
        for number in range(self._tries):
            if number:
                await trio.sleep(pause)
                pause *= 2
            with trio.move_on_after(self._patience):
                try:
                    return await self._ask_once(question)
                except (OSError, trio.BrokenResourceError, EOFError):
                    pass
        raise GaveUp(f"no answer to {question!r} in {self._tries} tries")

    async def _ask_once(self, question: str) -> str:
        async with await self._open_stream() as stream:
            await stream.send_all(question.encode() + b"\n")
            answer = b""
            while not answer.endswith(b"\n"):
                chunk = await stream.receive_some()
                if not chunk:
                    raise EOFError
                answer += chunk
            return answer.decode().rstrip("\n")
