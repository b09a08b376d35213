"""Which commands there are, how arguments reach them, and how every error becomes a status and one sentence."""

import importlib.util
import socket
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import sniffgate
from sniffgate.cli import file_to_run, starts_gateway
from sniffgate.cli.group import COMMANDS, program, run_program
from sniffgate.config.load import load_text
from tests.cli.process import COMMAND, SOON, config, finished

SHOW_IMPORTS = "import sys; from sniffgate.cli import main; main({!r}); sys.stderr.write(' '.join(sys.modules))"


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["init"], ["check", "-"]], ids=" ".join)
def test_what_needs_no_network_imports_no_trio(arguments: list[str]) -> None:
    """A shell's completion and an editor's check are to feel instant; Trio alone takes a tenth of a second."""
    told = subprocess.run(
        [sys.executable, "-c", SHOW_IMPORTS.format(arguments)],
        input=config(), capture_output=True, text=True, timeout=SOON, check=True,
    )  # fmt: skip

    assert not {"trio", "rich", "watchfiles", "asyncio"} & set(told.stderr.split())


def test_help_imports_no_command() -> None:
    """The list of commands must not cost what the commands cost."""
    told = subprocess.run(
        [sys.executable, "-c", SHOW_IMPORTS.format(["--help"])],
        capture_output=True, text=True, timeout=SOON, check=True,
    )  # fmt: skip
    loaded = {name for name in told.stderr.split() if name.startswith("sniffgate")}

    assert {"sniffgate", "sniffgate.cli", "sniffgate.cli.group", "sniffgate.cli.outcome"} == loaded
    for name, (_, line) in COMMANDS.items():
        assert f"  {name} " in told.stdout
        assert line in told.stdout


def test_a_start_imports_little_beside_trio(tmp_path: Path) -> None:
    """A gateway that is started again after a crash is away for as long as its imports take.

    The start is followed up to the bound control port and an address that is taken already. What serves the control
    port, notices changes of the file or writes an event log is imported later, when clients are being served.
    """
    file = tmp_path / "gateway.toml"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        text = config(listen=f"127.0.0.1:{taken.getsockname()[1]}")
        file.write_text(text.replace('admin_listen = ""', 'admin_listen = "127.0.0.1:0"'))
        program = "import sys, trio; before = {*sys.modules}; from sniffgate.cli import main; "
        program += f"status = main(['run', '-c', {str(file)!r}]); print(status, *sorted(sys.modules.keys() - before))"
        told = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=SOON, check=True
        )  # fmt: skip
    status, *loaded = told.stdout.split()

    assert "3" == status
    others = {name.partition(".")[0] for name in loaded} - {"sniffgate"}
    assert {"resource", "tomllib"} == others - {"datetime", "_datetime", "_pydatetime"}  # tomllib's
    late = {"server", "parsing", "protocol", "commands", "actions", "status", "snapshot", "reason", "node_report"}
    assert set() == {f"sniffgate.control.{name}" for name in late} & set(loaded)
    assert set() == {"sniffgate.cli.group", "sniffgate.state.serial", "sniffgate.state.why"} & set(loaded)


def test_the_owner_of_a_process_may_tune_it() -> None:
    """When thousands of flows are cut together, collections at the usual rate take half of the time."""
    program = "import gc, sys, sniffgate; sniffgate.tune_interpreter(); "
    program += "print(gc.get_threshold() == (5000, 5, 3), gc.get_freeze_count() > 1000, sys.getswitchinterval())"
    told = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=SOON, check=True
    )  # fmt: skip

    assert "True True 0.0005\n" == told.stdout


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ("run -c x", "x"),
        ("run --config x", "x"),
        ("--config x", "x"),
        ("-c x", "x"),
        ("run -c --log", None),
        ("run -c x --log debug", None),
        ("--config x --check", None),
        ("run", None),
        ("check x", None),
        ("", None),
    ],
)
def test_only_the_plainest_call_goes_without_the_parser(arguments: str, path: str | None) -> None:
    """Everything else is for click, which has an answer to each wrong call."""
    assert path == file_to_run(arguments.split())


@pytest.mark.parametrize("name", [name for name in COMMANDS if importlib.util.find_spec(f"sniffgate.cli.{name}")])
def test_each_command_can_be_loaded_and_explains_itself(name: str) -> None:
    """A misspelt module in the list would show only when somebody needs the command."""
    result = CliRunner().invoke(program, [name, "--help"])

    assert 0 == result.exit_code
    assert result.output.startswith(f"Usage: sniffgate {name}")


