"""The client: a reply, or one clear sentence."""

import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from sniffgate.control.client import ask
from sniffgate.errors import CommandRefused
from tests.control.desk import open_desk
from tests.tasks.configs import A, B, config_for

Handler = Callable[[trio.SocketStream], Awaitable[None]]


@pytest.fixture
async def served(nursery: trio.Nursery) -> AsyncIterator[Callable[[Handler], Awaitable[str]]]:
    """Serves one handler on a loopback port and gives the address."""

    async def serve(handler: Handler) -> str:
        (listener,) = await nursery.start(partial(trio.serve_tcp, handler, 0, host="127.0.0.1"))
        return f"127.0.0.1:{listener.socket.getsockname()[1]}"

    yield serve
    nursery.cancel_scope.cancel()


async def refusal(address: str, line: str = "status", timeout: float = 5.0, token: str | None = None) -> str:
    with trio.fail_after(10), pytest.raises(CommandRefused) as refused:
        await ask(address, line, token=token, timeout=timeout)
    return str(refused.value)


def answering(*replies: bytes) -> Handler:
    async def handle(stream: trio.SocketStream) -> None:
        for reply in replies:
            await stream.receive_some(1000)
            await stream.send_all(reply)

    return handle


@pytest.mark.realnet
@pytest.mark.parametrize(
    ("reply", "sentence"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "answers, but not as sniffgate does"),
        (b"[]\n", "answers, but not as sniffgate does"),
        (b'{"status":1}\n', "answers, but not as sniffgate does"),
        (b"\xff\n", "answers, but not as sniffgate does"),
        (b"[" * 100_000 + b"\n", "answers, but not as sniffgate does"),
        (b'{"ok":tr', "answers, but not as sniffgate does"),
        (b"", "closed the connection without a reply"),
    ],
)
async def test_what_is_not_sniffgate_is_named_so(
    served: Callable[[Handler], Awaitable[str]], reply: bytes, sentence: str
) -> None:
    """A mistyped port usually belongs to somebody."""
    address = await served(answering(reply))
    assert f"{address} {sentence}" == await refusal(address)


@pytest.mark.realnet
async def test_who_does_not_answer_is_not_waited_for(served: Callable[[Handler], Awaitable[str]]) -> None:
    """A script must come to an end."""

    async def say_nothing(stream: trio.SocketStream) -> None:
        await trio.sleep_forever()

    address = await served(say_nothing)
    assert f"{address} did not answer within 0.1 s" == await refusal(address, timeout=0.1)


@pytest.mark.realnet
async def test_a_token_goes_first(served: Callable[[Handler], Awaitable[str]]) -> None:
    """And a refused one is the sentence to show."""
    address = await served(answering(b'{"ok":true}\n', b'{"ok":true,"x":1}\n'))
    with trio.fail_after(5):
        assert {"ok": True, "x": 1} == await ask(address, "status", token="t")

    address = await served(answering(b'{"ok":false,"error":"authentication failed"}\n'))
    assert f"{address}: authentication failed" == await refusal(address, token="t")


@pytest.mark.realnet
async def test_a_unix_socket_is_an_address_too(tmp_path: Path) -> None:
    """As `admin_listen` writes it."""
    path = str(tmp_path / "s")
    assert f"cannot reach unix:{path}: there is no such socket; is the gateway running?" == await refusal(
        f"unix:{path}"
    )
    with trio.socket.socket(trio.socket.AF_UNIX) as sock:
        await sock.bind(path)
        sock.listen()
        with trio.fail_after(5):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.serve_listeners, answering(b'{"ok":true}\n'), [trio.SocketListener(sock)])
                assert {"ok": True} == await ask(f"unix:{path}", "stats")
                nursery.cancel_scope.cancel()


@pytest.mark.realnet
async def test_nobody_there_is_said_plainly(unused: str) -> None:
    """The most frequent answer of all."""
    sentence = f"cannot reach {unused}: nobody listens there; is the gateway running?"
    assert sentence == await refusal(unused)
    assert sentence.replace("127.0.0.1", "") == await refusal(unused.replace("127.0.0.1", ""))


@pytest.fixture
def unused() -> str:
    """The address of a port that was free a moment ago."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{sock.getsockname()[1]}"


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("nonsense", "cannot reach nonsense: 'nonsense' is not an address: the port is missing (host:port)"),
        ("127.0.0.1:0", "cannot reach 127.0.0.1:0: the port is 0"),
    ],
)
async def test_a_bad_address_says_what_is_wrong(address: str, sentence: str) -> None:
    """Before anything is tried."""
    assert sentence == await refusal(address)


async def test_a_command_is_one_line(autojump_clock: MockClock) -> None:
    """Two in one would leave the second reply for the next question."""
    async with open_desk(config_for(A, B)) as desk:
        with await desk.client() as client:
            for line in ("status\nquit", "status\rquit"):
                with pytest.raises(CommandRefused, match="a command is one line"):
                    await client.ask(line)
            assert (await client.ask('{"cmd":"why","node":"node-a"}'))["node"] == "node-a"


def test_the_module_is_light() -> None:
    """`ctl` runs in scripts, many times."""
    program = "import sys, sniffgate.control.client; print(*sorted(sys.modules))"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert set() == {"rich", "sniffgate.tasks.gateway", "cattrs", "tomlkit", "click"} & set(found)
