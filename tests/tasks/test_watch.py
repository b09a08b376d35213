"""Every way of changing the file takes effect; nothing else does. Real files, a short poll, the real clock."""

# ruff: noqa: ASYNC110, ASYNC230, ASYNC240 - a test may wait for its own disk, and what it waits for elsewhere has no event

import os
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from sniffgate.tasks import watch
from sniffgate.tasks.config_file import look
from sniffgate.tasks.gateway import Gateway
from sniffgate.tasks.watch import Alarm, directories, notice_changes, watch_config
from tests.tasks.file_gateway import SOON, config, gateway_from, nodes_of, said, wait_for_node, wait_until_said


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "sniffgate.toml"
    path.write_text(config())
    return path


@asynccontextmanager
async def watched(path: Path, *, notice: bool = False) -> AsyncIterator[Gateway]:
    """A gateway whose file is watched; cancelled in the end."""
    async with gateway_from(path) as gateway, trio.open_nursery() as nursery:
        assert gateway.reloader is not None
        reloader = gateway.reloader
        nursery.start_soon(lambda: watch_config(gateway, reloader, notice=notice))
        yield gateway
        nursery.cancel_scope.cancel()


def write_in_place(path: Path, text: str) -> None:
    with open(path, "r+") as file:
        file.truncate()
        file.write(text)


def rename_over(path: Path, text: str) -> None:
    other = path.with_suffix(".new")
    other.write_text(text)
    other.replace(path)


def remove_and_write(path: Path, text: str) -> None:
    path.unlink()
    path.write_text(text)


def keep_size_and_times(path: Path, text: str) -> None:
    before = path.stat()
    assert before.st_size == len(text)
    path.write_text(text)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def write_as_windows_does(path: Path, text: str) -> None:
    path.write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())


@pytest.mark.parametrize(
    "change", [write_in_place, rename_over, remove_and_write, keep_size_and_times, write_as_windows_does]
)
async def test_a_change_takes_effect_however_it_is_made(file: Path, change: Callable[[Path, str], None]) -> None:
    """Editors differ; an operator who saved is to be right. Twice: a watch lost with the old file shows then."""
    async with watched(file) as gateway:
        change(file, config("node-b"))
        await wait_for_node(gateway, "node-b")
        if change is not keep_size_and_times:
            change(file, config("node-longer"))
            await wait_for_node(gateway, "node-longer")

    assert gateway.reload_report is not None
    assert gateway.reload_report.ok


async def test_a_symbolic_link_that_is_turned_takes_effect(tmp_path: Path) -> None:
    """Deployments keep versions side by side and turn a link."""
    for name in "ab":
        (tmp_path / name).write_text(config(f"node-{name}"))
    link = tmp_path / "sniffgate.toml"
    link.symlink_to("a")
    async with watched(link) as gateway:
        (tmp_path / "next").symlink_to("b")
        (tmp_path / "next").replace(link)
        await wait_for_node(gateway, "node-b")


async def test_a_mounted_config_map_takes_effect(tmp_path: Path) -> None:
    """Kubernetes turns a link of the directory, `..data`, and the file's own link never changes."""
    for name in "ab":
        (tmp_path / f"..{name}").mkdir()
        (tmp_path / f"..{name}" / "sniffgate.toml").write_text(config(f"node-{name}"))
    (tmp_path / "..data").symlink_to("..a")
    file = tmp_path / "sniffgate.toml"
    file.symlink_to("..data/sniffgate.toml")
    assert {str(tmp_path), str(tmp_path / "..a")} == directories(str(file))
    async with watched(file) as gateway:
        (tmp_path / "..tmp").symlink_to("..b")
        (tmp_path / "..tmp").replace(tmp_path / "..data")
        await wait_for_node(gateway, "node-b")


async def test_touching_the_file_changes_nothing(file: Path) -> None:
    """Configuration management touches files all day long."""
    async with watched(file) as gateway:
        before = gateway.state
        for _ in range(3):
            os.utime(file)
            await _two_looks(file, gateway)
        rename_over(file, config())
        await _two_looks(file, gateway)

        assert before.config is gateway.state.config
        assert gateway.reload_report is None


