"""Writing lines down without ever waiting: a bounded queue in front of a thread of its own.

Whoever calls `put` pays a microsecond. A pipe that nobody reads or a full disk costs lines, which are counted, and
never time. What has begun to be written is finished before anything else, so a file holds whole lines only, but for
the last one after a crash.
"""

import contextlib
import os
import queue
import select
import stat
import threading
from collections.abc import Callable, Iterator
from typing import NamedTuple

import attrs

Line = str | Callable[[], str]  # a callable is rendered by the writer's thread

DEPTH = 4096  # lines that may wait
BATCH = 256  # lines that share one system call: each call costs a hand-over of the interpreter's lock
_NO_FD = -1


@attrs.define
class _Item:
    """A line to write."""

    line: Line | None
    dropped: int = 0  # lines that found no room just before this one


class _Reopen(_Item):
    """Begin the file anew; the line is its first."""


class _Rotate(_Reopen):
    """As `_Reopen`, the full file moved away before."""


class _Close(_Item):
    """Nothing comes after this."""


class _Chunk(NamedTuple):
    """Bytes to write, and what is lost with them."""

    text: bytes
    lines: int  # 1, or 0 for a gap line: what it stands for has been counted
    missing: int  # how many lines a gap must tell of if this one is lost


class LineWriter:
    """Appends lines to a file, or to an open descriptor such as stderr's (which it never closes).

    Where lines are missing, `gap(count)` gives a line to stand for them. `on_trouble` hears, in the writer's thread,
    the first error of a row. Above `limit` bytes (0 = none) `over_limit` turns true, and `rotate` does something.
    """

    def __init__(
        self,
        target: str | os.PathLike[str] | int,
        *,
        depth: int = DEPTH,
        limit: int = 0,
        gap: Callable[[int], str] | None = None,
        on_trouble: Callable[[Exception], object] | None = None,
    ) -> None:
        self.over_limit = False
        self._path = "" if isinstance(target, int) else os.fspath(target)
        self._fd = target if isinstance(target, int) else _NO_FD
        self._depth = depth
        self._limit = limit
        self._gap = gap
        self._on_trouble = on_trouble
        self._closed = False
        self._refused = 0  # lines that found no room
        self._dropped = 0  # of those, the ones that no item has told the thread of yet
        # SimpleQueue.put may interrupt itself (a signal handler or a finaliser that logs); a lock of ours could not.
        self._items: queue.SimpleQueue[_Item] = queue.SimpleQueue()
        # The rest belongs to the thread.
        self._failed = 0  # lines lost to errors
        self._missing = 0  # lines lost, for whatever reason, since the last one written
        self._rest = b""  # of what was begun; goes before anything else
        self._size = 0
        self._rotate_at = limit
        self._in_trouble = False
        self._thread = threading.Thread(target=self._run, name="sniffgate-writer", daemon=True)
        self._thread.start()

    @property
    def lost(self) -> int:
        """How many lines were not written: the queue was full, writing failed, or rendering did."""
        return self._refused + self._failed

    def put(self, line: Line) -> bool:
        """Queues a line, given without its end; False when it is lost for want of room. Never blocks, never raises."""
        if self._closed or self._items.qsize() >= self._depth:
            self._refused += 1
            self._dropped += 1
            return False
        self._queue(_Item(line))
        return True

    def reopen(self, first: Line | None = None) -> None:
        """After the lines put so far, opens the path anew (the file was moved away) and begins it with `first`."""
        self._queue(_Reopen(first))

    def rotate(self, first: Line | None = None) -> None:
        """As `reopen`, but moves the file to `path.1` before. Does nothing when the file is not over its limit."""
        self.over_limit = False
        self._queue(_Rotate(first))

    def close(self, timeout: float) -> bool:
        """Takes no more lines and blocks for at most `timeout` seconds until those it has are out; False if not."""
        if not self._closed:
            self._closed = True
            self._queue(_Close(None))
        self._thread.join(timeout)
        return not self._thread.is_alive() and not self._rest

    def _queue(self, item: _Item) -> None:
        item.dropped, self._dropped = self._dropped, 0
        self._items.put(item)

    # --- in the thread ----------------------------------------------------------------------------

    def _run(self) -> None:
        is_open_ended = True
        while is_open_ended:
            chunks: list[_Chunk] = []
            for item in self._next_batch():
                self._missing += item.dropped
                match item:
                    case _Reopen():
                        self._write([*chunks, *self._gap_chunk()])
                        chunks = []
                        self._begin_file(item)
                    case _Close():
                        chunks += self._gap_chunk()
                        is_open_ended = False
                    case _:
                        chunks += self._chunks_for(item.line)
            self._write(chunks)
        self._close_file()

    def _next_batch(self) -> Iterator[_Item]:
        yield self._items.get()
        for _ in range(min(self._items.qsize(), BATCH - 1)):
            yield self._items.get()

    def _chunks_for(self, line: Line | None) -> list[_Chunk]:
        text = self._rendered(line)
        return [*self._gap_chunk(), _Chunk(text, lines=1, missing=1)] if text else []

    def _gap_chunk(self) -> list[_Chunk]:
        missing, self._missing = self._missing, 0
        return [_Chunk(_encoded(self._gap(missing)), lines=0, missing=missing)] if missing and self._gap else []

    def _rendered(self, line: Line | None) -> bytes:
        if line is None:
            return b""
        try:
            return _encoded(line if isinstance(line, str) else line())
        except Exception as error:
            self._lose([_Chunk(b"", lines=1, missing=1)], error)
            return b""

    def _write(self, chunks: list[_Chunk]) -> None:
        """Writes what was begun, then the chunks. After an error the chunk now begun is kept and the others lost."""
        if not chunks and not self._rest:
            return
        done = 0
        try:
            self._ensure_open()
            waiting = memoryview(self._rest + b"".join([chunk.text for chunk in chunks]))
            while done < len(waiting):
                done += self._write_some(waiting[done:])
        except OSError as error:
            self._keep_and_lose(chunks, done, error)
        else:
            self._rest = b""
            self._in_trouble = False
        self._size += done
        if self._limit and self._size >= self._rotate_at:
            self.over_limit = True

    def _keep_and_lose(self, chunks: list[_Chunk], done: int, error: OSError) -> None:
        begun, self._rest = self._rest, self._rest[done:]
        done -= len(begun)
        while chunks and done > 0:
            self._rest = chunks[0].text[done:]
            done -= len(chunks[0].text)
            chunks = chunks[1:]
        self._lose(chunks, error)

    def _write_some(self, waiting: memoryview) -> int:
        while True:
            try:
                return os.write(self._fd, waiting)
            except BlockingIOError:  # someone else who holds the pipe made it non-blocking
                room = select.poll()
                room.register(self._fd, select.POLLOUT)
                room.poll()

    def _lose(self, chunks: list[_Chunk], error: Exception) -> None:
        self._failed += sum(chunk.lines for chunk in chunks)
        self._missing += sum(chunk.missing for chunk in chunks)
        if not self._in_trouble and self._on_trouble is not None:
            with contextlib.suppress(Exception):  # a reporter's bug must not end the writing
                self._on_trouble(error)
        self._in_trouble = True

    # --- the file ---------------------------------------------------------------------------------

    def _begin_file(self, item: _Reopen) -> None:
        if isinstance(item, _Rotate) and not self._move_away():
            return
        self._close_file()
        self._size = self._missing = 0  # a first line starts afresh: what was lost belongs to the file before
        self._rotate_at = self._limit
        self.over_limit = False
        self._rest = self._rendered(item.line)  # as if begun: a first line is kept until it can be written
        self._write([])

    def _move_away(self) -> bool:
        if not self._limit or self._size < self._rotate_at:
            return False
        try:
            os.replace(self._path, f"{self._path}.1")
        except OSError as error:
            self._rotate_at = self._size + self._limit  # not again at every line
            self._lose([], error)
            return False
        return True

    def _ensure_open(self) -> None:
        if self._fd != _NO_FD:
            return
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOCTTY
        self._fd = os.open(self._path, flags, 0o640)
        status = os.fstat(self._fd)
        if stat.S_ISREG(status.st_mode):
            self._size = status.st_size
            if self._size and not _ends_whole(self._path):
                self._rest = b"\n" + self._rest  # a crash tore the last line: ours do not go on in it

    def _close_file(self) -> None:
        if self._path and self._fd != _NO_FD:
            with contextlib.suppress(OSError):
                os.close(self._fd)
            self._fd = _NO_FD


def _encoded(line: str) -> bytes:
    return line.encode("utf-8", "backslashreplace") + b"\n"


def _ends_whole(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"
    except OSError:
        return False
