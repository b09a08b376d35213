"""Where the control port may listen, and with what."""

from pathlib import Path

import pytest
from trio.testing import MockClock

from sniffgate.control.listening import open_control
from sniffgate.errors import CannotBind, ConfigError, SniffgateError
from sniffgate.testing import VirtualNetwork

REACHABLE = "set admin_token_file, or listen on 127.0.0.1 or a unix socket"


@pytest.fixture
def network() -> VirtualNetwork:
    network = VirtualNetwork()
    network.names["inside"] = ("127.0.0.1", "::1")
    network.names["both"] = ("127.0.0.1", "10.0.0.1")
    return network


@pytest.fixture
def token_file(tmp_path: Path) -> str:
    path = tmp_path / "token"
    path.write_text("0123456789abcdef")
    path.chmod(0o600)
    return str(path)


@pytest.mark.parametrize("listen", ["127.0.0.1:9100", "[::1]:9100", "inside:9100", "localhost:9100", "127.0.0.1:0"])
async def test_loopback_needs_no_token(autojump_clock: MockClock, network: VirtualNetwork, listen: str) -> None:
    """The default, and what stands for it."""
    (await open_control(listen, "", network)).close()


@pytest.mark.parametrize("listen", [":9100", "0.0.0.0:9100", "[::]:9100", "10.0.0.1:9100", "both:9100"])
async def test_an_address_others_can_reach_needs_one(
    autojump_clock: MockClock, network: VirtualNetwork, listen: str, token_file: str
) -> None:
    """Any of a name's addresses will do for that: which one is bound may change with the resolver's mood."""
    with pytest.raises(ConfigError) as refused:
        await open_control(listen, "", network)
    assert f"admin_listen: other machines can reach {listen}: {REACHABLE}" == str(refused.value)

    if "10.0.0.1" not in listen:
        socket = await open_control(listen, token_file, network)
        with pytest.raises(ConfigError, match="it cannot go without a token"):
            socket.reread_token("")
        assert socket.token is not None
        socket.close()


@pytest.mark.parametrize(
    ("listen", "kind", "sentence"),
    [
        ("nonsense", ConfigError, "admin_listen: 'nonsense' is not an address: the port is missing (host:port)"),
        ("unix:", ConfigError, "admin_listen: 'unix:' has no path of a socket"),
        ("nowhere:9100", CannotBind, "control port: nowhere has no address"),
    ],
)
async def test_what_cannot_be_listened_on_says_why(
    autojump_clock: MockClock, network: VirtualNetwork, listen: str, kind: type[SniffgateError], sentence: str
) -> None:
    """One sentence, before anything has started."""
    with pytest.raises(kind) as refused:
        await open_control(listen, "", network)
    assert sentence == str(refused.value)


async def test_a_port_in_use_is_named(autojump_clock: MockClock, network: VirtualNetwork) -> None:
    """The usual cause is a second instance."""
    first = await open_control("127.0.0.1:9100", "", network)
    with pytest.raises(CannotBind, match=r"control port: .*127\.0\.0\.1:9100"):
        await open_control("127.0.0.1:9100", "", network)
    first.close()


async def test_on_loopback_a_token_may_come_and_go(
    autojump_clock: MockClock, network: VirtualNetwork, token_file: str
) -> None:
    """`admin_token_file` takes hold at a reload."""
    socket = await open_control("127.0.0.1:9100", "", network)
    secrets = []
    for token_file_now in (None, token_file, None, ""):
        socket.reread_token(token_file_now)
        secrets.append(socket.token is not None)
    assert [False, True, True, False] == secrets
    socket.close()
