"""`sniffgate demo` shows what it promises, says what it did not see, and leaves no process behind however it ends."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path

import attrs
import pytest
import trio
from trio.testing import MockClock

from sniffgate.cli.demonstration.page import PlainPage, RichPage, page_for, table_of
from sniffgate.cli.demonstration.promises import Promises, in_ms
from sniffgate.cli.demonstration.tally import Row, Tally
from sniffgate.cli.demonstration.timeline import Timeline, Voice
from sniffgate.config.schema import Transport

WHOLE_RUN = 30  # seconds, on a busy machine; it takes about seven
MOMENT = 10  # seconds for a process to come up or to be gone
MARK = "SNIFFGATE_TEST_MARK"


# --- the program as a process -------------------------------------------------------------------------


@attrs.frozen
class Program:
    """The demo as a process, and the mark by which everything that it starts can be found."""

    process: subprocess.Popen[str]
    mark: str

    def wait_line(self, pattern: str) -> None:
        """Reads its output up to a line that matches."""
        assert self.process.stdout is not None
        assert any(re.search(pattern, line) for line in self.process.stdout)

    def family(self) -> set[int]:
        """Every living process with the mark, wherever it hangs in the process tree."""
        found = set()
        for path in Path("/proc").glob("[0-9]*/environ"):
            try:
                if f"{MARK}={self.mark}".encode() in path.read_bytes():
                    found.add(int(path.parent.name))
            except OSError:  # it is gone, or not ours
                continue
        return found

    def wait_nobody_left(self) -> set[int]:
        """Who is left after a moment: nobody, if all is well."""
        deadline = time.monotonic() + MOMENT
        while (left := self.family()) and time.monotonic() < deadline:
            time.sleep(0.02)
        return left


Start = Callable[..., Program]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts the demo with the options given; kills at the end what a failed test has left."""
    with contextlib.ExitStack() as started:

        def start_one(*options: str) -> Program:
            mark = uuid.uuid4().hex
            process = subprocess.Popen(
                [sys.executable, "-c", "from sniffgate.cli.demo import demo; demo(prog_name='demo')", *options],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env={**os.environ, MARK: mark},
                start_new_session=True,
            )
            started.enter_context(process)
            started.callback(process.kill)
            return Program(process, mark)

        yield start_one


@pytest.fixture
def running(start: Start) -> Program:
    """A demo whose gateway already has traffic."""
    program = start()
    program.wait_line("kept .*start, both transports")
    return program


@pytest.mark.e2e
@pytest.mark.slow
def test_a_whole_run_keeps_every_promise_in_the_order_of_its_acts_and_leaves_nothing(start: Start) -> None:
    """The first thing that somebody tries must work, and must not be a recording."""
    program = start()
    output, errors = program.process.communicate(timeout=WHOLE_RUN)

    assert ("", 0) == (errors, program.process.returncode), output
    acts = re.findall(r"ms  act      (.*)", output)
    assert [
        "kill -9 P (node-a)",
        "start node-a again",
        "the operator: switch node-c",
        "the operator: auto",
        "the operator: drain node-a within 500 ms",
        "the operator: enable node-a",
    ] == [re.sub(r"-9 \d+", "-9 P", act) for act in acts]
    times = [int(at) for at in re.findall(r"^ *(\d+) ms", output, re.MULTILINE)]
    assert sorted(times) == times
    assert "BROKEN" not in output
    assert "\x1b" not in output
    assert ["transport", "tcp", "udp"] == [line.split()[0] for line in output.splitlines()[-3:]]
    assert set() == program.family()


@pytest.mark.e2e
@pytest.mark.slow
def test_a_broken_promise_is_named_and_ends_with_one(start: Start) -> None:
    """A demonstration that cannot fail shows nothing: no failover takes no time at all."""
    program = start("--within", "0", "--json")
    output, errors = program.process.communicate(timeout=WHOLE_RUN)

    assert 1 == program.process.returncode, errors
    report = json.loads(output)
    broken = [each for each in report["promises"] if not each["kept"]]
    assert not report["ok"]
    assert ["tcp: failover from node-a", "udp: failover from node-a"] == [
        each["promise"].partition(",")[0] for each in broken
    ]
    assert all(f"broken promise: {each['promise']}: {each['measured']}" in errors for each in broken)
    assert ["tcp", "udp"] == [row["transport"] for row in report["table"]]
    assert all(row["requests"] == row["answered"] + row["lost"] for row in report["table"])
    assert set() == program.family()


