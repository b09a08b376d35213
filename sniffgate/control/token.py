"""The control port's token: a secret in a file that only its owner can read."""

import hmac
import os
import stat

from ..errors import ConfigError, Fault

SHORTEST = 16  # bytes
LONGEST = 4096


class Token:
    """What a client must show, read from a file at the start and again at each reload."""

    def __init__(self, path: str) -> None:
        """Reads `path`. Errors: `ConfigError`."""
        self._path = path
        self._secret = read_token(path)

    def reread(self) -> None:
        """Reads the file again. Errors: `ConfigError`; then the token stays what it was."""
        self._secret = read_token(self._path)

    def matches(self, shown: str) -> bool:
        """Whether a client showed the token; takes as long whatever it showed."""
        return hmac.compare_digest(self._secret, shown.encode("utf-8", "surrogatepass"))


def read_token(path: str) -> bytes:
    """The token in the file `path`, its end of line stripped. Errors: `ConfigError` saying what is wrong with the file.

    For the gateway and for its clients: a token that others can read is refused at both ends.
    """
    try:
        # a FIFO in its place must not make us wait for a writer
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        raise _fault(path, f"cannot be read: {getattr(error, 'strerror', None) or error}") from error
    try:
        # asked of the open file, so that it cannot be another one by the time it is read
        _check_owner(path, os.fstat(descriptor))
        secret = os.read(descriptor, LONGEST + 2)
    except OSError as error:
        raise _fault(path, f"cannot be read: {error.strerror}") from error
    finally:
        os.close(descriptor)
    secret = secret.removesuffix(b"\n").removesuffix(b"\r")
    if not SHORTEST <= len(secret) <= LONGEST:
        raise _fault(path, f"a token has {SHORTEST} to {LONGEST} bytes, this one {min(len(secret), LONGEST + 1)}")
    try:
        text = secret.decode("utf-8")
    except UnicodeDecodeError:
        raise _fault(path, "a token must be text in UTF-8") from None
    if any(char in text for char in "\n\r\0"):
        raise _fault(path, "a token is one line")
    return secret


def _check_owner(path: str, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise _fault(path, "is not a regular file")
    if status.st_uid not in (0, os.geteuid()):
        raise _fault(path, "belongs to another user: it must be root's or that of who runs sniffgate")
    if status.st_mode & 0o077:
        mode = stat.S_IMODE(status.st_mode)
        raise _fault(path, f"others may use it (mode {mode:04o}): run chmod 600 on it")


def _fault(path: str, sentence: str) -> ConfigError:
    return ConfigError(Fault(path, 0, "", sentence))
