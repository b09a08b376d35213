"""`sniffgate simulate`: what may be asked, what is said, and how it ends."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from sniffgate.cli.group import program
from sniffgate.cli.simulation_report import Report, as_object, summary
from sniffgate.config.load import load_file
from sniffgate.simulation.broken import Broken
from sniffgate.simulation.findings import Told
from sniffgate.simulation.history import Fault, History, Order
from tests.cli.process import COMMAND, SOON
from tests.cli.terminal import shown_on_terminal

MINIMAL = Path(__file__).parents[2] / "configs" / "minimal.toml"
NO_NODE = '[[listeners]]\nname = "a"\nprotocol = "tcp"\nlisten = ":80"\n'


def simulated(*arguments: str | Path | float, text: str | None = None) -> Result:
    return CliRunner().invoke(program, ["simulate", *map(str, arguments)], input=text)


# --- what may be asked ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "Missing option '-c' / '--config'."),
        (["--seeds", "0"], "Invalid value for '--seeds': 0 is not in the range x>=1."),
        (["--first", "-1"], "Invalid value for '--first': -1 is not in the range x>=0."),
        (["--seed", "-1"], "Invalid value for '--seed': -1 is not in the range x>=0."),
        (["--jobs", "0"], "Invalid value for '-j' / '--jobs': 0 is not in the range x>=1."),
        (["--seconds", "0"], "Invalid value for '--seconds': 0.0 is not a length of time above 0."),
        (["--seconds", "nan"], "Invalid value for '--seconds': nan is not a length of time above 0."),
        (["--hours", "inf"], "Invalid value for '--hours': inf is not a length of time above 0."),
        (["--hours", "x"], "Invalid value for '--hours': 'x' is not a valid float."),
        (["--seconds", "1", "--hours", "1"], "--seconds and --hours exclude each other."),
        (["--seed", "1", "--history", "x"], "--seed and --history exclude each other."),
        (["--seed", "1", "--seeds", "9"], "--seed and --seeds exclude each other."),
        (["--seed", "1", "--first", "9"], "--seed and --first exclude each other."),
        (["--seed", "1", "--jobs", "9"], "--seed and --jobs exclude each other."),
        (["--history", "x", "--jobs", "9"], "--history and --jobs exclude each other."),
        (["--history", "x", "--hours", "9"], "--history and --hours exclude each other."),
        (["--history", "/nowhere"], "cannot read /nowhere: No such file or directory"),
        (["--history", "/"], "cannot read /: Is a directory"),
        (["--save", "/nowhere/x"], "cannot write /nowhere/x: No such file or directory"),
    ],
)
def test_what_cannot_be_asked_is_one_sentence_and_ends_with_two(arguments: list[str], sentence: str) -> None:
    """Before anything is played: nobody waits an hour for a misspelt name."""
    result = simulated(*arguments, "-c", MINIMAL) if arguments else simulated()

    assert (2, f"Error: {sentence}") == (result.exit_code, result.stderr.splitlines()[-1])
    assert "" == result.stdout


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ('[global]\nspeed = 1\n', ["<stdin>:2: global.speed: ", "Error: - cannot be simulated: see above."]),
        (NO_NODE, ["<stdin>: at least one [[nodes]] is needed", "Error: - cannot be simulated: see above."]),
    ],
)  # fmt: skip
def test_a_configuration_that_cannot_be_simulated_is_said(text: str, sentences: list[str]) -> None:
    """With the line and the key, as `check` has them."""
    result = simulated("-c", "-", text=text)

    assert 2 == result.exit_code
    for sentence in sentences:
        assert sentence in result.stderr


def test_a_missing_configuration_is_said() -> None:
    """The path comes from a shell's history."""
    result = simulated("-c", "/nowhere.toml")

    assert 2 == result.exit_code
    assert "/nowhere.toml: " in result.stderr


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"{}", "seed: is missing"),
        (b"{", "is not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        (b"\xff", "is not text in UTF-8"),
        (
            b'{"seed": 1, "seconds": 1, "steps": [{"do": "recover", "at": 0, "node": "q"}]}',
            "steps[0].node: the configuration has no such node",
        ),
    ],
)
def test_a_history_that_is_none_is_said_with_its_place(tmp_path: Path, content: bytes, sentence: str) -> None:
    """It is a file, and people edit it."""
    file = tmp_path / "history.json"
    file.write_bytes(content)
    result = simulated("-c", MINIMAL, "--history", file)

    assert (2, f"Error: {file}: {sentence}") == (result.exit_code, result.stderr.splitlines()[-1])


# --- what is said -----------------------------------------------------------------------------------


def test_one_seed_is_told_in_full() -> None:
    """To look at what a simulation does, or at what a seed that failed did."""
    result = simulated("-c", MINIMAL, "--seed", 3, "--seconds", 20)
    lines = result.stdout.splitlines()

    assert 0 == result.exit_code
    assert "  what happened (seconds since the gateway's start):" == lines[0]
    assert any(line.endswith(": recover") for line in lines)
    assert lines[-1].startswith("1 history of 20 s in ")
    assert lines[-1].endswith(" s: every rule held")