@pytest.mark.e2e
def test_ctrl_c_ends_it_with_its_nodes_and_without_a_traceback(running: Program) -> None:
    """Who has seen enough wants their machine back."""
    running.process.send_signal(signal.SIGINT)
    _, errors = running.process.communicate(timeout=MOMENT)

    assert ("interrupted; nodes, gateway and clients have ended\n", 130) == (errors, running.process.returncode)
    assert set() == running.family()


@pytest.mark.e2e
def test_the_nodes_die_with_the_demo_even_when_that_is_killed(running: Program) -> None:
    """Nobody is left to clean up after a kill -9: the nodes must notice by themselves."""
    assert 4 == len(running.family())
    running.process.kill()
    running.process.wait(MOMENT)

    assert set() == running.wait_nobody_left()


@pytest.mark.e2e
def test_a_reader_that_goes_away_ends_it_quietly(running: Program) -> None:
    """`sniffgate demo | head` is no error worth a traceback."""
    assert running.process.stdout is not None
    running.process.stdout.close()
    assert running.process.stderr is not None

    assert "" == running.process.stderr.read()
    assert 1 == running.process.wait(MOMENT)
    assert set() == running.wait_nobody_left()


# --- promises -----------------------------------------------------------------------------------------


def test_a_promise_is_kept_at_its_limit_and_broken_past_it() -> None:
    """The limit is part of what is promised."""
    promises = Promises()

    assert promises.within("failover", 1.0, 1.0).kept
    assert promises.at_most("lost", 5, 5).kept
    assert promises.between("closed", 1.0, 1.5, 1.5).kept
    assert [] == promises.broken
    late = promises.within("failover", 1.0, 1.2)
    many = promises.at_most("lost", 0, 1)
    early = promises.between("closed", 1.0, 1.5, 0.9)
    assert [late, many, early] == promises.broken
    assert not promises.all_kept
    assert "failover: 1200 ms (promised: within 1000 ms)" == str(late)
    assert "lost: 1 (promised: none)" == str(many)
    assert "closed: 900 ms (promised: 1000 ms to 1500 ms)" == str(early)


def test_what_was_never_seen_is_a_broken_promise() -> None:
    """Silence must not pass for success."""
    promises = Promises()

    assert "failback: never seen (promised: within 2000 ms)" == str(promises.within("failback", 2.0, None))
    assert 1 == len(promises.broken)


def test_a_run_that_promised_nothing_has_kept_nothing() -> None:
    """A script that ends before its first check must not end with 0."""
    assert not Promises().all_kept


def test_short_times_have_a_decimal() -> None:
    """Five milliseconds and five and a half are a tenth apart; a second and half a millisecond more are the same."""
    assert ["5.5 ms", "9.9 ms", "10 ms", "1000 ms"] == [in_ms(each) for each in (0.0055, 0.0099, 0.00996, 1.0004)]


# --- counting -----------------------------------------------------------------------------------------


async def test_a_tally_counts_what_became_of_each_request(autojump_clock: MockClock) -> None:
    """The closing table is nothing but this."""
    tally = Tally(Transport.UDP)
    first, second, _ = tally.begin(), tally.begin(), tally.begin()
    await trio.sleep(0.25)
    tally.answer(second, "node-b")
    await trio.sleep(0.25)
    tally.answer(first, "node-a")
    tally.answer(first, "node-b")

    expected = Row(
        Transport.UDP, requests=3, answered=2, lost=1, twice=1, slowest=0.5, nodes={"node-b": 1, "node-a": 1}
    )
    assert expected == tally.row()


