"""A file that is written in place is not read before its writer is done. Real files, the real clock."""

# ruff: noqa: ASYNC230 - a test may wait for its own disk

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from sniffgate.tasks.config_file import WRITER_PATIENCE, WRITER_PATIENCE_ASKED, ConfigFile, look
from sniffgate.tasks.file_writers import is_being_written
from sniffgate.tasks.watch import watch_config
from tests.tasks.file_gateway import SOON, config, gateway_from, nodes_of, wait_for_node

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of writers")

PREFIX = config("node-b")  # valid by itself: what a writer has written before it pauses
REST = '[[nodes]]\nname = "node-c"\ntcp = "10.0.0.2:80"\nprobe = "none"\n'

LOOK_WHILE_OTHERS_OPEN = """
import sys, threading
from sniffgate.tasks.file_writers import is_being_written
path, over = sys.argv[1], threading.Event()
def write():
    while not over.is_set():
        open(path, "a").close()
writer = threading.Thread(target=write)
writer.start()
for _ in range(3000):
    is_being_written(path)
over.set()
writer.join()
print("alive")
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "sniffgate.toml"
    path.write_text(config())
    return path


def test_a_file_is_being_written_while_it_is_open_for_writing(file: Path) -> None:
    """Readers, ourselves included, do not count; the last look leaves nothing behind."""
    with open(file, "rb"):
        assert not is_being_written(str(file))
    with open(file, "a"):
        assert is_being_written(str(file))
        assert look(str(file)).is_being_written
    assert not is_being_written(str(file))
    assert not look(str(file)).is_being_written


def test_what_cannot_be_asked_is_not_being_written(tmp_path: Path) -> None:
    """Unknown is as it was before: the two equal looks decide."""
    os.mkfifo(tmp_path / "pipe")
    for path in ("gone", "pipe", ".", "nul\0"):
        assert not is_being_written(str(tmp_path / path))


def test_a_writer_that_comes_during_the_look_ends_no_process(file: Path) -> None:
    """The kernel then sends the signal of a broken lease, and the usual one ends whoever does not handle it."""
    assert signal.getsignal(signal.SIGIO) == signal.SIG_DFL
    told = subprocess.run(
        [sys.executable, "-c", LOOK_WHILE_OTHERS_OPEN, str(file)], capture_output=True, text=True, timeout=SOON
    )

    assert (0, "alive\n") == (told.returncode, told.stdout)


async def test_half_a_file_is_not_put_in_force(file: Path) -> None:
    """The nodes that are not written yet would lose their clients."""
    async with gateway_from(file) as gateway, trio.open_nursery() as nursery:
        assert gateway.reloader is not None
        reloader = gateway.reloader
        nursery.start_soon(lambda: watch_config(gateway, reloader, notice=False))
        with open(file, "w") as writing:
            writing.write(PREFIX)
            writing.flush()
            await trio.sleep(0.4)  # longer than any pause that was seen
            assert ["node-a"] == nodes_of(gateway)
            assert gateway.reload_report is None
            writing.write(REST)
        await wait_for_node(gateway, "node-c")
        nursery.cancel_scope.cancel()

    assert ["node-b", "node-c"] == nodes_of(gateway)


@pytest.mark.parametrize("patience", [0.2, WRITER_PATIENCE_ASKED])
async def test_a_file_that_stays_open_is_taken_after_a_while(file: Path, patience: float) -> None:
    """A program that never closes it must not hold reloads up for ever."""
    with open(file, "w") as writing:
        writing.write(PREFIX)
        writing.flush()
        began = trio.current_time()
        with trio.fail_after(SOON):
            settled = await ConfigFile(file).settle("", patience)

        assert settled.config is not None
        assert patience <= trio.current_time() - began


async def test_a_reload_that_was_asked_for_waits_less(file: Path) -> None:
    """Somebody waits for its answer."""
    assert WRITER_PATIENCE_ASKED < WRITER_PATIENCE
    async with gateway_from(file) as gateway:
        with open(file, "w") as writing:
            writing.write(PREFIX)
            writing.flush()
            began = trio.current_time()
            assert (await gateway.reload()).ok
            assert WRITER_PATIENCE_ASKED <= trio.current_time() - began
            assert ["node-b"] == nodes_of(gateway)


async def test_an_unchanged_file_that_is_open_for_writing_is_answered_at_once(file: Path) -> None:
    """There is nothing half-written in what is in force already."""
    async with gateway_from(file) as gateway:
        with open(file, "a"):
            began = trio.current_time()
            assert "unchanged" == (await gateway.reload()).message
            assert trio.current_time() - began < WRITER_PATIENCE_ASKED