@pytest.mark.slow
def test_many_seeds_are_counted_with_their_rate() -> None:
    """The rate tells how long the next thousand takes."""
    result = simulated("-c", MINIMAL, "--seeds", 3, "--seconds", 5, "--jobs", 8)
    lines = result.stdout.splitlines()

    assert (0, "") == (result.exit_code, result.stderr)
    assert f"{MINIMAL}: 1 listener, 2 nodes; 3 histories of 5 s, 3 processes" == lines[0]
    assert lines[1].startswith("a client must be served once a node has been reachable for: ")
    assert lines[-1].startswith("3 histories of 5 s in ")
    assert lines[-1].endswith(" a minute: every rule held")


@pytest.mark.slow
def test_the_same_as_json() -> None:
    """For a pipeline: one object, and nothing else on stdout."""
    found = json.loads(simulated("-c", MINIMAL, "--seeds", 2, "--hours", 0.001, "--json").stdout)

    assert (2, 2, 3.6, [], [], False) == tuple(
        found[key] for key in ("wanted", "played", "seconds", "failed", "told", "interrupted")
    )
    assert found["per_minute"] > 0


@pytest.mark.slow
@pytest.mark.e2e
def test_on_a_terminal_it_says_how_far_it_is() -> None:
    """A thousand histories take a minute, and hours of simulated time much longer."""
    status, shown = shown_on_terminal("simulate", "-c", str(MINIMAL), "--seeds", "2", "--seconds", "5", "-j", "1")

    assert 0 == status
    assert "\r\x1b[K1 of 2, 0 failed, " in shown
    assert "\r\x1b[K2 of 2, 0 failed, " in shown


BROKEN = Broken("pins", "a pin \x1b[2J", 1.5)
STEPS = (Order(1.0, "switch", "node-a"), Fault(1.5, "node-a", "kill"))


def failed(**fields: Any) -> Report:
    """A report of ten seeds, two of which failed."""
    told = [Told(History(4, 1.51, 0.005, STEPS), BROKEN, 40, 21, ((1.0, "operator: switch node-a"),))]
    failures = {7: Broken("pins", "another", 3.0), 4: BROKEN}
    given = {"took": 2.0, "played": 10, "failed": failures, "told": told, **fields}
    return Report("my.toml", load_file(MINIMAL), 30.0, 10, 2, **given)


def test_what_was_found_is_told_with_the_way_to_see_it_again() -> None:
    """The rule, the few steps that it takes, what happened, and the command."""
    assert [
        "",
        "seed 4: 40 steps, shrunk to 2 by 21 plays",
        "  broken: a pin holds while its node is usable, and is released then or on request",
        "  latency 5 ms; steps:",
        "      1.000  operator: switch node-a",
        "      1.500  node-a: kill",
        "  what happened (seconds since the gateway's start):",
        "      1.000  operator: switch node-a",
        "  the whole of it: sniffgate simulate -c my.toml --seed 4 --seconds 30",
        "",
        "1 more history fails; --seed N tells of one",
        "",
        "saved in x.json: sniffgate simulate -c my.toml --history x.json",
        "interrupted after 10 of 10",
        "10 histories of 30 s in 2.0 s, 300 a minute: 2 failed",
    ] == list(summary(failed(saved="x.json", interrupted=True)))


def test_each_rule_is_told_of_by_its_lowest_seed() -> None:
    """Processes finish in any order, and a report is to be the same each time."""
    report = failed(failed={7: Broken("pins", "", 1.0), 4: Broken("pins", "", 1.0), 5: Broken("drains", "", 1.0)})

    assert [4, 5] == report.first_of_each_rule()


def test_the_object_has_all_of_it() -> None:
    """What is printed, and the history in the form that --history takes."""
    found = as_object(failed())

    assert [4, 7] == [each["seed"] for each in found["failed"]]
    assert [{"do": "order", "at": 1.0, "command": "switch", "node": "node-a", "seconds": None}] == found["told"][0][
        "history"
    ]["steps"][:1]
    assert 300.0 == found["per_minute"]


# --- how it ends ------------------------------------------------------------------------------------


@pytest.mark.e2e
@pytest.mark.slow
def test_an_interrupted_simulation_says_how_far_it_came() -> None:
    """Ctrl-C goes to the whole group of processes; none is left, and no traceback is shown."""
    process = subprocess.Popen(
        [*COMMAND, "simulate", "-c", str(MINIMAL), "--seeds", "1000000", "--jobs", "2"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        heading = process.stdout.readline()
        os.killpg(process.pid, signal.SIGINT)
        said, complaints = process.communicate(timeout=SOON)
    finally:
        process.kill()

    assert "1000000 histories of 60 s, 2 processes" in heading
    assert "interrupted after " in said
    assert (130, "") == (process.returncode, complaints)