async def test_the_first_answer_of_a_node_is_the_first_that_came_not_the_first_asked_for(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """A failover is over when an answer is there, whichever request it belongs to."""
    tally = Tally(Transport.TCP)
    slow, quick = tally.begin(), tally.begin()
    tally.answer(tally.begin(), "node-b")  # before the time that is asked about
    await trio.sleep(1)

    async def answer_both() -> None:
        await trio.sleep(1)
        tally.answer(tally.begin(), "node-a")
        tally.answer(quick, "node-b")
        await trio.sleep(1)
        tally.answer(slow, "node-b")

    nursery.start_soon(answer_both)
    answer = await tally.wait_answer(lambda node: node == "node-b", 1.0)

    assert (quick, 2.0) == (answer, trio.current_time())


async def test_requests_are_settled_once_answered_or_given_up(autojump_clock: MockClock, nursery: trio.Nursery) -> None:
    """What is still under way must not be counted as lost."""
    tally = Tally(Transport.TCP)
    tally.begin()  # lost long ago, and before the time that is asked about
    await trio.sleep(1)
    one, other = tally.begin(), tally.begin()

    async def end_both() -> None:
        await trio.sleep(1)
        tally.fail(other, "closed")
        await trio.sleep(1)
        tally.answer(one, "node-a")

    nursery.start_soon(end_both)
    await trio.sleep(0.5)
    tally.begin()
    await tally.wait_settled(1.0, 1.5)

    assert 3.0 == trio.current_time()
    assert (1, 2, 3) == (tally.lost_between(1.0, 1.5), tally.lost_between(until=1.5), tally.lost_between())


# --- printing -----------------------------------------------------------------------------------------


async def test_the_timeline_tells_milliseconds_since_its_start_and_who_speaks(autojump_clock: MockClock) -> None:
    """A line can be read alone."""
    paper = StringIO()
    timeline = Timeline(PlainPage(paper))
    await trio.sleep(1.25)
    timeline.say(Voice.ACT, "kill -9 12 (node-a)")
    timeline.tell(Promises().at_most("lost", 0, 1))

    assert ["  1250 ms  act      kill -9 12 (node-a)", "  1250 ms  BROKEN   lost: 1 (promised: none)"] == (
        paper.getvalue().splitlines()
    )


ROWS = [
    Row(Transport.TCP, requests=274, answered=273, lost=1, twice=0, slowest=0.008, nodes={"node-a": 270, "node-b": 3}),
    Row(Transport.UDP, requests=5, answered=0, lost=5, twice=0, slowest=None, nodes={}),
]


def test_the_table_is_aligned_and_has_a_zero_for_a_node_that_answered_nothing() -> None:
    """In a file or a ticket it must still be a table."""
    paper = StringIO()
    PlainPage(paper).table(*table_of(ROWS, ("node-a", "node-b")))

    assert [
        "",
        "transport  requests  answered  lost  doubled  slowest  node-a  node-b",
        "tcp             274       273     1        0   8.0 ms     270       3",
        "udp               5         0     5        0        -       0       0",
    ] == paper.getvalue().splitlines()


def test_a_terminal_gets_colours_and_the_same_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Red is seen from across the room; nothing is said by colour alone."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("NO_COLOR", raising=False)
    paper = StringIO()
    page = RichPage(paper, force_terminal=True)
    page.line(1250.0, Voice.BROKEN, "lost: 1 [promised: none]")
    page.table(*table_of(ROWS, ("node-a", "node-b", "node-c")))

    text = re.sub(r"\x1b\[[0-9;]*m", "", paper.getvalue())
    assert "\x1b[1;31mBROKEN" in paper.getvalue()
    assert "  1250 ms  BROKEN   lost: 1 [promised: none]" == text.splitlines()[0]
    assert ["tcp", "274", "273", "1", "0", "8.0", "ms", "270", "3", "0"] in [line.split() for line in text.splitlines()]
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "…" not in text


def test_colours_are_for_terminals_that_want_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """NO_COLOR, a dumb terminal and a pipe each mean plain text."""
    main, terminal = os.openpty()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    try:
        with open(terminal, "w") as screen:
            assert isinstance(page_for(screen), RichPage)
            monkeypatch.setenv("TERM", "dumb")
            assert isinstance(page_for(screen), PlainPage)
            monkeypatch.setenv("TERM", "xterm")
            monkeypatch.setenv("NO_COLOR", "1")
            assert isinstance(page_for(screen), PlainPage)
            monkeypatch.delenv("NO_COLOR")
        assert isinstance(page_for(StringIO()), PlainPage)
    finally:
        os.close(main)
