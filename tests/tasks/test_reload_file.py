"""A reload from the file is all or nothing, one at a time, and says how it ended."""

# ruff: noqa: ASYNC240 - a test may wait for its own disk, and what it waits for elsewhere has no event

from pathlib import Path

import pytest
import trio

from sniffgate.address import Address
from sniffgate.config.load import load_text
from sniffgate.config.schema import Config
from sniffgate.errors import ConfigError, Fault
from sniffgate.tasks.config_file import ConfigFile, digest_of
from sniffgate.tasks.reload import Reloader
from tests.tasks.file_gateway import config, gateway_from, nodes_of, said


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "sniffgate.toml"
    path.write_text(config())
    return path


async def test_a_good_file_is_put_in_force(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The report is what `status` shows."""
    async with gateway_from(file) as gateway:
        file.write_text(config("node-b"))
        report = await gateway.reload()

        assert ["node-b"] == nodes_of(gateway)
        assert (True, f"reloaded, epoch {gateway.state.epoch}", str(file)) == (report.ok, report.message, report.path)
        assert gateway.reload_report is report
    assert 1 == len(said(caplog, report.message))


async def test_an_unchanged_file_is_no_event(file: Path) -> None:
    """Fifty reloads of the same file must not disturb anything."""
    async with gateway_from(file) as gateway:
        before = gateway.state
        report = await gateway.reload()

        assert (True, "unchanged") == (report.ok, report.message)
        assert before is gateway.state


async def test_a_faulty_file_changes_nothing_and_every_fault_is_in_the_report(file: Path) -> None:
    """File, line and key, as at a start."""
    async with gateway_from(file) as gateway:
        before = gateway.state
        file.write_text(config("node-b", listen="10.0.0.9:99999", settings="connect_retry = 0"))
        report = await gateway.reload()

        assert not report.ok
        assert [f"{file}:4: global.connect_retry", f"{file}:8: listeners[0].listen"] == [
            ": ".join(line.split(": ")[:2]) for line in report.message.splitlines()
        ]
        assert before is gateway.state


async def test_an_address_that_is_taken_changes_nothing_and_a_second_try_may_succeed(file: Path) -> None:
    """The file is as it was, but the world is not: a reload that is asked for is done."""
    async with gateway_from(file) as gateway:
        taken = await gateway.services.network.listen_tcp(Address("10.0.0.9", 81))
        before = gateway.state
        file.write_text(config("node-b", listen="10.0.0.9:81"))
        report = await gateway.reload()
        assert not report.ok
        assert "10.0.0.9:81" in report.message
        assert before is gateway.state

        taken.close()
        assert (await gateway.reload()).ok
        assert Address("10.0.0.9", 81) == gateway.addresses["web"]


async def test_going_back_to_the_file_in_force_clears_the_error(file: Path) -> None:
    """An undone mistake must not stay on the operator's screen."""
    async with gateway_from(file) as gateway:
        file.write_text("nonsense")
        assert not (await gateway.reload()).ok
        file.write_text(config())
        report = await gateway.reload()

        assert (True, "unchanged") == (report.ok, report.message)


async def test_what_needs_a_restart_is_said_until_there_is_one(file: Path) -> None:
    """A setting that silently does nothing is worse than one that is refused."""
    settings = 'admin_listen = "127.0.0.1:9999"'
    async with gateway_from(file) as gateway:
        file.write_text(config(settings=settings))
        one = (await gateway.reload()).message
        file.write_text(config(settings=settings + '\nevent_log = "/nowhere/events"'))
        two = (await gateway.reload()).message
        file.write_text(config("node-b"))
        none = (await gateway.reload()).message

    assert one.endswith("; admin_listen takes effect at the next start")
    assert two.endswith("; admin_listen, event_log take effect at the next start")
    assert "start" not in none


async def test_reloads_at_once_come_one_after_the_other(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A signal, the watcher and an operator may all ask in one moment."""
    async with gateway_from(file) as gateway:
        file.write_text(config("node-b"))
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(gateway.reload)

        assert ["node-b"] == nodes_of(gateway)
    assert 1 == len(said(caplog, "reloaded, epoch"))
    assert 2 == len(said(caplog, "unchanged"))


async def test_the_command_line_has_the_last_word_and_a_check_may_refuse(file: Path) -> None:
    """Overrides survive reloads; what only the application can check is checked before anything is applied."""
    in_force: list[str] = []

    def refuse_c(new: Config) -> None:
        if new.node("node-c") is not None:
            raise ConfigError(Fault("token", 0, "", "cannot be read"))

    def amend(new: Config) -> Config:
        return load_text(config("amended"), file="") if new.node("node-b") is not None else new

    async with gateway_from(file) as gateway:
        gateway.reloader = Reloader(
            ConfigFile(file),
            digest_of(file.read_bytes()),
            amend=amend,
            check=refuse_c,
            in_force=lambda new: in_force.extend(node.name for node in new.nodes),
        )
        file.write_text(config("node-b"))
        assert (await gateway.reload()).ok
        file.write_text(config("node-c"))
        refused = await gateway.reload()

        assert ["amended"] == nodes_of(gateway)
        assert (False, "token: cannot be read") == (refused.ok, refused.message)
    assert ["amended"] == in_force


async def test_warnings_of_the_new_file_are_logged(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What is probably not meant should be read by somebody."""
    async with gateway_from(file) as gateway:
        file.write_text(config().replace('probe = "none"', 'probe = "udp"'))
        assert (await gateway.reload()).ok

        assert 1 == len(gateway.state.config.warnings)
        assert [gateway.state.config.warnings[0]] == said(caplog, gateway.state.config.warnings[0])


async def test_a_gateway_without_a_file_says_so(file: Path) -> None:
    """Embedded, there may be nothing to read."""
    async with gateway_from(file) as gateway:
        gateway.reloader = None
        report = await gateway.reload()

        assert (False, "there is no configuration file to read") == (report.ok, report.message)


async def test_a_gateway_that_is_stopping_takes_no_new_configuration(file: Path) -> None:
    """A listener opened during the drain would never be closed."""
    async with gateway_from(file) as gateway:
        gateway.stop(10.0)
        file.write_text(config("node-b", listen="10.0.0.9:81"))
        report = await gateway.reload()

        assert (False, "the gateway is stopping") == (report.ok, report.message)
