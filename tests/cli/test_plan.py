"""`sniffgate plan` tells what a running gateway would do with another file, and tells scripts by its status."""

import json
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
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
def file(tmp_path: Path) -> Path:
    """The file that the gateway runs on."""
    return tmp_path / "sniffgate.toml"


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """The file that is to be."""
    return tmp_path / "other.toml"


@pytest.fixture
def gateway(file: Path, path: Path) -> Iterator[Program]:
    """A running gateway."""
    file.write_text(config())
    with started("run", "-c", file, "--admin", f"unix:{path}") as program:
        program.wait_listening()
        yield program
        program.signal(signal.SIGTERM)
        assert 0 == program.wait()


def test_the_file_in_force_changes_nothing_and_ends_with_zero(gateway: Program, file: Path, path: Path) -> None:
    """What the command line overrules is no change either: the file says admin_listen = ""."""
    told = finished("plan", file, "-a", f"unix:{path}")

    assert (0, "no change\n", "") == (told.returncode, told.stdout, told.stderr)


def test_every_change_is_a_line_in_the_files_own_words_and_ends_with_two(
    gateway: Program, other: Path, path: Path
) -> None:
    """What is bound, what is forgotten, where traffic goes, and what only a restart brings."""
    text = config(node="node-b", settings='drain_timeout_ms = 5000\nevent_log = "/tmp/e"')
    other.write_text(text.replace('name = "web"', 'name = "www"'))
    told = finished("plan", other, "-a", f"unix:{path}")

    assert (2, "") == (told.returncode, told.stderr)
    assert [
        "bind    listener www       tcp 127.0.0.1:0",
        "close   listener web       tcp 127.0.0.1:0",
        "add     node node-b",
        "remove  node node-a",
        "change  [global]           drain_timeout_ms 10000 -> 5000",
        'change  [global]           event_log "" -> "/tmp/e"; takes effect at the next start',
        "change  pool default       drain_timeout_ms 10000 -> 5000",
        "change  pool default       failback_drain_timeout_ms 10000 -> 5000",
        "switch  route default/tcp  node-a -> node-b",
    ] == told.stdout.splitlines()


def test_keys_of_nodes_and_listeners_are_told_with_old_and_new_values(
    gateway: Program, other: Path, path: Path
) -> None:
    """A payload may hold a password: only its length is told."""
    text = config().replace('probe = "none"', 'probe = "tcp"\nprobe_interval_ms = 500\nprobe_payload = "AUTH secret"')
    other.write_text(text.replace('name = "web"', 'name = "web"\nmax_connections = 7'))
    told = finished("plan", other, "-a", f"unix:{path}")

    assert [
        "change  listener web  tcp 127.0.0.1:0: max_connections unset -> 7",
        'change  node node-a   probe "none" -> "tcp", probe_payload "0 bytes" -> "11 bytes", '
        "probe_interval_ms unset -> 500",
    ] == told.stdout.splitlines()
    assert "secret" not in told.stdout


def test_programs_get_json(gateway: Program, other: Path, path: Path) -> None:
    """The same, as values."""
    other.write_text(config().replace("127.0.0.1:9", "127.0.0.1:10"))
    told = finished("plan", other, "-a", f"unix:{path}", "--json")

    assert 2 == told.returncode
    report = json.loads(told.stdout)
    assert {
        "ok": True,
        "file": str(other),
        "changes": True,
        "epoch": 1,
        "listeners": [],
        "nodes": [
            {
                "deed": "reset",
                "name": "node-a",
                "keys": [{"key": "tcp", "old": "127.0.0.1:9", "new": "127.0.0.1:10"}],
            }
        ],
        "settings": [],
        "routes": [],
        "draining": [],
        "warnings": [],
    } == report


def test_flows_that_would_drain_are_counted(tmp_path: Path, file: Path, other: Path, path: Path) -> None:
    """Whom the reload would hurt, and when."""
    with a_node() as port:
        text = config().replace("127.0.0.1:9", f"127.0.0.1:{port}")
        file.write_text(text)
        other.write_text(text.replace("[[nodes]]", "[[nodes]]\nenabled = false"))
        with started("run", "-c", file, "--admin", f"unix:{path}") as program:
            with socket.create_connection(program.wait_listening()) as client:
                client.sendall(b"x")
                assert b"x" == client.recv(1)
                told = finished("plan", other, "-a", f"unix:{path}")
            program.signal(signal.SIGTERM)
            assert 0 == program.wait()

    assert "drain   node-a/tcp at web  1 flow, within 10 s" in told.stdout.splitlines()


