"""The gateway as a process: how it starts, reloads, stops and says what is wrong."""

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.process import COMMAND, SOON, config, finished, started, wait_for, wait_until_caught

pytestmark = pytest.mark.e2e

STOPS = [signal.SIGTERM, signal.SIGINT]
UNSHARE = ["unshare", "-Urpf", "--mount-proc"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A configuration file."""
    path = tmp_path / "sniffgate.toml"
    path.write_text(config())
    return path


def can_unshare() -> bool:
    """Whether this machine lets us have process namespaces."""
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*UNSHARE, "true"], capture_output=True, timeout=SOON, check=False).returncode == 0


def answers(port: int) -> bool:
    """Whether somebody takes connections there."""
    with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port), SOON):
        return True
    return False


@pytest.mark.parametrize("number", STOPS, ids=lambda each: each.name)
def test_a_signal_in_the_first_moments_ends_it_quietly(file: Path, number: signal.Signals) -> None:
    """Supervisors stop what they have just started, and take any other status for a crash."""
    with started("run", "-c", file) as program:
        wait_until_caught(program.process.pid, signal.SIGHUP)  # set last
        program.signal(number)

        assert 0 == program.wait()
        assert [] == program.said


def test_a_hangup_in_the_first_moments_is_survived(file: Path) -> None:
    """A reload that is sent too early finds nothing to reload; it must not kill."""
    with started("run", "-c", file) as program:
        wait_until_caught(program.process.pid, signal.SIGHUP)
        program.signal(signal.SIGHUP)
        program.wait_listening()
        program.signal(signal.SIGTERM)

        assert 0 == program.wait()


@pytest.mark.parametrize("number", STOPS, ids=lambda each: each.name)
def test_an_idle_gateway_stops_at_once_with_zero(file: Path, number: signal.Signals) -> None:
    """Nobody is to wait for nothing."""
    with started("run", "-c", file) as program:
        program.wait_listening()
        began = time.monotonic()
        program.signal(number)

        assert 0 == program.wait()
        assert time.monotonic() - began < 3.0
        assert not any("Traceback" in line for line in program.said)


def test_the_first_signal_lets_flows_finish_and_the_second_cuts_them(tmp_path: Path) -> None:
    """A drain that an operator has not the time for can be cut short."""
    file = tmp_path / "sniffgate.toml"
    with socket.create_server(("127.0.0.1", 0)) as node:
        node.settimeout(SOON)
        text = config(settings="shutdown_grace_ms = 600000").replace(
            "127.0.0.1:9", f"127.0.0.1:{node.getsockname()[1]}"
        )
        file.write_text(text)
        with started("run", "-c", file) as program, socket.create_connection(program.wait_listening(), SOON) as client:
            served, _ = node.accept()
            with served:
                served.settimeout(SOON)
                program.signal(signal.SIGTERM)
                program.wait_for_line("stopping signal=SIGTERM")
                client.sendall(b"still here")
                assert b"still here" == served.recv(100)

                program.signal(signal.SIGTERM)
                assert 0 == program.wait()


@pytest.mark.skipif(not can_unshare(), reason="needs process namespaces")
def test_as_first_process_of_a_container_it_stops_too(file: Path) -> None:
    """For process 1 the kernel drops signals that have no handler."""
    with started("run", "-c", file, command=[*UNSHARE, "--kill-child", *COMMAND]) as program:
        program.wait_listening()
        children = Path(f"/proc/{program.process.pid}/task/{program.process.pid}/children").read_text().split()
        assert 1 == len(children)
        os.kill(int(children[0]), signal.SIGTERM)

        assert 0 == program.wait()


def test_a_hangup_reloads_and_opens_the_event_log_anew(tmp_path: Path) -> None:
    """It is what logrotate and operators send."""
    file, events = tmp_path / "sniffgate.toml", tmp_path / "events"
    settings = f'event_log = "{events}"'
    file.write_text(config(settings=settings))
    with started("run", "-c", file) as program:
        program.wait_listening()
        wait_for(lambda: events.exists() and events.stat().st_size > 0)  # a thread of its own writes it
        events.rename(tmp_path / "events.1")
        file.write_text(config(node="node-b", settings=settings))
        program.signal(signal.SIGHUP)
        program.wait_for_line(r"reloaded, epoch \d+")
        program.signal(signal.SIGTERM)

        assert 0 == program.wait()
    assert '"type":"header"' in events.read_text().replace(" ", "").splitlines()[0]
    assert 0 == finished("replay", tmp_path / "events.1").returncode
    assert 0 == finished("replay", events).returncode


def test_the_log_level_follows_a_reload_unless_the_command_line_has_one(file: Path) -> None:
    """What can take effect at once does."""
    with started("run", "-c", file) as program:
        program.wait_listening()
        file.write_text(config(settings='log_level = "error"'))
        program.signal(signal.SIGHUP)
        program.wait_for_line("reloading")
        file.write_text(config(node="node-b", settings='log_level = "info"'))
        program.wait_for_line("reloaded")
        program.signal(signal.SIGTERM)
        assert 0 == program.wait()


def test_a_broken_configuration_ends_with_one_and_names_every_fault(file: Path) -> None:
    """File, line and key: what an operator needs to mend it."""
    file.write_text(config(listen="127.0.0.1:99999", settings="probe_intervall_ms = 5"))
    told = finished("run", "-c", file)

    assert 1 == told.returncode
    assert "" == told.stdout
    lines = told.stderr.splitlines()
    assert [f"Error: {file}:5: global.probe_intervall_ms: ", f"Error: {file}:9: listeners[0].listen: "] == [
        re.sub(r"(: [\w.\[\]]+: ).*", r"\1", line) for line in lines
    ]


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    """The commonest mistake of all."""
    told = finished("run", "-c", tmp_path / "none.toml")

    assert (1, f"Error: {tmp_path}/none.toml: there is no such file\n") == (told.returncode, told.stderr)


@pytest.mark.parametrize("which", ["listener", "control port"])
def test_an_address_that_is_taken_ends_with_three(tmp_path: Path, which: str) -> None:
    """A second instance must fail, clearly, and leave the first alone."""
    file = tmp_path / "sniffgate.toml"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        file.write_text(config(listen=address) if which == "listener" else config())
        told = finished("run", "-c", file, *(["--admin", address] if which == "control port" else []))

    assert 3 == told.returncode
    assert 1 == len(told.stderr.splitlines())
    assert which in told.stderr
    assert address in told.stderr


def test_the_original_flags_run_a_gateway(file: Path) -> None:
    """Unit files and scripts need no change."""
    with started("--config", file, "--log", "debug", "--admin", "127.0.0.1:0") as program:
        line = program.wait_for_line("ready")
        assert re.search(r"admin=127\.0\.0\.1:\d+", line)
        program.signal(signal.SIGTERM)
        assert 0 == program.wait()


def test_a_bug_in_the_gateway_ends_with_seventy_and_one_sentence(file: Path) -> None:
    """Supervisors start it again; the traceback is in the log for whoever mends it."""
    script = """if True:
        import sys, sniffgate.app, sniffgate.cli
        async def crash(*arguments, **options):
            raise LookupError("a bug")
        sniffgate.app.serve_until_signalled = crash
        sys.exit(sniffgate.cli.main())
    """
    with started("run", "-c", file, command=[sys.executable, "-c", script]) as program:
        assert 70 == program.wait()
    assert "critical sniffgate: internal error" in program.said[0]
    assert "LookupError: a bug" in program.said
    assert "Error: internal error; its traceback stands above." == program.said[-1]


def test_flows_are_capped_by_the_descriptors_there_are(file: Path) -> None:
    """What the configuration asks for and cannot have is said at the start, not when clients fail."""
    file.write_text(config().replace("\nlisten", "\nmax_connections = 1000\nlisten"))
    shell = ["sh", "-c", 'ulimit -n 256; exec "$@"', "sh"]
    with started("run", "-c", file, command=[*shell, *COMMAND]) as program:
        program.wait_for_line("max_connections is 1000, but the limit of 256 open files allows 78 flows in all")
        program.wait_listening()
        limits = Path(f"/proc/{program.process.pid}/limits").read_text()
        assert re.search(r"^Max open files +256 +256 ", limits, re.MULTILINE)


def test_a_pipe_that_nobody_reads_delays_nothing(tmp_path: Path) -> None:
    """A supervisor that stopped reading must not stop the gateway, nor keep it from ending."""
    file = tmp_path / "sniffgate.toml"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    file.write_text(config(listen=f"127.0.0.1:{port}", settings='flow_log = "all"'))
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    try:
        while True:
            os.write(writing, b"x" * 65536)
    except BlockingIOError:
        os.set_blocking(writing, True)
    process = subprocess.Popen([*COMMAND, "run", "-c", str(file)], stdin=subprocess.DEVNULL, stderr=writing)
    os.close(writing)
    try:
        wait_for(lambda: answers(port))
        process.send_signal(signal.SIGTERM)
        assert 0 == process.wait(SOON)
    finally:
        process.kill()
        process.wait(SOON)
        os.close(reading)


def test_without_standard_descriptors_no_client_becomes_one(file: Path) -> None:
    """A log line written into a client's connection would be data that its node never sent."""
    script = "import os, sys; os.closerange(0, 3); os.execv(sys.executable, sys.argv[1:])"
    process = subprocess.Popen(
        [sys.executable, "-c", script, *COMMAND, "run", "-c", str(file)],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        fds = Path(f"/proc/{process.pid}/fd")
        wait_for(lambda: any(target.startswith("socket:") for target in targets(fds)))
        assert ["/dev/null"] * 3 == [os.readlink(fds / str(number)) for number in range(3)]
        process.send_signal(signal.SIGTERM)
        assert 0 == process.wait(SOON)
    finally:
        process.kill()
        process.wait(SOON)


def targets(fds: Path) -> list[str]:
    """What the descriptors of a process lead to, as far as they last long enough to be asked."""
    found = []
    for link in fds.iterdir():
        with contextlib.suppress(OSError):
            found.append(os.readlink(link))
    return found
