"""The configuration file as it is on disk: looked at in a thread, and read only once it is still.

Editors and deployment tools change a file in every way there is: in place, by renaming another over it, by turning a
symbolic link (of the file or of its directory), by removing and writing it anew. A look follows the path each time, so
none of them differs; and it compares contents, so neither equal sizes nor equal times can hide a change.
"""

import hashlib
import os
import stat
from typing import NamedTuple

import attrs
import trio

from ..config.load import load_text, read_file
from ..config.schema import Config
from ..errors import ConfigError, Fault
from .file_writers import is_being_written

PAUSE = 0.01  # seconds between two looks that must be equal
STILL_WHEN_BROKEN = 0.07  # seconds without a change before a file that does not load is called faulty
PATIENCE = 5.0  # seconds after which a file that never stops changing is taken as it is

# Seconds without a change after which a file that somebody still has open for writing is taken as it is: writers in
# place pause for tenths of a second, and a program that keeps the file open must not hold reloads up for ever. Whoever
# asks for a reload waits for the answer, so less then.
WRITER_PATIENCE = 2.0
WRITER_PATIENCE_ASKED = 0.5


class Identity(NamedTuple):
    """What `stat` says of a file that is not the same after a change."""

    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int


@attrs.frozen
class Look:
    """What a file held at one moment; two looks are equal when nothing was done to it in between."""

    content: bytes | None = attrs.field(eq=False, repr=False)  # None: it could not be read
    digest: str
    identity: Identity | None  # None: there is no such file
    problem: Fault | None = None  # why it could not be read
    was_moving: bool = attrs.field(default=False, eq=False)  # it changed under the reader
    is_being_written: bool = attrs.field(default=False, eq=False)  # somebody has it open for writing

    @property
    def key(self) -> str:
        """Equal for two looks that found the same content, or the same reason why there is none."""
        return self.digest or (self.problem.message if self.problem else "")


def digest_of(content: bytes) -> str:
    """A fingerprint of a file's content."""
    return hashlib.sha256(content).hexdigest()


def look(path: str) -> Look:
    """Reads the file. Never raises, and never waits for the other end of a pipe."""
    before = _identity(path)
    try:
        content = read_file(path, regular=True)
    except ConfigError as error:
        return Look(None, "", before, error.faults[0])
    written = is_being_written(path)  # after the reading: a writer who was done by now shows in what follows
    after = _identity(path)
    return Look(content, digest_of(content), after, was_moving=before != after, is_being_written=written)


def is_regular(path: str) -> bool:
    """Whether the path leads to something that can be read more than once (a directory is left to the reader)."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return True
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)


def _identity(path: str) -> Identity | None:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return Identity(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


@attrs.frozen
class Settled:
    """A file that is still: what it holds, and the configuration that this is, or what is wrong with it."""

    look: Look
    config: Config | None
    error: ConfigError | None


class ConfigFile:
    """Looks at a file and reads it, in threads of its own, so that no other work of theirs delays a reload."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self.looks = 0  # taken so far
        self._threads = trio.CapacityLimiter(2)  # one that a dead network disk holds up, and one that works

    async def look(self) -> Look:
        """What the file holds now. *Cancellation:* at once; the thread ends when the disk answers."""
        seen = await trio.to_thread.run_sync(look, self.path, abandon_on_cancel=True, limiter=self._threads)
        self.looks += 1
        return seen

    async def settle(self, known: str = "", writer_patience: float = WRITER_PATIENCE_ASKED) -> Settled:
        """Reads the file until it is still, then parses it, unless its key is `known`.

        Two equal looks a moment apart are still enough for a file that loads. One that does not may be half-written, or
        between the removal of the old and the arrival of the new: it has to stay as it is for longer. One that
        somebody has open for writing has to stay as it is for `writer_patience` seconds, whether it loads or not.
        """
        began = trio.current_time()
        seen = await self.look()
        since = began
        settled: Settled | None = None
        while True:
            await trio.sleep(PAUSE if settled is None else 6 * PAUSE)
            now = await self.look()
            if trio.current_time() - began > PATIENCE:
                return await self._parse(now, known)
            if now != seen or now.was_moving:
                seen, since, settled = now, trio.current_time(), None
                continue
            if now.is_being_written and now.key != known and trio.current_time() - since < writer_patience:
                continue
            settled = settled or await self._parse(now, known)
            if settled.error is None or trio.current_time() - since >= STILL_WHEN_BROKEN:
                return settled

    async def _parse(self, seen: Look, known: str) -> Settled:
        if seen.content is None:
            return Settled(seen, None, ConfigError(seen.problem) if seen.problem else ConfigError())
        if seen.key == known:
            return Settled(seen, None, None)
        try:
            config = await trio.to_thread.run_sync(
                _load, seen.content, self.path, abandon_on_cancel=True, limiter=self._threads
            )
        except ConfigError as error:
            return Settled(seen, None, error)
        return Settled(seen, config, None)


def _load(content: bytes, path: str) -> Config:
    return load_text(content, file=path)
