"""`sniffgate measure` from the command line: what it says, and what it refuses. Nothing is measured here."""

import json
import sys
from pathlib import Path

import pytest

from sniffgate.cli.group import run_program
from sniffgate.measure.study.artifact import NAME, save_study
from tests.measure.study.studies import arm, study, trial

Capture = pytest.CaptureFixture[str]


def refused(capsys: Capture, *arguments: str, status: int = 2) -> str:
    """The last line on stderr of a run that ends with `status`."""
    assert status == run_program(["measure", *arguments])
    return capsys.readouterr().err.strip().splitlines()[-1]


def test_every_scenario_is_listed(capsys: Capture) -> None:
    """With its arms and about how long it takes, the sum below."""
    assert 0 == run_program(["measure", "--list"])
    lines = capsys.readouterr().out.splitlines()

    names = [line.split()[0] for line in lines]
    assert {
        *["startup", "failover", "gray", "passive", "udp", "probe", "drain", "reload", "overhead", "failmode"]
    } <= set(names)
    assert "all" == names[-1]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--only", "drian"], "Error: --only: there is no scenario 'drian'; did you mean 'drain'?"),
        (["--only", "xyzzy"], "Error: --only: there is no scenario 'xyzzy'; --list names them."),
        (["--trials", "0"], "Error: Invalid value for '--trials': 0 is not in the range x>=1."),
        (["--gateway", "true"], "Error: --gateway: 'true' does not say where the file goes: it needs {config}."),
        (["--gateway", "no-such {config}"], "Error: --gateway: there is no program 'no-such'."),
        (["--gateway", "'{config}"], 'Error: --gateway: "\'{config}" is no command: No closing quotation'),
        (["--trials", "1", "compare"], "Error: --trials goes without a command; what compare takes comes after it."),
        (["compar"], "Error: No such command 'compar'. Did you mean 'compare'?"),
    ],
)
def test_a_wrong_option_is_one_sentence(capsys: Capture, arguments: list[str], sentence: str) -> None:
    """Before anything is started."""
    assert sentence == refused(capsys, *arguments)


def test_a_directory_with_another_study_is_refused(capsys: Capture, tmp_path: Path) -> None:
    """Its figures stay as they are."""
    save_study(study(), tmp_path / NAME)
    before = (tmp_path / NAME).read_bytes()

    said = refused(capsys, "--only", "drain", "--out", str(tmp_path), status=1)

    assert said.startswith(f"Error: {tmp_path / NAME} was measured with another ")
    assert before == (tmp_path / NAME).read_bytes()


def test_a_directory_that_is_a_file_is_refused(capsys: Capture, tmp_path: Path) -> None:
    """Before anything is measured."""
    (tmp_path / "file").write_text("")

    said = refused(capsys, "--only", "drain", "--out", str(tmp_path / "file"), status=1)

    assert f"Error: {tmp_path / 'file'} cannot be written: File exists" == said


def test_a_gateway_that_does_not_start_is_said_before_anything_is_measured(capsys: Capture, tmp_path: Path) -> None:
    """With its own last words."""
    command = f"{sys.executable} -S -c 'import sys; sys.exit(\"no licence\")' {{config}}"

    said = refused(capsys, "--only", "drain", "--out", str(tmp_path), "--gateway", command, status=1)

    assert "Error: the gateway ended at its start: no licence" == said


def test_two_studies_are_compared(capsys: Capture, tmp_path: Path) -> None:
    """As a table, as Markdown, as JSON."""
    a, b = tmp_path / "a", tmp_path / "b"
    for directory, value in ((a, 100.0), (b, 50.0)):
        directory.mkdir()
        save_study(study(quiet=arm(trial(switch_ms=[value]))), directory / NAME)

    assert 0 == run_program(["measure", "compare", str(a), str(b / NAME)])
    assert "failover  quiet  switch_ms    100 ms  50 ms  0.50" == capsys.readouterr().out.splitlines()[1]
    assert 0 == run_program(["measure", "compare", str(a), str(b), "--markdown", "--only", "failover"])
    assert "| failover | quiet | switch_ms | 100 ms | 50 ms | 0.50 |" == capsys.readouterr().out.splitlines()[2]
    assert 0 == run_program(["measure", "compare", str(a), str(b), "--json"])
    told = json.loads(capsys.readouterr().out)
    assert (0.5, []) == (told["rows"][0]["ratio"], told["differences"])


def test_what_cannot_be_compared_is_one_sentence(capsys: Capture, tmp_path: Path) -> None:
    """A file that is none, a scenario that neither has."""
    save_study(study(), tmp_path / NAME)
    bad = tmp_path / "bad.json"
    bad.write_text("[]")

    assert f"Error: {bad}: the whole must be an object, not a list" == refused(
        capsys, "compare", str(bad), str(tmp_path), status=1
    )
    assert "Error: --only: neither study has a scenario 'drain'." == refused(
        capsys, "compare", str(tmp_path), str(tmp_path), "--only", "drain"
    )