def test_without_arguments_the_help_is_shown_and_the_status_is_that_of_wrong_usage() -> None:
    """A unit file that lost its arguments must not look like a success."""
    told = finished()

    assert 2 == told.returncode
    assert "Usage: sniffgate" in told.stdout + told.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["rum"], "No such command 'rum'. Did you mean 'run'?"),
        (["run"], "Missing option '-c' / '--config'."),
        (["run", "-c", "x", "--log", "loud"], "'loud' is not one of"),
        (["--check"], "--config is missing."),
        (["--log", "info"], "--config is missing."),
        (["--config", "x", "check", "y"], "--config goes without a command; what check takes comes after it."),
        (["ctl"], "Missing argument"),
        (["ctl", "--timeout", "0", "status"], "0"),
    ],
)
def test_wrong_usage_ends_with_two(arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Supervisors and scripts tell a wrong call from a failed one."""
    assert 2 == run_program(arguments)
    said = capsys.readouterr()
    assert sentence in said.err
    assert "" == said.out


def test_the_original_flags_mean_the_same_as_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Scripts written for the predecessor go on working."""
    file = tmp_path / "gateway.toml"
    file.write_text(config())

    assert 0 == run_program(["--config", str(file), "--check"])
    assert f"{file}: ok, 1 listener, 1 node\n" == capsys.readouterr().out
    assert 0 == run_program(["--gen-config"])
    assert load_text(capsys.readouterr().out, file="example").nodes
    assert 1 == run_program(["--admin", "127.0.0.1:1", "--cmd", "status"])
    assert "Error: cannot reach 127.0.0.1:1: nobody listens there; is the gateway running?\n" == capsys.readouterr().err


def test_the_example_loads(capsys: pytest.CaptureFixture[str]) -> None:
    """`init` is where everybody begins."""
    assert 0 == run_program(["init"])
    assert () == load_text(capsys.readouterr().out, file="example").warnings


def test_the_version_is_the_package_s(capsys: pytest.CaptureFixture[str]) -> None:
    """Bug reports begin with it."""
    assert 0 == run_program(["--version"])
    assert f"sniffgate {sniffgate.__version__}\n" == capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "is_gateway"),
    [
        ("run -c x", True),
        ("--config x", True),
        ("--log debug --config x", True),
        ("-c x", True),
        ("--config x --check", False),
        ("--cmd=status", False),
        ("--help", False),
        ("ctl status", False),
        ("", False),
    ],
)
def test_signals_are_prepared_for_only_where_a_gateway_is_to_run(arguments: str, is_gateway: bool) -> None:
    """A check that is interrupted must not report that all is well."""
    assert is_gateway is starts_gateway(arguments.split())


def fail(error: BaseException) -> click.Command:
    """A command that ends with an error."""

    @click.command("fail")
    def command() -> None:
        raise error

    return command


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (KeyboardInterrupt(), 130, ""),
        (BaseExceptionGroup("from a nursery", [KeyboardInterrupt()]), 130, ""),
        (OSError("no space left"), 1, "Error: no space left\n"),
        (click.ClickException("refused"), 1, "Error: refused\n"),
        (LookupError("a bug"), 70, "Error: internal error: LookupError: a bug at "),
        (ExceptionGroup("from a nursery", [LookupError("a bug")]), 70, "Error: internal error: LookupError: a bug"),
    ],
)
def test_errors_become_a_status_and_at_most_one_sentence(
    error: BaseException,
    status: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Nobody is to read a traceback to learn that a disk is full."""
    monkeypatch.setattr(program, "get_command", lambda ctx, name: fail(error))

    assert status == run_program(["fail"])
    complaint = capsys.readouterr().err.lstrip("\n")  # click goes to a new line after the terminal's ^C
    assert complaint.startswith(said)
    assert len(complaint.splitlines()) == (1 if said else 0)


@pytest.mark.e2e
def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    """`sniffgate init | head -1` is ordinary use."""
    process = subprocess.Popen([*COMMAND, "init"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    complaint = process.stderr.read()
    process.stderr.close()

    assert 1 == process.wait(SOON)
    assert b"" == complaint


@pytest.mark.e2e
def test_a_full_disk_is_one_sentence() -> None:
    """`sniffgate init > file` that wrote half a file must not look like a success."""
    with open("/dev/full", "w") as full:
        told = subprocess.run(
            [*COMMAND, "init"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=SOON, check=False
        )

    assert 1 == told.returncode
    assert ["Error: [Errno 28] No space left on device"] == told.stderr.splitlines()


def test_the_package_offers_its_names_and_imports_them_late() -> None:
    """`import sniffgate` for its version must not pull Trio in; a name that is promised must be there."""
    told = subprocess.run(
        [sys.executable, "-c", "import sys, sniffgate; print('trio' in sys.modules)"],
        capture_output=True, text=True, timeout=SOON, check=True,
    )  # fmt: skip
    assert "False\n" == told.stdout

    for name in sniffgate.__all__:
        assert getattr(sniffgate, name) is not None
        assert name in dir(sniffgate)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = sniffgate.nonsense  # type: ignore[attr-defined]  # that is the point