@contextmanager
def a_node() -> Iterator[int]:
    """A server that answers one client with what it sends; yields its port."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with server.accept()[0] as conn:
                while data := conn.recv(100):
                    conn.sendall(data)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            thread.join(20)


def test_people_get_a_table(gateway: Program, other: Path, path: Path) -> None:
    """Aligned, and with a header, on a terminal."""
    other.write_text(config(node="node-b"))
    status, page = shown_on_terminal("plan", str(other), "-a", f"unix:{path}")

    assert (2, True, True) == (status, "what" in page, "node-a -> node-b" in page)


def test_faults_are_a_line_each_and_the_gateway_is_not_asked(tmp_path: Path, other: Path) -> None:
    """As `check` tells them."""
    other.write_text(config(listen="127.0.0.1:99999", settings="probe_intervall_ms = 5"))
    told = finished("plan", other, "-a", f"unix:{tmp_path}/none")

    assert (1, "", 2) == (told.returncode, told.stdout, len(told.stderr.splitlines()))
    assert told.stderr.startswith(f"{other}:5: global.probe_intervall_ms: ")
    told = finished("plan", other, "-a", f"unix:{tmp_path}/none", "--json")
    assert (1, False, 2) == (told.returncode, json.loads(told.stdout)["ok"], len(json.loads(told.stdout)["errors"]))


def test_nobody_there_is_one_sentence(tmp_path: Path, other: Path) -> None:
    """The commonest failure."""
    other.write_text(config())
    told = finished("plan", other, "-a", f"unix:{tmp_path}/none")

    assert 1 == told.returncode
    assert (
        f"Error: cannot reach unix:{tmp_path}/none: there is no such socket; is the gateway running?\n" == told.stderr
    )


def test_a_stranger_is_one_sentence(other: Path) -> None:
    """Whatever listens there."""
    other.write_text(config())
    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet() -> None:
            with server.accept()[0] as conn:
                conn.sendall(b"220 mail.example ESMTP\r\n")

        thread = threading.Thread(target=greet)
        thread.start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        told = finished("plan", other, "-a", address)
        thread.join(20)

    assert (1, f"Error: {address} answers, but not as sniffgate does\n") == (told.returncode, told.stderr)


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ('{"ok":false,"error":"unknown command \'state\'"}', "unknown command 'state'"),
        ('{"ok":true}', "cannot be read"),
        ('{"ok":true,"at":1,"flows":{},"overruled":[],"state":{"schema":99,"state":{}}}', "newer than this sniffgate"),
    ],
)
def test_an_answer_of_another_version_is_one_sentence(other: Path, answer: str, sentence: str) -> None:
    """The program is upgraded before the gateway is restarted, or the other way round."""
    other.write_text(config())
    with socket.create_server(("127.0.0.1", 0)) as server:

        def reply() -> None:
            with server.accept()[0] as conn:
                conn.recv(100)
                conn.sendall(answer.encode() + b"\n")

        thread = threading.Thread(target=reply)
        thread.start()
        told = finished("plan", other, "-a", f"127.0.0.1:{server.getsockname()[1]}")
        thread.join(20)

    assert (1, 1) == (told.returncode, len(told.stderr.splitlines()))
    assert sentence in told.stderr


def test_a_token_is_shown(tmp_path: Path, file: Path, path: Path) -> None:
    """As `ctl` does it."""
    token = tmp_path / "token"
    token.touch(0o600)
    token.write_text("the first secret\n")
    file.write_text(config(settings=f'admin_token_file = "{token}"'))
    with started("run", "-c", file, "--admin", f"unix:{path}") as program:
        program.wait_listening()
        refused = finished("plan", file, "-a", f"unix:{path}")
        told = finished("plan", file, "-a", f"unix:{path}", "--token-file", token)

    assert (1, 0) == (refused.returncode, told.returncode)
    assert "authentication is required" in refused.stderr
    assert 1 == finished("plan", file, "-a", f"unix:{path}", "--token-file", tmp_path / "none").returncode
