"""`sniffgate check` names every fault on a line of its own, and tells scripts by its status."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sniffgate.cli.group import program
from tests.cli.process import config

BROKEN = config(listen="127.0.0.1:99999", settings="probe_intervall_ms = 5")


def checked(*arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(program, ["check", *arguments], input=text, standalone_mode=False)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "sniffgate.toml"


def test_a_good_file_is_counted(file: Path) -> None:
    """A check that says nothing leaves doubt whether it read the right file."""
    file.write_text(config())
    result = checked(str(file))

    assert (0, f"{file}: ok, 1 listener, 1 node\n") == (result.return_value, result.stdout)


def test_each_fault_is_a_line_with_file_line_and_key(file: Path) -> None:
    """All at once: an operator mends a file in one go."""
    file.write_text(BROKEN)
    result = checked(str(file))

    assert (1, "") == (result.return_value, result.stdout)
    lines = result.stderr.splitlines()
    assert 2 == len(lines)
    assert lines[0].startswith(f"{file}:5: global.probe_intervall_ms: ")
    assert lines[1].startswith(f"{file}:9: listeners[0].listen: ")


def test_a_warning_does_not_fail_the_check(file: Path) -> None:
    """What is allowed but odd is said, and may be meant."""
    file.write_text(config().replace('probe = "none"', 'probe = "udp"'))
    result = checked(str(file))

    assert 0 == result.return_value
    assert result.stderr.startswith(f"warning: {file}:")


def test_standard_input_is_checked(file: Path) -> None:
    """Templates are checked before they are written anywhere."""
    assert 0 == checked("-", text=config()).return_value
    assert checked("-", text=BROKEN).stderr.startswith("<stdin>:5: ")


@pytest.mark.parametrize(("text", "is_ok"), [(config(), True), (BROKEN, False)])
def test_programs_get_json(file: Path, text: str, is_ok: bool) -> None:
    """A pipeline annotates the lines that are wrong."""
    file.write_text(text)
    result = checked(str(file), "--json")
    found = json.loads(result.stdout)

    assert (0 if is_ok else 1) == result.return_value
    assert is_ok is found["ok"]
    assert ([] if is_ok else [5, 9]) == [fault["line"] for fault in found["faults"]]
    assert [] == found["warnings"]
