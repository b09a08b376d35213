"""Log lines are whole, honest and few, and go out through a writer that never blocks."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from sniffgate.cli.logs import LONGEST, WriterHandler, format_record, set_level, set_up_logging
from sniffgate.tasks.flow_log import log_flow
from sniffgate.tasks.writer import LineWriter

SOON = 10.0


class Clock:
    """A clock that is set by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class Log:
    """Logging set up for a file, and what it said in the end, without the times."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock = Clock()
        self.writer = LineWriter(path)
        set_up_logging("info", self.writer, clock=self.clock)

    def said(self) -> list[str]:
        assert self.writer.close(SOON)
        return [line.partition(" ")[2] for line in self.path.read_text().splitlines()]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    """Logging as the command line sets it up; everything global is put back."""
    loggers = [logging.getLogger(name) for name in ("", "sniffgate", "sniffgate.flow")]
    before = [(logger, logger.level, list(logger.handlers)) for logger in loggers]
    raises = logging.raiseExceptions
    (tmp_path / "log").touch()
    yield Log(tmp_path / "log")
    logging.captureWarnings(False)
    logging.raiseExceptions = raises
    for logger, level, handlers in before:
        logger.setLevel(level)
        logger.handlers[:] = handlers


def test_a_line_has_time_level_logger_message_and_fields(log: Log) -> None:
    """People and programs read it alike."""
    logging.getLogger("sniffgate.tasks.hub").warning("switched %s", "now", extra={"to": "node-b", "why": "no answer"})

    assert ['warn sniffgate.tasks.hub: switched now to=node-b why="no answer"'] == log.said()
    time = log.path.read_text().split()[0]
    assert "0000-00-00T00:00:00.000Z" == "".join("0" if char.isdigit() else char for char in time)


def test_the_level_can_be_changed_while_running(log: Log) -> None:
    """A reload may ask for more or less."""
    logger = logging.getLogger("sniffgate.net")
    logger.debug("unheard")
    set_level("trace")
    logger.log(5, "heard")
    set_level("error")
    logger.warning("unheard again")

    assert ["trace sniffgate.net: heard"] == log.said()


def test_flows_are_heard_at_any_level_and_strangers_from_warnings_on(log: Log) -> None:
    """`flow_log` decides about flows; libraries are not to chatter."""
    set_level("error")
    log_flow("listener=web")
    logging.getLogger("watchfiles").info("3 changes detected")
    logging.getLogger("watchfiles").warning("trouble")

    assert ["info sniffgate.flow: listener=web", "warn watchfiles: trouble"] == log.said()


def test_identical_lines_beyond_ten_a_second_become_one(log: Log) -> None:
    """A dead backend must not fill the disk."""
    logger = logging.getLogger("sniffgate.tasks.tcp")
    for _ in range(322):
        logger.error("no node")
    logger.error("something else")
    log.clock.now = 1.0
    logger.error("no node")

    assert [
        *["error sniffgate.tasks.tcp: no node"] * 10,
        "error sniffgate.tasks.tcp: something else",
        "error sniffgate.tasks.tcp: no node (312 more like it in 1.0 s)",
        "error sniffgate.tasks.tcp: no node",
    ] == log.said()


def test_repeats_held_back_are_told_at_the_end(log: Log) -> None:
    """The last second counts too."""
    for _ in range(12):
        logging.getLogger("sniffgate").error("no node")
    (handler,) = [each for each in logging.getLogger().handlers if isinstance(each, WriterHandler)]
    handler.flush()

    assert "error sniffgate: no node (2 more like it in 1.0 s)" == log.said()[-1]


def test_a_traceback_follows_its_line(log: Log) -> None:
    """A bug is shown whole."""
    try:
        raise RuntimeError("boom")
    except RuntimeError:
        logging.getLogger("sniffgate").exception("flow crashed")

    assert "error sniffgate: flow crashed" == log.said()[0]
    assert log.path.read_text().endswith("RuntimeError: boom\n")


def test_what_peers_said_forges_no_line() -> None:
    """Control characters are shown, not obeyed."""
    record = logging.LogRecord("n", logging.INFO, "", 0, "a\nb", (), None)
    record.__dict__["error"] = "\x1b[2J"

    assert "info n: a\\nb error=\\x1b[2J" == format_record(record)


def test_a_monstrous_record_is_cut() -> None:
    """What waits in the queue is bounded in bytes too."""
    record = logging.LogRecord("n", logging.INFO, "", 0, "x" * 10_000_000, (), None)

    assert LONGEST + len(" [cut]") == len(format_record(record))


def test_a_record_that_cannot_be_formatted_harms_nobody(log: Log) -> None:
    """A wrong format string is a bug in a log line, not in a flow."""
    logging.getLogger("sniffgate").error("%d", "seven")
    logging.getLogger("sniffgate").error("next")

    assert ["error sniffgate: next"] == log.said()


def test_setting_up_twice_writes_once(log: Log) -> None:
    """The second writer takes the place of the first."""
    set_up_logging("info", log.writer)
    logging.getLogger("sniffgate").error("once")

    assert ["error sniffgate: once"] == log.said()
