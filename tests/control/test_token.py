"""The token's file: only what nobody else can read is a secret."""

import os
from pathlib import Path

import pytest

from sniffgate.control.token import Token, read_token
from sniffgate.errors import ConfigError

SECRET = "0123456789abcdef"


def write(path: Path, content: bytes, mode: int = 0o600) -> str:
    path.write_bytes(content)
    path.chmod(mode)
    return str(path)


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_an_end_of_line_is_not_part_of_the_token(tmp_path: Path, end: bytes) -> None:
    """Editors add one."""
    assert SECRET.encode() == read_token(write(tmp_path / "t", SECRET.encode() + end))


@pytest.mark.parametrize(
    ("content", "mode", "sentence"),
    [
        (b"short", 0o600, "a token has 16 to 4096 bytes, this one 5"),
        (b"", 0o600, "a token has 16 to 4096 bytes, this one 0"),
        (b"x" * 9000, 0o600, "a token has 16 to 4096 bytes, this one 4097"),
        (SECRET.encode(), 0o640, "others may use it (mode 0640): run chmod 600 on it"),
        (SECRET.encode(), 0o604, "others may use it (mode 0604): run chmod 600 on it"),
        (SECRET.encode(), 0o622, "others may use it (mode 0622): run chmod 600 on it"),
        (b"0123456789\nabcdef\n", 0o600, "a token is one line"),
        (b"\xff" * 20, 0o600, "a token must be text in UTF-8"),
    ],
)
def test_a_file_that_holds_no_secret_is_refused(tmp_path: Path, content: bytes, mode: int, sentence: str) -> None:
    """A token that others know is worse than none: one relies on it."""
    path = write(tmp_path / "t", content, mode)
    with pytest.raises(ConfigError) as refused:
        read_token(path)

    assert f"{path}: {sentence}" == str(refused.value)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    """And a FIFO without a writer does not make the gateway wait."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo, 0o600)
    for path, sentence in (
        (fifo, "is not a regular file"),
        (tmp_path, "is not a regular file"),
        (tmp_path / "none", "cannot be read: No such file or directory"),
        ("a\0b", "cannot be read: embedded null byte"),
    ):
        with pytest.raises(ConfigError) as refused:
            read_token(str(path))
        assert f"{path}: {sentence}" == str(refused.value)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_of_another_user_is_refused(tmp_path: Path) -> None:
    """Who owns the file can read the token, and change it."""
    path = write(tmp_path / "t", SECRET.encode())
    os.chown(path, 12345, -1)
    with pytest.raises(ConfigError, match="belongs to another user"):
        read_token(path)


def test_only_the_whole_token_matches(tmp_path: Path) -> None:
    """Whatever a client shows is compared, and nothing fails."""
    token = Token(write(tmp_path / "t", SECRET.encode()))
    assert token.matches(SECRET)
    assert not any(token.matches(shown) for shown in ("", SECRET[:-1], SECRET + "x", "\ud800", "é" * 16))


def test_a_token_that_cannot_be_read_again_stays(tmp_path: Path) -> None:
    """Half an edit must not open or close the port."""
    token = Token(write(tmp_path / "t", SECRET.encode()))
    write(tmp_path / "t", b"short")
    with pytest.raises(ConfigError):
        token.reread()
    assert token.matches(SECRET)
    write(tmp_path / "t", b"another one of 16")
    token.reread()
    assert token.matches("another one of 16")
