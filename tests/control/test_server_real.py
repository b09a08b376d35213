"""The control server on real sockets, TCP and Unix, with the client that `ctl` uses."""

from pathlib import Path

import pytest
import trio

from sniffgate.control.client import ask, open_client
from sniffgate.control.listening import open_control
from sniffgate.control.server import serve_control
from sniffgate.net.sockets import SocketNetwork
from sniffgate.testing import open_gateway
from tests.tasks.configs import A, B, config_for

pytestmark = pytest.mark.realnet


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "[::1]:0", "unix:"])
async def test_a_command_goes_all_the_way(tmp_path: Path, listen: str) -> None:
    """What the virtual tests promise holds where the kernel has a say."""
    with trio.fail_after(10):
        async with open_gateway(config_for(A, B)) as service:
            socket = await open_control(f"unix:{tmp_path}/s" if listen == "unix:" else listen, "", SocketNetwork())
            service.nursery.start_soon(serve_control, socket, service.gateway)

            reply = await ask(socket.address, "switch 'node-b' tcp", token=None, timeout=5)
            assert {"tcp": "node-b", "udp": None} == reply["pins"]
            with await open_client(socket.address) as client:
                assert not (await client.ask("nonsense"))["ok"]
            with await open_client(socket.address) as client:
                assert (await client.ask("help"))["ok"]
                assert not (await client.ask("nonsense"))["ok"]
                assert (await client.ask("stats"))["ok"]


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "unix:"])
@pytest.mark.parametrize("start", [b"", b"GET / HTTP/1.1\r\n"])
async def test_a_megabyte_is_answered_with_an_error_and_not_a_reset(tmp_path: Path, listen: str, start: bytes) -> None:
    """Closing a socket over unread bytes resets the connection, and the error line with it."""
    with trio.fail_after(10):
        async with open_gateway(config_for(A, B)) as service:
            socket = await open_control(f"unix:{tmp_path}/s" if listen == "unix:" else listen, "", SocketNetwork())
            service.nursery.start_soon(serve_control, socket, service.gateway)
            if listen == "unix:":
                stream = await trio.open_unix_socket(f"{tmp_path}/s")
            else:
                host, _, port = socket.address.rpartition(":")
                stream = await trio.open_tcp_stream(host, int(port))
            async with stream:
                await stream.send_all(start + b"x" * 1_000_000)
                text = b""
                while data := await stream.receive_some(1000):
                    text += data
            assert 1 == text.count(b"\n")
            assert text.startswith(b'{"ok":false')
