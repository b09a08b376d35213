"""Lines are written by a thread; whoever puts them never waits, and what is lost is counted and marked."""

import contextlib
import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sniffgate.tasks.writer import LineWriter

SOON = 10.0  # seconds; generous, and only ever waited for in full when the test fails


def gap(count: int) -> str:
    return f"({count} lost)"


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines()


class Gate:
    """A line whose rendering holds the writer's thread until the gate is opened, so that the queue can fill."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()

    def __call__(self) -> str:
        self.reached.set()
        assert self.opened.wait(SOON)
        return "gate"


@pytest.fixture
def unread_pipe() -> Iterator[tuple[int, int]]:
    """A pipe that is full to the brim, with its two ends; both are closed in the end."""
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    try:
        while True:
            os.write(write_end, b"x" * 4096)
    except BlockingIOError:
        os.set_blocking(write_end, True)
    yield read_end, write_end
    for end in (read_end, write_end):
        with contextlib.suppress(OSError):  # a test may have closed its end
            os.close(end)


def test_lines_are_written_in_order_and_whole(tmp_path: Path) -> None:
    """A log that reorders lies."""
    writer = LineWriter(tmp_path / "log")
    for number in range(1000):
        assert writer.put(f"line {number}")

    assert writer.close(SOON)
    assert [f"line {number}" for number in range(1000)] == lines_of(tmp_path / "log")
    assert 0 == writer.lost


def test_a_full_queue_costs_lines_and_leaves_a_gap_line_in_their_place(tmp_path: Path) -> None:
    """The reader of a log learns where it is incomplete, and by how much."""
    gate = Gate()
    writer = LineWriter(tmp_path / "log", depth=2, gap=gap)
    writer.put(gate)
    assert gate.reached.wait(SOON)

    assert [True, True, False, False] == [writer.put(name) for name in "abcd"]
    gate.opened.set()
    drained = Gate()
    while not writer.put(drained):  # until the thread has made room; each refusal is one more line lost
        pass
    drained.opened.set()

    assert writer.close(SOON)
    assert ["gate", "a", "b", f"({writer.lost} lost)", "gate"] == lines_of(tmp_path / "log")


def test_lines_lost_at_the_very_end_are_marked_too(tmp_path: Path) -> None:
    """Otherwise a log cut short would look complete."""
    gate = Gate()
    writer = LineWriter(tmp_path / "log", depth=0, gap=gap)
    writer.reopen(gate)
    assert gate.reached.wait(SOON)
    writer.put("a")
    gate.opened.set()

    assert writer.close(SOON)
    assert ["gate", "(1 lost)"] == lines_of(tmp_path / "log")


def test_nothing_is_taken_after_the_close(tmp_path: Path) -> None:
    """A late log line is counted, not raised at whoever logs it."""
    writer = LineWriter(tmp_path / "log")
    assert writer.close(SOON)

    assert not writer.put("late")
    assert 1 == writer.lost
    assert writer.close(0.0)


def test_a_pipe_that_nobody_reads_delays_nobody(unread_pipe: tuple[int, int]) -> None:
    """A terminal stopped with Ctrl-S, or a stuck log collector, must not stop the gateway."""
    read_end, write_end = unread_pipe
    writer = LineWriter(write_end, depth=10)
    refused = [writer.put("x" * 100) for _ in range(1000)].count(False)

    assert refused >= 1000 - 10 - 256
    assert refused == writer.lost
    assert not writer.close(0.0)

    os.close(read_end)  # the collector dies: the thread gets its error and ends
    assert writer.close(SOON)


@pytest.mark.parametrize("blocks", [True, False])
def test_lines_follow_when_the_pipe_is_read_again(unread_pipe: tuple[int, int], blocks: bool) -> None:
    """A pause is no loss, even when a relative made the shared descriptor non-blocking."""
    read_end, write_end = unread_pipe
    os.set_blocking(write_end, blocks)
    writer = LineWriter(write_end)
    writer.put("first")
    writer.put("second")

    received = b""
    while not received.endswith(b"first\nsecond\n"):
        received += os.read(read_end, 65536)
    assert writer.close(SOON)
    assert 0 == writer.lost


def test_a_full_disk_is_survived_counted_and_told_once() -> None:
    """A full disk never stops traffic, nor does it fill the log with its own complaints."""
    errors: list[Exception] = []
    writer = LineWriter("/dev/full", on_trouble=errors.append)
    for _ in range(1000):
        writer.put("x")

    assert writer.close(SOON)
    assert 1000 == writer.lost
    assert [errno.ENOSPC] == [error.errno for error in errors if isinstance(error, OSError)]


def test_writing_goes_on_when_the_disk_has_room_again(tmp_path: Path) -> None:
    """A path that cannot be opened is tried again with the next line, and the file says what it lacks."""
    directory = tmp_path / "later"
    failed = threading.Event()
    writer = LineWriter(directory / "log", gap=gap, on_trouble=lambda _: failed.set())
    writer.put("lost")
    assert failed.wait(SOON)
    directory.mkdir()
    writer.put("kept")

    assert writer.close(SOON)
    assert ["(1 lost)", "kept"] == lines_of(directory / "log")
    assert 1 == writer.lost


def test_a_line_that_was_begun_is_finished_before_the_next(tmp_path: Path) -> None:
    """A disk that fills in the middle of a line leaves no torn line inside the file."""
    writer = ShortOfSpace(tmp_path / "log", room=12)
    writer.put("0123456789")
    writer.put("abcdefghij")
    writer.put("gone")
    assert writer.wait_for_shortage()
    writer.room = 1000
    writer.put("next")

    assert writer.close(SOON)
    assert "0123456789\nabcdefghij\n" in (tmp_path / "log").read_text()
    written = lines_of(tmp_path / "log")
    assert "next" == written[-1]
    assert writer.lost == sum(int(line[1:].split()[0]) for line in written if line.startswith("("))


class ShortOfSpace(LineWriter):
    """A writer on a disk with `room` bytes left."""

    def __init__(self, path: Path, room: int) -> None:
        self.room = room
        self._short = threading.Event()
        super().__init__(path, gap=gap, on_trouble=lambda _: self._short.set())

    def wait_for_shortage(self) -> bool:
        return self._short.wait(SOON)

    def _write_some(self, waiting: memoryview) -> int:
        if self.room <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = super()._write_some(waiting[: self.room])
        self.room -= written
        return written


def test_a_first_line_is_kept_until_it_can_be_written(tmp_path: Path) -> None:
    """A file without its header proves nothing, so the header outlasts a full disk."""
    writer = ShortOfSpace(tmp_path / "log", room=0)
    writer.reopen("header")
    assert writer.wait_for_shortage()
    writer.put("lost")
    writer.put("lost")
    gate = Gate()
    writer.put(gate)  # reached only after the two went the way of all lines, or together with them
    assert gate.reached.wait(SOON)
    writer.room = 1000
    gate.opened.set()
    writer.put("kept")

    assert writer.close(SOON)
    written = lines_of(tmp_path / "log")
    assert ("header", "kept") == (written[0], written[-1])


def test_a_line_that_cannot_be_rendered_is_lost_alone(tmp_path: Path) -> None:
    """A bug in a formatter must not end the logging."""

    def broken() -> str:
        raise RuntimeError("no words")

    errors: list[Exception] = []
    writer = LineWriter(tmp_path / "log", gap=gap, on_trouble=errors.append)
    for line in ("a", broken, "b"):
        writer.put(line)

    assert writer.close(SOON)
    assert ["a", "(1 lost)", "b"] == lines_of(tmp_path / "log")
    assert ["no words"] == [str(error) for error in errors]


def test_a_torn_last_line_is_ended_before_ours(tmp_path: Path) -> None:
    """After a crash the new lines must not continue in the torn one."""
    (tmp_path / "log").write_text("whole\ntor")
    writer = LineWriter(tmp_path / "log")
    writer.put("new")

    assert writer.close(SOON)
    assert ["whole", "tor", "new"] == lines_of(tmp_path / "log")


def test_reopen_goes_on_in_a_new_file_after_the_lines_put_so_far(tmp_path: Path) -> None:
    """This is what logrotate expects: move the file, send SIGHUP, and nothing is lost or doubled."""
    writer = LineWriter(tmp_path / "log")
    gate = Gate()
    writer.put("old")
    writer.reopen("first")  # so that the file surely exists when the gate is reached
    writer.put(gate)
    assert gate.reached.wait(SOON)
    os.rename(tmp_path / "log", tmp_path / "log.old")
    gate.opened.set()
    writer.put("still old")
    writer.reopen("new")
    assert writer.close(SOON)
    assert ["old", "first", "gate", "still old"] == lines_of(tmp_path / "log.old")
    assert ["new"] == lines_of(tmp_path / "log")


def test_rotation_moves_the_full_file_away_once(tmp_path: Path) -> None:
    """A second request before the first was carried out must not overwrite the file just moved."""
    gate = Gate()
    writer = LineWriter(tmp_path / "log", limit=15)
    writer.put("0123456789")
    writer.put("more")
    writer.put(gate)
    assert gate.reached.wait(SOON)
    writer.rotate("header")
    writer.rotate("header")
    writer.put("new")
    gate.opened.set()

    assert writer.close(SOON)
    assert ["0123456789", "more", "gate"] == lines_of(tmp_path / "log.1")
    assert ["header", "new"] == lines_of(tmp_path / "log")
    assert not writer.over_limit


def test_a_file_that_cannot_be_moved_away_is_written_on(tmp_path: Path) -> None:
    """Rotation that fails is told, not fatal, and not tried at every line."""
    (tmp_path / "log.1").mkdir()
    (tmp_path / "log.1" / "full").touch()
    errors: list[Exception] = []
    writer = LineWriter(tmp_path / "log", limit=4, on_trouble=errors.append)
    writer.put("0123")
    writer.rotate("header")
    writer.rotate("header")
    writer.put("4567")

    assert writer.close(SOON)
    assert ["0123", "4567"] == lines_of(tmp_path / "log")
    assert 1 == len(errors)
