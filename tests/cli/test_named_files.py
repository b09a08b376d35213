"""What is wrong with the files that a configuration names is told where the configuration names them."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sniffgate.cli.group import program
from sniffgate.config.load import load_text
from sniffgate.control.files import token_faults
from tests.cli.process import config, finished, started

TOKEN = "0123456789abcdef\n"
ADMIN = 'admin_listen = "127.0.0.1:0"\nadmin_token_file = "{}"'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "sniffgate.toml"


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.touch(0o600)
    path.write_text(TOKEN)
    return path


def write(file: Path, settings: str) -> None:
    file.write_text(config(settings=settings).replace('admin_listen = ""\n', "", 1))


def checked(file: Path) -> Result:
    return CliRunner().invoke(program, ["check", str(file)], standalone_mode=False)


def ran(file: Path) -> tuple[int, str]:
    told = finished("run", "-c", file)
    return told.returncode, told.stderr.splitlines()[-1]


def test_a_good_token_and_log_are_no_fault(file: Path, token: Path, tmp_path: Path) -> None:
    """Nothing is said of what is right."""
    write(file, ADMIN.format(token) + f'\nevent_log = "{tmp_path}/events"')
    result = checked(file)

    assert (0, "") == (result.return_value, result.stderr)


@pytest.mark.parametrize(
    ("text", "mode", "message"),
    [
        ("short\n", 0o600, "a token has 16 to 4096 bytes, this one 5"),
        (TOKEN, 0o640, "others may use it (mode 0640): run chmod 600 on it"),
    ],
)
def test_a_bad_token_is_a_fault_of_its_line(file: Path, token: Path, text: str, mode: int, message: str) -> None:
    """In `check` as in `run`: an operator looks at the configuration first."""
    token.write_text(text)
    token.chmod(mode)
    write(file, ADMIN.format(token))
    fault = f"{file}:5: global.admin_token_file: {token}: {message}"
    result = checked(file)

    assert (1, f"{fault}\n") == (result.return_value, result.stderr)
    assert (1, f"Error: {fault}") == ran(file)


def test_a_missing_token_is_a_warning_for_check_and_a_fault_for_run(file: Path, tmp_path: Path) -> None:
    """A file is often checked on another machine than it runs on."""
    write(file, ADMIN.format(tmp_path / "gone"))
    fault = f"{file}:5: global.admin_token_file: {tmp_path}/gone: cannot be read: No such file or directory"
    result = checked(file)

    assert (0, f"warning: {fault}\n") == (result.return_value, result.stderr)
    assert (1, f"Error: {fault}") == ran(file)


def test_an_event_log_without_a_directory_is_a_warning_for_check_and_a_fault_for_run(
    file: Path, tmp_path: Path
) -> None:
    """Else a misspelt path costs every line of the log, and nobody knows until it is needed."""
    write(file, f'admin_listen = ""\nevent_log = "{tmp_path}/gone/events"')
    fault = f"{file}:5: global.event_log: there is no directory {tmp_path}/gone"
    result = checked(file)

    assert (0, f"warning: {fault}\n") == (result.return_value, result.stderr)
    assert (1, f"Error: {fault}") == ran(file)


def test_a_token_that_nobody_asks_for_is_not_read(file: Path, tmp_path: Path) -> None:
    """There is no control port."""
    write(file, f'admin_listen = ""\nadmin_token_file = "{tmp_path}/gone"')

    assert [] == token_faults(load_text(file.read_text(), file=str(file)), str(file))


def test_a_reload_tells_of_a_bad_token_at_its_line(file: Path, token: Path) -> None:
    """The old configuration stays, and `ctl reload` names what to mend."""
    file.write_text(config())
    with started("run", "-c", file) as gateway:
        gateway.wait_listening()
        token.write_text("short")
        write(file, ADMIN.format(token))
        said = gateway.wait_for_line("not reloaded")

    assert f"{file}:5: global.admin_token_file: {token}: a token has 16 to 4096 bytes, this one 5" in said