async def test_a_broken_file_is_refused_once_and_the_mended_one_taken(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A typo must neither take effect, nor fill the log, nor end the watching."""
    async with watched(file) as gateway:
        file.write_text(config("node-b") + "[[nodes")
        await wait_until_said(caplog, "not reloaded")
        for _ in range(5):
            await _two_looks(file, gateway)
        assert ["node-a"] == nodes_of(gateway)
        assert 1 == len(said(caplog, "not reloaded"))
        assert f"{file}:" in said(caplog, "not reloaded")[0]

        file.write_text(config("node-b"))
        await wait_for_node(gateway, "node-b")
        assert gateway.reload_report is not None
        assert gateway.reload_report.ok


async def test_a_missing_file_changes_nothing_and_is_said_once(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The old configuration stays in force; the same file come back is no change."""
    async with watched(file) as gateway:
        file.unlink()
        await wait_until_said(caplog, "there is no such file")
        for _ in range(5):
            await _two_looks(file, gateway)
        assert 1 == len(said(caplog, "there is no such file"))
        assert ["node-a"] == nodes_of(gateway)

        file.write_text(config())
        await wait_until_said(caplog, "unchanged")
        assert gateway.reload_report is not None
        assert (True, "unchanged") == (gateway.reload_report.ok, gateway.reload_report.message)


async def test_a_file_written_in_steps_is_taken_when_it_is_whole(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Half of a file is no configuration, and no reason to complain."""
    before, listener, nodes = config("node-b").partition("[[listeners]]")
    listener, header, nodes = (listener + nodes).partition("[[nodes]]")
    text = f"{before}{header}{nodes}{listener}".rstrip()  # it loads when its last quotation mark is there, not before
    async with watched(file) as gateway:
        with open(file, "w") as writing:
            for char in text:
                writing.write(char)
                writing.flush()
                await trio.lowlevel.checkpoint()
        await wait_for_node(gateway, "node-b")

        assert [] == said(caplog, "not reloaded")
        assert 1 == len(said(caplog, "reloaded, epoch"))


async def test_what_is_no_file_is_refused_without_waiting(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A pipe in the file's place would hold a reader up for ever."""
    async with watched(file) as gateway:
        file.unlink()
        os.mkfifo(file)
        await wait_until_said(caplog, "is not a regular file")
        file.unlink()
        file.mkdir()
        await wait_until_said(caplog, "is a directory")
        file.rmdir()
        file.write_text(config("node-b"))
        await wait_for_node(gateway, "node-b")


def test_a_pipe_that_takes_the_place_at_any_moment_is_not_waited_for(tmp_path: Path) -> None:
    """A look that asked the path first, and opened it after, would hold its thread for ever when it met the change."""
    path = tmp_path / "gateway.toml"
    path.write_text("")
    seen: set[str] = set()

    def look_often() -> None:
        while {"", "is not a regular file: it cannot be read again"} - seen:
            problem = look(str(path)).problem
            seen.add("" if problem is None else problem.message)

    looking = [threading.Thread(target=look_often, daemon=True) for _ in range(4)]
    for each in looking:
        each.start()
    deadline = time.monotonic() + 20.0
    while any(each.is_alive() for each in looking) and time.monotonic() < deadline:
        os.mkfifo(tmp_path / "next")
        os.replace(tmp_path / "next", path)
        (tmp_path / "next").write_text("")
        os.replace(tmp_path / "next", path)

    assert not any(each.is_alive() for each in looking)


async def test_the_poll_s_interval_follows_a_reload(file: Path) -> None:
    """It is a setting like others."""
    slow = "config_poll_interval_ms = 3600000"
    async with watched(file) as gateway:
        file.write_text(config("node-b").replace("config_poll_interval_ms = 10", slow))
        await wait_for_node(gateway, "node-b")
        assert 3600.0 == gateway.state.config.globals.config_poll_interval


# --- watchfiles, the accelerator ------------------------------------------------------------------


async def test_a_change_rings_long_before_a_slow_poll(file: Path) -> None:
    """With a poll of an hour, only the kernel can have told."""
    file.write_text(config().replace("config_poll_interval_ms = 10", "config_poll_interval_ms = 3600000"))
    async with watched(file, notice=True) as gateway:
        with trio.move_on_after(SOON / 2):
            number = 0
            while gateway.reload_report is None:  # the watch is set up in a thread, at its own pace
                number += 1
                rename_over(file, config(f"node-{number}"))
                await trio.sleep(0.2)
    assert gateway.reload_report is not None
    assert gateway.reload_report.ok


async def test_cancelling_the_accelerator_takes_no_time(file: Path) -> None:
    """watchfiles waits in a thread that looks at nothing but its stop event, for seconds."""
    alarm = Alarm()
    with trio.fail_after(SOON):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(notice_changes, str(file), alarm)
            while not alarm.is_rung:
                file.write_text(config())
                await trio.sleep(0.05)
            began = trio.current_time()
            nursery.cancel_scope.cancel()
    assert trio.current_time() - began < 1.0


class NoWatches:
    """What watchfiles gives when the kernel refuses."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __aiter__(self) -> "NoWatches":
        return self

    async def __anext__(self) -> None:
        raise self._error


@pytest.mark.parametrize("error", [OSError("no space left on device"), RuntimeError("inotify is out of watches")])
async def test_without_watches_polling_goes_on_after_one_warning(
    file: Path, error: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Busy hosts run out of inotify watches; containers may have none."""
    import watchfiles

    monkeypatch.setattr(watchfiles, "awatch", lambda *_where, **_how: NoWatches(error))
    async with watched(file, notice=True) as gateway:
        await wait_until_said(caplog, "noticed by polling only")
        file.write_text(config("node-b"))
        await wait_for_node(gateway, "node-b")
    assert 1 == len(said(caplog, "noticed by polling only"))


async def test_a_directory_that_is_gone_is_a_warning_too(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The real library's own complaint is understood."""
    with trio.fail_after(SOON):
        await notice_changes(str(tmp_path / "gone" / "sniffgate.toml"), Alarm())
    assert 1 == len(said(caplog, "noticed by polling only"))


async def test_an_alarm_that_rang_early_is_not_lost() -> None:
    """A change between a look and the wait after it."""
    alarm = Alarm()
    alarm.ring()
    with trio.fail_after(SOON):
        await alarm.wait(float("inf"))
        await alarm.wait(0.001)
    assert not alarm.is_rung


def test_the_accelerator_is_imported_late() -> None:
    """Its import would cost every start."""
    assert not hasattr(watch, "watchfiles")


async def _two_looks(file: Path, gateway: Gateway) -> None:
    """Returns after the watcher has looked at least once more: looking costs it as much as it costs us, and a pause."""
    assert gateway.reloader is not None
    seen = gateway.reloader.file.looks
    while gateway.reloader.file.looks < seen + 2:
        await trio.sleep(0.002)
    assert look(str(file)) is not None
