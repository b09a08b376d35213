"""`sniffgate ctl` asks a running gateway, shows people a table and programs JSON, and tells scripts by its status."""

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.process import Program, config, finished, started
from tests.cli.terminal import shown_on_terminal

pytestmark = pytest.mark.e2e


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the control port is."""
    return tmp_path / "control"


@pytest.fixture
def gateway(tmp_path: Path, path: Path) -> Iterator[Program]:
    """A running gateway."""
    file = tmp_path / "sniffgate.toml"
    file.write_text(config())
    with started("run", "-c", file, "--admin", f"unix:{path}") as program:
        program.wait_listening()
        yield program
        program.signal(signal.SIGTERM)
        assert 0 == program.wait()
    assert not path.exists()


def test_a_reply_is_one_line_of_json_when_piped(gateway: Program, path: Path) -> None:
    """That is what programs read."""
    told = finished("ctl", "-a", f"unix:{path}", "status")

    assert (0, "") == (told.returncode, told.stderr)
    assert 1 == len(told.stdout.splitlines())
    reply = json.loads(told.stdout)
    assert (True, gateway.process.pid) == (reply["ok"], reply["pid"])


def test_the_original_flag_asks_too(gateway: Program, path: Path) -> None:
    """Scripts written for the predecessor go on working."""
    told = finished("--admin", f"unix:{path}", "--cmd", "switch node-a tcp")

    assert 0 == told.returncode
    assert "node-a" == json.loads(told.stdout)["pins"]["tcp"]


@pytest.mark.parametrize("words", [["enable", "node-a"], ["enable node-a"], ['{"cmd": "enable", "node": "node-a"}']])
def test_a_command_may_be_words_or_a_whole_line(gateway: Program, path: Path, words: list[str]) -> None:
    """Both are what people type."""
    assert 0 == finished("ctl", "-a", f"unix:{path}", *words).returncode


def test_a_negative_number_is_the_gateways_to_refuse(gateway: Program, path: Path) -> None:
    """It is a bad number of seconds, and no option. Options may stand before it and behind it."""
    for words in (["-a", f"unix:{path}", "drain", "node-a", "-1"], ["drain", "node-a", "-1", "-a", f"unix:{path}"]):
        told = finished("ctl", *words)
        reply = json.loads(told.stdout)

        assert (1, "") == (told.returncode, told.stderr)
        assert "seconds must be a number of seconds from 0 to 31536000, or inf, not '-1'" == reply["error"]


@pytest.mark.parametrize("option", ["--tokn-file", "-x"])
def test_an_option_that_is_not_there_is_wrong_usage(option: str) -> None:
    """It does not become a word to the gateway."""
    told = finished("ctl", "status", option)

    assert 2 == told.returncode
    assert re.search(f"No such option:? '?{option}\\b", told.stderr)


def test_a_refused_command_ends_with_one(gateway: Program, path: Path) -> None:
    """A script must notice that nothing was switched."""
    told = finished("ctl", "-a", f"unix:{path}", "switch", "node-x")

    assert 1 == told.returncode
    assert json.loads(told.stdout)["ok"] is False


def test_commands_come_from_standard_input(gateway: Program, path: Path) -> None:
    """One line each, blank ones skipped; the status tells whether all of them were obeyed."""
    told = finished("ctl", "-a", f"unix:{path}", "-", text="\nstatus\nswitch node-x\nstats\nquit\nnonsense\n")

    assert 1 == told.returncode
    assert [True, False, True] == [json.loads(line)["ok"] for line in told.stdout.splitlines()]


@pytest.mark.parametrize(("words", "status"), [(["status"], 0), (["switch", "node-x"], 1)])
def test_people_get_a_table_or_a_sentence(gateway: Program, path: Path, words: list[str], status: int) -> None:
    """JSON is not for reading aloud in an incident."""
    ended, shown = shown_on_terminal("ctl", "-a", f"unix:{path}", *words)

    assert status == ended
    assert "node-" in shown
    assert not shown.startswith("{")


def test_each_fault_that_stops_a_reload_is_a_line(gateway: Program, path: Path, tmp_path: Path) -> None:
    """Two faults behind one another are read as one."""
    (tmp_path / "sniffgate.toml").write_text(config(settings="log_levle = 1\nfail_opne = 2"))
    ended, shown = shown_on_terminal("ctl", "-a", f"unix:{path}", "reload")

    assert 1 == ended
    assert len(shown.splitlines()) == sum(line.startswith("Error: ") for line in shown.splitlines()) >= 2


def test_nobody_there_is_one_sentence(tmp_path: Path) -> None:
    """The commonest failure: the gateway does not run, or has another address."""
    told = finished("ctl", "-a", f"unix:{tmp_path}/none", "status")

    assert 1 == told.returncode
    assert (
        f"Error: cannot reach unix:{tmp_path}/none: there is no such socket; is the gateway running?\n" == told.stderr
    )


def test_a_token_is_read_from_a_file_and_read_again_at_a_reload(tmp_path: Path, path: Path) -> None:
    """A secret that leaked is changed without a restart."""
    token, file = tmp_path / "token", tmp_path / "sniffgate.toml"
    token.touch(0o600)
    token.write_text("the first secret\n")
    file.write_text(config(settings=f'admin_token_file = "{token}"'))
    ask = ["ctl", "-a", f"unix:{path}"]
    with started("run", "-c", file, "--admin", f"unix:{path}") as program:
        program.wait_listening()
        told = finished(*ask, "status")
        assert (1, "") == (told.returncode, told.stdout)
        assert f"Error: unix:{path}: authentication is required: show its token with --token-file\n" == told.stderr
        assert 0 == finished(*ask, "--token-file", token, "status").returncode

        (tmp_path / "old").touch(0o600)
        (tmp_path / "old").write_text("the first secret\n")
        token.write_text("another secret here\n")
        program.signal(signal.SIGHUP)
        program.wait_for_line("unchanged")
        assert 0 == finished(*ask, "--token-file", token, "status").returncode
        assert 1 == finished(*ask, "--token-file", tmp_path / "old", "status").returncode
    token.chmod(0o644)
    told = finished(*ask, "--token-file", token, "status")
    assert 1 == told.returncode
    assert f"Error: {token}: others may use it (mode 0644): run chmod 600 on it\n" == told.stderr
