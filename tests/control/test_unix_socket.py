"""The control port as a Unix socket: its mode, its file, and who may take whose place. Real sockets."""

import fcntl
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from sniffgate.control.unix_socket import LONGEST_PATH, UnixAcceptor, open_unix
from sniffgate.errors import CannotBind, ConfigError, PeerReset

pytestmark = pytest.mark.realnet


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s"


@pytest.fixture(params=[0o000, 0o077, 0o777])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def leave_stale(path: Path) -> None:
    """As after `kill -9`."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead:
        dead.bind(str(path))
        dead.listen(1)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def is_there(path: Path) -> bool:
    return path.exists()


def remove(path: Path) -> None:
    path.unlink()


def inode(path: Path) -> int:
    return path.lstat().st_ino


def put(kind: str, path: Path) -> None:
    match kind:
        case "file":
            path.write_text("precious")
        case "directory":
            path.mkdir()
        case "fifo":
            os.mkfifo(path)
        case _:
            (path.parent / "file").write_text("precious")
            path.symlink_to("file")


async def answers(acceptor: UnixAcceptor, path: Path) -> bool:
    with trio.fail_after(5):
        async with await trio.open_unix_socket(path) as stream:
            conn = await acceptor.accept()
            await stream.send_all(b"hi")
            heard = await conn.receive_some(10)
            await conn.send_all(heard)
            await conn.send_eof()
            conn.close()
            return heard == await stream.receive_some(10) and await stream.receive_some(10) == b""


async def test_only_the_owner_may_use_it_whatever_the_umask(path: Path, umask: int) -> None:
    """With umask 0 everybody could, with 777 nobody."""
    acceptor = open_unix(str(path))
    assert 0o600 == mode_of(path)
    assert await answers(acceptor, path)
    acceptor.close()


async def test_a_stale_file_is_replaced(path: Path) -> None:
    """A crash must not stop the next start."""
    leave_stale(path)
    acceptor = open_unix(str(path))
    assert await answers(acceptor, path)
    acceptor.close()
    assert not is_there(path)


@pytest.mark.parametrize("backlog_is_full", [False, True])
async def test_a_live_one_is_refused_and_goes_on(path: Path, backlog_is_full: bool) -> None:
    """A second instance must not take over the first one's port, busy as that may be."""
    first = open_unix(str(path))
    waiting = []
    if backlog_is_full:
        first._sock.listen(0)  # the kernel lets one more than that wait
        waiting = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)]
        waiting[0].connect(str(path))
    with pytest.raises(CannotBind) as refused:
        open_unix(str(path))
    assert f"cannot listen at unix:{path}: another process listens there" == str(refused.value)
    for sock in waiting:
        sock.close()
        with trio.fail_after(5):
            (await first.accept()).close()
    if not backlog_is_full:
        with trio.fail_after(5):
            (await first.accept()).close()  # the second one's trial
    assert await answers(first, path)
    first.close()


@pytest.mark.parametrize("kind", ["file", "directory", "link to a file", "fifo"])
def test_what_is_no_socket_is_never_deleted(path: Path, kind: str) -> None:
    """A path mistyped in the configuration must cost nobody a file."""
    put(kind, path)
    before = inode(path)
    with pytest.raises(CannotBind) as refused:
        open_unix(str(path))
    assert f"cannot listen at unix:{path}: something that is not a socket stands there" == str(refused.value)
    assert before == inode(path)


async def test_a_datagram_socket_in_use_is_not_taken(path: Path) -> None:
    """It is another program's."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.bind(str(path))
        with pytest.raises(CannotBind, match="another process listens there"):
            open_unix(str(path))
        assert is_there(path)


@pytest.mark.parametrize(
    ("name", "kind", "sentence"),
    [
        ("none/s", CannotBind, "cannot listen at unix:{}: the directory {parent} does not exist"),
        ("file/s", CannotBind, "cannot listen at unix:{}: the directory {parent} does not exist"),
        ("", ConfigError, "admin_listen: 'unix:' has no path of a socket"),
    ],
)
def test_a_path_that_cannot_be_says_why(tmp_path: Path, name: str, kind: type[Exception], sentence: str) -> None:
    """Bind's own words are `No such file or directory` and `AF_UNIX path too long`."""
    (tmp_path / "file").touch()
    path = str(tmp_path / name) if name else ""
    with pytest.raises(kind) as refused:
        open_unix(path)
    assert sentence.format(path, parent=os.path.dirname(path)) == str(refused.value)


async def test_the_longest_path_is_107_bytes(tmp_path: Path) -> None:
    """The kernel's structure has 108, with the NUL."""
    room = LONGEST_PATH - len(os.fsencode(tmp_path)) - 1
    open_unix(str(tmp_path / ("s" * room))).close()
    with pytest.raises(ConfigError, match="has 108 bytes, a socket's has at most 107"):
        open_unix(str(tmp_path / ("s" * (room + 1))))


async def test_the_file_goes_with_the_socket_only_if_it_is_still_ours(path: Path) -> None:
    """After somebody put another socket there, closing ours must not take theirs away."""
    first = open_unix(str(path))
    remove(path)
    second = open_unix(str(path))
    first.close()
    assert is_there(path)
    second.close()
    second.close()
    assert not is_there(path)


async def test_two_that_start_together_do_not_steal_from_each_other(path: Path) -> None:
    """Between looking and binding nobody else of us may look: that is what the directory's lock is for."""
    leave_stale(path)
    directory = os.open(path.parent, os.O_RDONLY)
    fcntl.flock(directory, fcntl.LOCK_EX)
    with pytest.raises(CannotBind, match="another process has the lock of"):
        open_unix(str(path))
    os.close(directory)
    open_unix(str(path)).close()


async def test_a_peer_that_is_gone_is_a_reset(path: Path) -> None:
    """The server knows one error of clients."""
    acceptor = open_unix(str(path))
    with trio.fail_after(5):
        stream = await trio.open_unix_socket(path)
        conn = await acceptor.accept()
        await stream.aclose()
        assert b"" == await conn.receive_some(10)
        with pytest.raises(PeerReset):
            await conn.send_all(b"x")
        conn.close()
    acceptor.close()
