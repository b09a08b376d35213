"""What a gateway on the virtual network recorded, tried under other settings."""

from pathlib import Path
from typing import Any

import attrs
import trio
from trio.testing import MockClock

from sniffgate.config.schema import Config, Failback
from sniffgate.net.ports import Conn
from sniffgate.net.relay import EndReason
from sniffgate.state.backtest import Run, backtest
from sniffgate.state.cuts import Cuts, FlowSpan, cuts_in
from sniffgate.state.events import Event
from sniffgate.state.model import State
from sniffgate.state.reducer import initial_state
from sniffgate.tasks.event_log import EventLog
from sniffgate.tasks.flow_log import FlowRecord
from sniffgate.testing import VirtualGateway, open_gateway
from tests.tasks.configs import A, B, config_for

NOON_MS = 1_772_366_400_000
SETTINGS: dict[str, Any] = {"failure_threshold": 3, "success_threshold": 2, "drain_timeout": 2.0}
RECORDED = config_for(A, B, **SETTINGS)


async def hold(conn: Conn, lasting: float) -> None:
    """A client that asks once and then only listens, for `lasting` seconds or until it is cut."""
    with conn, trio.move_on_after(lasting):
        await conn.send_all(b"hi")
        while await conn.receive_some(100):
            pass


async def a_bad_minute(service: VirtualGateway) -> None:
    """node-a is unreachable for five seconds, and twenty seconds later again; clients come every two seconds."""

    async def clients() -> None:
        for lasting in [40.0, 3.0] * 15:
            service.nursery.start_soon(hold, await service.connect(), lasting)
            await trio.sleep(2)

    service.nursery.start_soon(clients)
    for _ in range(2):
        await trio.sleep(5)
        with service.nodes["node-a"].black_hole():
            await trio.sleep(5)
        await trio.sleep(15)
    await trio.sleep(20)


async def recorded(path: Path) -> tuple[list[str], list[FlowSpan]]:
    """The event log and the flows of that minute."""
    flows: list[FlowSpan] = []
    log = EventLog(path, 64, initial_state(RECORDED, wall_ms=NOON_MS), wall_ms=lambda: NOON_MS)

    def observe(before: State, event: Event, after: State) -> None:
        del before
        log.record(attrs.evolve(event, wall_ms=NOON_MS + round(event.at * 1000)), after)

    def note(record: FlowRecord) -> None:
        ended = NOON_MS + record.at * 1000
        flows.append(
            FlowSpan(
                listener=record.listener, node=record.node or "-", began_ms=ended - record.duration * 1000,
                ended_ms=ended, was_cut=record.reason is EndReason.DRAINED,
            )
        )  # fmt: skip

    async with open_gateway(RECORDED, observers=(observe,)) as service:
        service.gateway.services.write_flow = note
        await a_bad_minute(service)
    assert log.close(10.0)
    return lines_of(path), flows


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines()


def tried(lines: list[str], config: Config) -> Run:
    (run,) = backtest(lines, config)
    assert isinstance(run, Run)
    return run


def changes(run: Run) -> list[tuple[str, str]]:
    """What switched where under the other settings."""
    return [("".join(each.switch.after)[-1:], each.switch.reason.value) for each in run.other.switches
            if str(each.switch.route) == "default/tcp"]  # fmt: skip


async def test_a_recorded_minute_under_its_own_settings_is_the_minute_itself(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    """Every switch to the instant, and every flow that was cut: then the estimate may be believed elsewhere."""
    lines, flows = await recorded(tmp_path / "events")
    run = tried(lines, RECORDED)

    assert run.is_whole
    assert run.recorded.switches == run.other.switches
    assert [("a", "start"), ("b", "failover"), ("a", "failback"), ("b", "failover"), ("a", "failback")] == changes(run)
    cut = sum(each.was_cut for each in flows)
    assert cut > 0
    assert Cuts(surely=cut, at_most=cut) == cuts_in(run.recorded, run.recorded, flows)
    assert Cuts(surely=cut, at_most=cut) == cuts_in(run.other, run.recorded, flows)


async def test_a_recorded_minute_under_other_settings(autojump_clock: MockClock, tmp_path: Path) -> None:
    """A failback by hand halves the switches, a delay moves the failback by just that delay, and patience cuts less."""
    lines, flows = await recorded(tmp_path / "events")
    manual = tried(lines, config_for(A, B, **SETTINGS, failback=Failback.MANUAL))
    delayed = tried(lines, config_for(A, B, **SETTINGS, failback_delay=1.75))
    patient = tried(lines, config_for(A, B, **SETTINGS | {"failure_threshold": 60}))
    cut = sum(each.was_cut for each in flows)

    assert [("a", "start"), ("b", "failover")] == changes(manual)
    assert changes(delayed) == [("a", "start"), *[("b", "failover"), ("a", "failback")] * 2]
    came_back = [
        [each.switch.at for each in course.switches if each.switch.reason.value == "failback"]
        for course in (delayed.recorded, delayed.other)
    ]
    assert [at + 1.75 for at in came_back[0]] == came_back[1]
    assert [("a", "start")] == changes(patient)
    assert Cuts() == attrs.evolve(cuts_in(patient.other, patient.recorded, flows), moved=0)
    assert 0 < cuts_in(manual.other, manual.recorded, flows).surely < cut
